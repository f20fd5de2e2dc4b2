"""A role's LeaderWorkerSets and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.engines.engine import ContainerCommand, EngineCommand
from fusioninfer_pulumi.pods.records import Wiring


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
        scaled_externally: Whether something else, such as an autoscaler, sets the replicas of its
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
    leader_launch: ContainerCommand | None
    worker_launch: ContainerCommand | None
    wiring: Wiring | None = None
    env: tuple[Mapping[str, str], ...] = ()
    scaled_externally: bool = False

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
