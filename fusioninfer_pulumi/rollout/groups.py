"""The settings of `rollout.level: Group`: whole serving groups change, one after the other.

All LeaderWorkerSets of a group change together, and the next group follows when its required
ones are available again. The other groups serve meanwhile, and prefill and decode of one group
have the same revision. At creation nothing waits: different groups are different gangs.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.rollout import RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.topology.role import replicas_of
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class GroupRollout:
    """The rolling update settings of serving groups, with defaults.

    Attributes:
        max_unavailable: Groups that the update may make unavailable.
        partition: Groups with lower indexes keep their pod templates.
    """

    max_unavailable: int
    partition: int
    strategy: RolloutStrategy

    @property
    def side_by_side(self) -> int | None:
        """Groups that may change at the same time, None for all."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


def by_group(plan: Topology) -> bool:
    """Returns whether the serving groups of a service change as a whole."""
    return plan.rollout.level is RolloutLevel.GROUP and plan.groups is not None


def group_rollout(plan: Topology) -> GroupRollout:
    """Returns the settings of a service's groups: its `rollout`, else the defaults."""
    limit = plan.rollout.max_unavailable
    groups = plan.groups or 0
    return GroupRollout(
        replicas_of(1 if limit is None else limit, groups),
        plan.rollout.partition or 0,
        plan.rollout.strategy or RolloutStrategy.ROLLING,
    )
