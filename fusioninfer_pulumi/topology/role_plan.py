"""A role's LeaderWorkerSets, replicas and rolling update settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.rollout import (
    DEFAULT_TIMEOUT,
    Layout,
    RoleRolloutArgs,
    RolloutArgs,
    RolloutLevel,
    RolloutStrategy,
)
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.kube import object_names
from fusioninfer_pulumi.kube.resource_requests import count_accelerators
from fusioninfer_pulumi.pods.pod import Context, RolePods


@dataclass(frozen=True)
class ReplicaPlan:
    """One replica of a role."""

    index: int  #: ordinal of the replica in its role and serving group, from 0
    name: str  #: name of its LeaderWorkerSet; with layout PerRole, of its leader pod


class LwsPlan(NamedTuple):
    """One LeaderWorkerSet of a role."""

    name: str
    task: str  #: Volcano task of its pods: `{role}-{ordinal}`, or the role with layout PerRole
    replicas: tuple[ReplicaPlan, ...]  #: in the order of LeaderWorkerSet's group index
    ordinal: int | None  #: `index` of its only replica; None with layout PerRole
    group: int | None = None  #: index of its serving group, or None if the service has none

    @property
    def is_per_role(self) -> bool:
        """Whether it runs all replicas of its role in its group (layout PerRole)."""
        return self.ordinal is None


class RoleRollout(NamedTuple):
    """The rolling update settings of one role, with defaults."""

    strategy: RolloutStrategy
    max_unavailable: int  #: replicas that may be unavailable at a time
    max_surge: int  #: replicas that the update may start in addition to the existing ones
    partition: int  #: first ordinal to update; replicas with lower ordinals keep their pod template
    timeout: str  #: duration that the update of one replica may take

    @property
    def parallel_limit(self) -> int | None:
        """Maximum number of replicas that may be updated at a time; None means no limit."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


