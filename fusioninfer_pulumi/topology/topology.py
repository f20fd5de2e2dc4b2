"""The pods of a service and their gangs."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.rollout import Layout, RolloutArgs, WaitArgs
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.topology.gang import GangPlan
from fusioninfer_pulumi.topology.role import RolePlan


@dataclass(frozen=True, kw_only=True)
class Topology(ServiceMeta):
    """The pods of a service and their gangs.

    Attributes:
        roles: Roles that run pods, in the order of the spec.
        groups: Number of serving groups, None where the service has none.
        gangs: The gang of the service, or one for each serving group, which differ only in their
            names. Empty if pods are scheduled one by one or none exist.
        scheduler_name: Scheduler of the pods, None for the pod templates' own.
        gang_scheduled: Whether the service needs a gang (also while no replica exists).
        queue: Volcano queue of the service, None for the default.
        priority_class: PriorityClass of the pods.
        layout: Which LeaderWorkerSets run the replicas.
        rollout: The `rollout` settings as the user wrote them.
        wait: What an update waits for.
    """

    roles: tuple[RolePlan, ...]
    groups: int | None
    gangs: tuple[GangPlan, ...]
    scheduler_name: str | None
    gang_scheduled: bool
    queue: str | None
    priority_class: str | None
    layout: Layout
    rollout: RolloutArgs
    wait: WaitArgs

    @property
    def gang(self) -> GangPlan | None:
        """The gang, of the first serving group if there are several; None without gangs."""
        return self.gangs[0] if self.gangs else None

    @property
    def total_pods(self) -> int:
        """Pods of all serving roles."""
        return sum(role.total_pods for role in self.roles)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all serving roles."""
        return sum(role.total_accelerators for role in self.roles)
