"""The rolling update settings of one role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.rollout import (
    DEFAULT_TIMEOUT,
    RoleRolloutArgs,
    RolloutArgs,
    RolloutLevel,
    RolloutStrategy,
)
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.topology.role import RolePlan


@dataclass(frozen=True)
class RoleRollout:
    """The rolling update settings of one role, with defaults.

    Attributes:
        max_unavailable: Replicas that the update may make unavailable.
        max_surge: Replicas that the update may start beside the existing replicas.
        partition: Replicas with lower ordinals keep their pod template.
        timeout: How long the update of one replica may take.
    """

    strategy: RolloutStrategy
    max_unavailable: int
    max_surge: int
    partition: int
    timeout: str

    @property
    def side_by_side(self) -> int | None:
        """Required replicas that may change at the same time, None for all."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


def role_rollout(service: RolloutArgs, role: RolePlan) -> RoleRollout:
    """Returns the settings of a role: its own, else the service's, else the defaults."""
    strategy = explicit(service, role, "strategy") or RolloutStrategy.ROLLING
    timeout = explicit(service, role, "timeout") or DEFAULT_TIMEOUT
    if service.level is RolloutLevel.GROUP:
        # The service counts groups; inside of a group nothing is held back.
        return RoleRollout(strategy, max(role.group_replicas, 1), 0, 0, timeout)
    limit = explicit(service, role, "max_unavailable")
    # A LeaderWorkerSet with several replicas counts its own; those of one replica count together.
    whole = role.lws and role.lws[0].ordinal is None
    count = role.group_replicas if whole else len(role.replicas)
    return RoleRollout(
        strategy,
        replicas_of(1 if limit is None else limit, count),
        surge_of(explicit(service, role, "max_surge") or 0, count),
        explicit(service, role, "partition") or 0,
        timeout,
    )


def explicit(service: RolloutArgs, role: RolePlan, field: str) -> Any:
    """Returns a role's value of a `rollout` field, else the service's; None if neither is set."""
    value = None if role.args.rollout is None else getattr(role.args.rollout, field)
    return getattr(service, field) if value is None else value


def field_location(role: RolePlan, field: str) -> Location:
    """Returns the location of a `rollout` field that the user wrote, of the role or the service."""
    alias = RoleRolloutArgs.model_fields[field].alias or field
    stated = role.args.rollout is not None and getattr(role.args.rollout, field) is not None
    return ("roles", role.position, "rollout", alias) if stated else ("rollout", alias)


def replicas_of(limit: int | str, replicas: int) -> int:
    """Returns a count, or a percentage of the replicas rounded down, at least 1."""
    if isinstance(limit, int):
        return limit
    return max(1, replicas * int(limit.removesuffix("%")) // 100)


def surge_of(limit: int | str, replicas: int) -> int:
    """Returns a count, or a percentage rounded up as in LeaderWorkerSet; at most all replicas."""
    if isinstance(limit, str):
        limit = -(-replicas * int(limit.removesuffix("%")) // 100)
    return min(limit, replicas)