@dataclass(frozen=True)
class RolePlan:
    """A role that serves a model."""

    position: int  #: index of the role in the spec
    args: RoleArgs  #: the role after presets
    pods: RolePods  #: the pods of each replica
    lws: tuple[LwsPlan, ...]  #: its LeaderWorkerSets, group by group; empty if scaled to zero
    nodes: int  #: pods in one replica
    service_rollout: RolloutArgs  #: the service's `rollout`, which the role's `rollout` overrides
    is_autoscaled: bool = False  #: whether the role has `autoscaling`

    @cached_property
    def replicas(self) -> tuple[ReplicaPlan, ...]:
        """The replicas of all LeaderWorkerSets; empty if the role is scaled to zero."""
        return tuple(replica for lws in self.lws for replica in lws.replicas)

    @property
    def group_replicas(self) -> int:
        """Replicas in one serving group, or all replicas if there are no serving groups."""
        return self.replicas[-1].index + 1 if self.replicas else 0

    @property
    def name(self) -> str:
        """The role's name."""
        return self.args.name

    @property
    def component_type(self) -> ComponentType:
        """The role's component type."""
        return self.args.component_type

    @property
    def leader_template(self) -> Mapping[str, Any]:
        """Generated pod template of the leaders, before each LeaderWorkerSet adds its labels."""
        return self.pods.leader.template

    @property
    def worker_template(self) -> Mapping[str, Any]:
        """Generated pod template of the workers, or of the only pod of a replica."""
        return (self.pods.worker or self.pods.leader).template

    @property
    def total_pods(self) -> int:
        """Pods of all replicas."""
        return len(self.replicas) * self.nodes

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators of the pod that requests the most, `gpusPerPod` in plans."""
        return max(self.pod_accelerators)

    @cached_property
    def pod_accelerators(self) -> tuple[int, ...]:
        """Accelerators of each pod of a replica, the leader first."""
        worker = count_accelerators(self.worker_template)
        return (count_accelerators(self.leader_template), *[worker] * (self.nodes - 1))

    @property
    def replica_accelerators(self) -> int:
        """Accelerators of one replica."""
        return sum(self.pod_accelerators)

    @property
    def total_accelerators(self) -> int:
        """Accelerators of all replicas."""
        return self.replica_accelerators * len(self.replicas)

    @cached_property
    def rollout(self) -> RoleRollout:
        """The rolling update settings. Each is the role's, or else the service's or the default.

        With `level: Group` all replicas of the role may be unavailable, because the service's
        `rollout` counts serving groups.
        """
        strategy = self.get_rollout_field("strategy") or RolloutStrategy.ROLLING
        timeout = self.get_rollout_field("timeout") or DEFAULT_TIMEOUT
        if self.service_rollout.level is RolloutLevel.GROUP:
            all_replicas = max(self.group_replicas, 1)
            return RoleRollout(strategy, all_replicas, max_surge=0, partition=0, timeout=timeout)
        limit = self.get_rollout_field("max_unavailable")
        # With layout PerRole, percentages are of the role's replicas in one serving group, which
        # form one LeaderWorkerSet.
        is_per_role = any(lws.is_per_role for lws in self.lws)
        count = self.group_replicas if is_per_role else len(self.replicas)
        # The surge is rounded up, and is at most all replicas, as in LeaderWorkerSet.
        surge = resolve_share(self.get_rollout_field("max_surge") or 0, count, math.ceil)
        return RoleRollout(
            strategy,
            max_unavailable=resolve_max_unavailable(1 if limit is None else limit, count),
            max_surge=min(surge, count),
            partition=self.get_rollout_field("partition") or 0,
            timeout=timeout,
        )

    def get_rollout_field(self, field: str) -> Any:
        """Return a field of `rollout`: the role's, or else the service's; None if both lack it."""
        role_value = None if self.args.rollout is None else getattr(self.args.rollout, field)
        return getattr(self.service_rollout, field) if role_value is None else role_value

    def locate_rollout_field(self, field: str) -> Location:
        """Return the location of a `rollout` field, in the role if it is set there."""
        alias = RoleRolloutArgs.model_fields[field].alias or field
        if self.args.rollout is not None and getattr(self.args.rollout, field) is not None:
            return ("roles", self.position, "rollout", alias)
        return ("rollout", alias)


def plan_role(ctx: Context, pods: RolePods, rollout: RolloutArgs) -> RolePlan:
    """Plan the LeaderWorkerSets of a role, in every serving group."""
    count = ctx.shape.groups
    groups = [None] if count is None else range(count)
    return RolePlan(
        position=ctx.position,
        args=ctx.role,
        pods=pods,
        lws=tuple(lws for group in groups for lws in _plan_lws(ctx, group)),
        nodes=ctx.role.nodes,
        service_rollout=rollout,
        is_autoscaled=ctx.role.autoscaling is not None,
    )


def _plan_lws(ctx: Context, group: int | None) -> tuple[LwsPlan, ...]:
    service, role = ctx.meta.service, ctx.role
    replicas = tuple(
        ReplicaPlan(index, object_names.leader_worker_set(service, role.name, index, group))
        for index in range(role.replicas)
    )
    if ctx.shape.layout is Layout.PER_REPLICA or not replicas:
        return tuple(
            LwsPlan(
                replica.name,
                object_names.task(role.name, replica.index),
                (replica,),
                ordinal=replica.index,
                group=group,
            )
            for replica in replicas
        )
    name = object_names.role_lws(service, role.name, group)
    return (LwsPlan(name, role.name, replicas, ordinal=None, group=group),)


def resolve_max_unavailable(limit: int | str, replicas: int) -> int:
    """Return a count unchanged, or a percentage of the replicas, rounded down but at least 1."""
    return limit if isinstance(limit, int) else max(1, resolve_share(limit, replicas, math.floor))


def resolve_share(part: int | str, replicas: int, rounding: Callable[[Fraction], int]) -> int:
    """Return a count unchanged, or a percentage of the replicas, rounded with `rounding`."""
    if isinstance(part, int):
        return part
    return rounding(Fraction(replicas * int(part.removesuffix("%")), 100))
