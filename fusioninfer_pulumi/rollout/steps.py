"""The steps of an update."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.kube.durations import times
from fusioninfer_pulumi.topology.gang import minima_of, required_replicas
from fusioninfer_pulumi.topology.role import RolePlan, SetPlan
from fusioninfer_pulumi.topology.role_rollout import RoleRollout
from fusioninfer_pulumi.topology.topology import Topology

Names = tuple[str, ...]

#: Sets that change side by side at most, so that the graph stays small.
MAX_LANES = 32


@dataclass(frozen=True)
class SetStep:
    """One set in the rollout.

    Attributes:
        name: Name of the LeaderWorkerSet.
        role: Its role.
        after: Sets that have to be done before.
        required: Whether the service needs it; the others run where there is room.
        frozen: Whether it keeps the pod template that it has.
        rollout: How its role changes.
        timeout: How long an update of it may take: that of a replica, as often as it takes.
        partial: Whether some of its replicas may lack room for ever.
        scaled_externally: Whether something else sets its replicas.
        whole: Whether it runs all replicas of its role.
    """

    name: str
    role: str
    after: tuple[str, ...]
    required: bool
    frozen: bool
    rollout: RoleRollout
    timeout: str
    partial: bool = False
    scaled_externally: bool = False
    whole: bool = False

    @property
    def paced(self) -> bool:
        """Whether a change of it waits until it is available again."""
        return self.required and self.rollout.strategy is not RolloutStrategy.ALL_AT_ONCE


def required_ordinals(plan: Topology, role: RolePlan) -> int:
    """Replicas that a role, in each serving group, cannot do without: the lowest ordinals.

    The scheduler fills those first.
    """
    return min(required_replicas([role], minima_of(plan.gang))[role.name], role.group_replicas)


def whole_role(
    role: RolePlan, planned: SetPlan, rollout: RoleRollout, required: int, before: Names
) -> SetStep:
    """The one set of a role: LeaderWorkerSet paces what is in it, and holds the partition."""
    count = len(planned.replicas)
    # Maybe one after the other, whatever maxUnavailable says: StatefulSets take several pods down
    # at a time only where the feature gate MaxUnavailableStatefulSet is on.
    steps = 1 if rollout.strategy is RolloutStrategy.RECREATE else count
    return SetStep(
        planned.name,
        role.name,
        before,
        required=required > 0,
        frozen=False,
        rollout=rollout,
        timeout=times(rollout.timeout, steps),
        partial=required < count,
        scaled_externally=role.scaled_externally,
        whole=True,
    )
