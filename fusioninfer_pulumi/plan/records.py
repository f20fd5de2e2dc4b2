"""What a plan consists of: frozen records, without any Kubernetes object in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.launch import Launch
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.day_two.records import DayTwoPlan
from fusioninfer_pulumi.plan.disaggregation.records import Wiring
from fusioninfer_pulumi.plan.model import ModelPlan
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.service_meta import ServiceMeta
from fusioninfer_pulumi.spec.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.spec.rollout import Layout, RolloutArgs, WaitArgs
from fusioninfer_pulumi.spec.scheduling import NetworkTopologyArgs


@dataclass(frozen=True)
class ReplicaPlan:
    """One replica of a role.

    Attributes:
        index: Ordinal, from 0.
        name: Name of its LeaderWorkerSet; of its leader pod where one set runs all replicas.
        task: `{role}-{index}`, its Volcano task where it has one of its own.
        group: Serving group that it belongs to, None where the service has no groups.
    """

    index: int
    name: str
    task: str
    group: int | None = None


@dataclass(frozen=True)
class SetPlan:
    """One LeaderWorkerSet of a role.

    Attributes:
        name: Its name.
        task: Volcano task of its pods; where it runs all replicas of a role they share one, as
            they share a template.
        replicas: The replicas that it runs: its groups, in the order of the group index.
        ordinal: Ordinal of its only replica; None for the one set of a role that runs all of its
            replicas.
        group: Serving group that it belongs to, None where the service has no groups.
    """

    name: str
    task: str
    replicas: tuple[ReplicaPlan, ...]
    ordinal: int | None
    group: int | None = None


@dataclass(frozen=True)
class ServingContainer:
    """The container that serves the model.

    Attributes:
        name: Its name.
        port: Port that it serves on.
        command: What is known of its engine's command line.
    """

    name: str
    port: int
    command: EngineCommand


@dataclass(frozen=True)
class RolePlan:
    """A role that runs pods.

    Attributes:
        position: Index of the role in the spec.
        args: The role, with what its short fields stand for in its templates.
        serving: Its serving container, in the leader's template.
        sets: The LeaderWorkerSets of all serving groups, group by group; none when the role is
            parked.
        nodes: Pods in one replica.
        leader_accelerators: Accelerators that the leader asks for.
        worker_accelerators: Accelerators that each worker asks for.
        launcher: How the pods of a replica find each other, None for single pods.
        leader_launch: Command of the serving container on leaders, None to leave it as written.
        worker_launch: The same on workers.
        wiring: What pods get that hand their KV cache over, None for all others.
        env: Variables of the serving container that its author has not set, on every pod.
        scaled_elsewhere: Whether something else, such as an autoscaler, sets the replicas of its
            one LeaderWorkerSet once it exists; only for layout PerRole.
    """

    position: int
    args: RoleArgs
    serving: ServingContainer
    sets: tuple[SetPlan, ...]
    nodes: int
    leader_accelerators: int
    worker_accelerators: int
    launcher: Launcher | None
    leader_launch: Launch | None
    worker_launch: Launch | None
    wiring: Wiring | None = None
    env: tuple[Mapping[str, str], ...] = ()
    scaled_elsewhere: bool = False

    @cached_property
    def replicas(self) -> tuple[ReplicaPlan, ...]:
        """The replicas of all sets, none when the role is parked."""
        return tuple(replica for each in self.sets for replica in each.replicas)

    @property
    def group_replicas(self) -> int:
        """Replicas in one serving group; of the service where there are no groups."""
        return self.replicas[-1].index + 1 if self.replicas else 0

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.args.name

    @property
    def component_type(self) -> ComponentType:
        """What the role does."""
        return self.args.component_type

    @property
    def engine_port(self) -> int:
        """Port that the engine listens on, behind a sidecar where there is one."""
        return self.wiring.engine_port if self.wiring is not None else self.serving.port

    @property
    def leader_template(self) -> Mapping[str, Any]:
        """Pod template of the leaders, with what the role's short fields stand for."""
        return self.args.leader_template or self.args.template or {}

    @property
    def worker_template(self) -> Mapping[str, Any]:
        """Pod template of the workers, with what the role's short fields stand for."""
        return self.args.worker_template or self.args.template or {}

    @property
    def requesting_leader(self) -> Mapping[str, Any]:
        """Pod template of the leaders as far as requests go: with those of a sidecar."""
        template = self.leader_template
        if self.wiring is None or self.wiring.sidecar is None:
            return template
        beside = {"restartPolicy": "Always", "resources": self.wiring.sidecar.resources}
        spec = template["spec"]
        return {"spec": {**spec, "initContainers": [*(spec.get("initContainers") or ()), beside]}}

    @property
    def total_pods(self) -> int:
        """Pods of all replicas."""
        return len(self.replicas) * self.nodes

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators of the largest pod."""
        return max(self.pod_sizes)

    @property
    def pod_sizes(self) -> tuple[int, ...]:
        """Accelerators of each pod of a replica, the leader first."""
        return (self.leader_accelerators, *(self.worker_accelerators,) * (self.nodes - 1))

    @property
    def replica_accelerators(self) -> int:
        """Accelerators of one replica."""
        return self.leader_accelerators + self.worker_accelerators * (self.nodes - 1)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all replicas."""
        return self.replica_accelerators * len(self.replicas)


