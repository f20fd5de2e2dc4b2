"""The steps of an update."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.kube.durations import times
from fusioninfer_pulumi.topology.gang import minima_of, required_replicas
from fusioninfer_pulumi.topology.role import LwsPlan, RolePlan
from fusioninfer_pulumi.topology.role_rollout import RoleRollout
from fusioninfer_pulumi.topology.topology import Topology

Names = tuple[str, ...]

#: LeaderWorkerSets that change in parallel at most, which keeps the dependency graph small.
MAX_LANES = 32


@dataclass(frozen=True)
class LwsStep:
    """The update of one LeaderWorkerSet.

    Attributes:
        name: Name of the LeaderWorkerSet.
        role: Its role.
        after: LeaderWorkerSets that must be complete before it starts.
        required: Whether the service needs it; optional ones run if there are enough accelerators.
        frozen: Whether it keeps its pod template.
        rollout: The rollout settings of its role.
        timeout: How long its update may take: a replica's timeout, times the replicas in sequence.
        partial: Whether some of its replicas may stay pending.
        scaled_externally: Whether an autoscaler or another program sets its replicas.
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
        """Whether the update waits until it is available again."""
        return self.required and self.rollout.strategy is not RolloutStrategy.ALL_AT_ONCE


def required_ordinals(plan: Topology, role: RolePlan) -> int:
    """Returns how many replicas of a role, in each serving group, are required.

    These are the lowest ordinals, which the scheduler places first.
    """
    return min(required_replicas([role], minima_of(plan.gang))[role.name], role.group_replicas)


def whole_role(
    role: RolePlan, planned: LwsPlan, rollout: RoleRollout, required: int, before: Names
) -> LwsStep:
    """Returns the step of a role's only LeaderWorkerSet, which orders its own replicas."""
    count = len(planned.replicas)
    # Possibly in sequence: StatefulSets honour maxUnavailable only with the feature gate
    # MaxUnavailableStatefulSet.
    steps = 1 if rollout.strategy is RolloutStrategy.RECREATE else count
    return LwsStep(
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
