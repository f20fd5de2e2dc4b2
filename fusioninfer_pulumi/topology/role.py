"""A role's LeaderWorkerSets and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType, Launcher, RoleArgs
from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.resources import accelerators
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context


@dataclass(frozen=True)
class ReplicaPlan:
    """One replica of a role.

    Attributes:
        index: Ordinal, from 0.
        name: Name of its LeaderWorkerSet; of its leader pod where one runs all replicas.
        task: `{role}-{index}`, its Volcano task where it has one of its own.
        group: Serving group that it belongs to, None where the service has no groups.
    """

    index: int
    name: str
    task: str
    group: int | None = None


@dataclass(frozen=True)
class LwsPlan:
    """One LeaderWorkerSet of a role.

    Attributes:
        task: Volcano task of its pods; where it runs all replicas of a role they share one, as
            they share a template.
        replicas: The replicas that it runs: its groups, in the order of the group index.
        ordinal: Ordinal of its only replica; None where it runs all replicas of a role.
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
        command: What is known of its engine's command line.
        rank_ports: Ports from `port` upwards, one for each rank that has its own.
    """

    name: str
    port: int
    command: EngineCommand
    rank_ports: int = 1

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that it serves on."""
        return tuple(range(self.port, self.port + self.rank_ports))

    @property
    def ports_text(self) -> str:
        """Its ports, for messages."""
        first, last = self.ports[0], self.ports[-1]
        return str(first) if first == last else f"{first} to {last}"


@dataclass(frozen=True)
class RolePlan:
    """A role that runs pods.

    Attributes:
        position: Index of the role in the spec.
        args: The role as the user wrote it.
        pods: The pods of each of its replicas.
        lws: The LeaderWorkerSets of all serving groups, group by group; none when the role is
            parked.
        nodes: Pods in one replica.
        launcher: How the pods of a replica find each other, None for single pods.
        scaled_externally: Whether something else, such as an autoscaler, sets the replicas of its
            one LeaderWorkerSet once it exists; only for layout PerRole.
    """

    position: int
    args: RoleArgs
    pods: RolePods
    lws: tuple[LwsPlan, ...]
    nodes: int
    launcher: Launcher | None
    scaled_externally: bool = False

    @cached_property
    def replicas(self) -> tuple[ReplicaPlan, ...]:
        """The replicas of all LeaderWorkerSets, none when the role is parked."""
        return tuple(replica for lws in self.lws for replica in lws.replicas)

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
    def serving(self) -> ServingContainer:
        """The serving container of the leader."""
        pods = self.pods
        return ServingContainer(pods.leader.name, pods.port, pods.command, pods.rank_ports)

    @property
    def leader_template(self) -> Mapping[str, Any]:
        """Finished pod template of the leaders, without what differs between LeaderWorkerSets."""
        return self.pods.leader.template

    @property
    def worker_template(self) -> Mapping[str, Any]:
        """The same of the workers; that of every pod where a replica is a single one."""
        return (self.pods.worker or self.pods.leader).template

    @cached_property
    def leader_accelerators(self) -> int:
        """Accelerators that the leader asks for."""
        return accelerators(self.leader_template)

    @cached_property
    def worker_accelerators(self) -> int:
        """Accelerators that each worker asks for."""
        return accelerators(self.worker_template) if self.nodes > 1 else 0

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


def role_plan(ctx: Context, pods: RolePods, layout: Layout, groups: int | None) -> RolePlan:
    """Plans the LeaderWorkerSets of a role, in each of the serving groups if there are some."""
    indexes = [None] if groups is None else range(groups)
    return RolePlan(
        position=ctx.position,
        args=ctx.role,
        pods=pods,
        lws=tuple(lws for group in indexes for lws in _lws(ctx, layout, group)),
        nodes=ctx.nodes,
        launcher=ctx.launcher,
        scaled_externally=ctx.role.autoscaling is not None,
    )


def _lws(ctx: Context, layout: Layout, group: int | None) -> tuple[LwsPlan, ...]:
    service, role = ctx.meta.service, ctx.role
    replicas = tuple(
        ReplicaPlan(
            index,
            names.leader_worker_set(service, role.name, index, group),
            names.task(role.name, index),
            group,
        )
        for index in range(role.replicas)
    )
    if layout is Layout.PER_REPLICA or not replicas:
        return tuple(
            LwsPlan(replica.name, replica.task, (replica,), replica.index, group)
            for replica in replicas
        )
    return (LwsPlan(names.role_lws(service, role.name, group), role.name, replicas, None, group),)