@dataclass(frozen=True)
class SubGroup:
    """The share of one role in a gang that may run in part.

    Attributes:
        role: Name of the role.
        size: Pods in one replica, all of which start together.
        minimum: Replicas that must be placed together with the rest of the minimum.
        lowest: Whether these are the ones with the lowest ordinals, and none stands in for them.
    """

    role: str
    size: int
    minimum: int
    lowest: bool = False


@dataclass(frozen=True)
class GangPlan:
    """What the scheduler places only together: a service, or one of its serving groups.

    Attributes:
        pod_group: Name of the PodGroup.
        min_member: Pods that must be placed together.
        partial: Whether replicas may be left out of the minimum; else it is all-or-nothing.
        tasks: Pods of each `{role}-{replica}` in the literal, all-or-nothing form; else None.
        sub_groups: Shares of the roles in the form that may run in part; else None.
        min_accelerators: Accelerators of the minimum.
        min_resources: Resource requests of the minimum, None to leave them out.
        queue: Volcano queue, None for Volcano's default.
        priority_class: PriorityClass, None for none.
        group: Serving group that it is, None where the service has no groups.
        topology: How close to each other in the network its pods are placed.
        replica_label: Label of pods that tells the replicas of a role apart.
    """

    pod_group: str
    min_member: int
    partial: bool
    tasks: Mapping[str, int] | None
    sub_groups: tuple[SubGroup, ...] | None
    min_accelerators: int
    min_resources: Mapping[str, str] | None = None
    queue: str | None = None
    priority_class: str | None = None
    group: int | None = None
    topology: NetworkTopologyArgs | None = None
    replica_label: str = labels.REPLICA_INDEX


@dataclass(frozen=True, kw_only=True)
class Topology(ServiceMeta):
    """The pods of a service, and which of them are scheduled together.

    Attributes:
        roles: Roles that run pods, in the order of the spec.
        groups: Serving groups, None where the service has none.
        gangs: The gang of the service, or those of its serving groups, which differ in their names
            only; none where pods are scheduled one by one or none exist.
        scheduler_name: Scheduler of the pods, None for the pod templates' own.
        gang_scheduled: Whether the topology asks for a gang (also while no replica exists).
        queue: Volcano queue of the service, None for the default.
        priority_class: PriorityClass of the pods.
        layout: Which LeaderWorkerSets run the replicas.
        rollout: How pod templates change, as the user wrote it.
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
        """The gang, of the first serving group where there are several; None without gangs."""
        return self.gangs[0] if self.gangs else None

    @property
    def total_pods(self) -> int:
        """Pods of all serving roles."""
        return sum(role.total_pods for role in self.roles)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all serving roles."""
        return sum(role.total_accelerators for role in self.roles)


@dataclass(frozen=True, kw_only=True)
class ServicePlan(Topology):
    """Everything that follows from a service's spec, before any Kubernetes object is written.

    Attributes:
        routers: Router roles.
        router: The router, None without a router role or where it could not be planned.
        findings: What is to be said about the input, errors first.
        day_two: Disruption budgets and monitors.
        model: What the model needs beside the pods, None without one.
    """

    routers: tuple[RoleArgs, ...]
    router: RouterPlan | None
    findings: tuple[Finding, ...]
    day_two: DayTwoPlan = field(default_factory=DayTwoPlan)
    model: ModelPlan | None = None
