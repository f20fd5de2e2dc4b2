"""How the replicas of one role change."""

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
    """How one role changes, with nothing left open.

    Attributes:
        strategy: How.
        max_unavailable: Replicas that may be down because of it.
        max_surge: Replicas that it may start beside those that there are.
        partition: Ordinals below it keep what they have.
        timeout: How long one replica may take.
    """

    strategy: RolloutStrategy
    max_unavailable: int
    max_surge: int
    partition: int
    timeout: str

    @property
    def side_by_side(self) -> int | None:
        """Required replicas that change at a time, None for all."""
        return self.max_unavailable if self.strategy is RolloutStrategy.ROLLING else None


def role_rollout(service: RolloutArgs, role: RolePlan) -> RoleRollout:
    """How a role changes: its own settings, else the service's, else the defaults."""
    strategy = stated(service, role, "strategy") or RolloutStrategy.ROLLING
    timeout = stated(service, role, "timeout") or DEFAULT_TIMEOUT
    if service.level is RolloutLevel.GROUP:
        # Its counts are of groups; inside of a group nothing is held back.
        return RoleRollout(strategy, max(role.group_replicas, 1), 0, 0, timeout)
    limit = stated(service, role, "max_unavailable")
    # LeaderWorkerSet counts in each set that runs several; sets of one replica count together.
    whole = role.sets and role.sets[0].ordinal is None
    count = role.group_replicas if whole else len(role.replicas)
    return RoleRollout(
        strategy,
        replicas_of(1 if limit is None else limit, count),
        surge_of(stated(service, role, "max_surge") or 0, count),
        stated(service, role, "partition") or 0,
        timeout,
    )


def stated(service: RolloutArgs, role: RolePlan, field: str) -> Any:
    """What a field of `rollout` says for a role, None where neither role nor service states it."""
    own = None if role.args.rollout is None else getattr(role.args.rollout, field)
    return getattr(service, field) if own is None else own


def field_location(role: RolePlan, field: str) -> Location:
    """Location of a field of `rollout` as the user wrote it: the role's own, else the service's."""
    alias = RoleRolloutArgs.model_fields[field].alias or field
    own = role.args.rollout is not None and getattr(role.args.rollout, field) is not None
    return ("roles", role.position, "rollout", alias) if own else ("rollout", alias)


def replicas_of(limit: int | str, replicas: int) -> int:
    """A count, or a percentage of the replicas rounded down, but at least 1."""
    if isinstance(limit, int):
        return limit
    return max(1, replicas * int(limit.removesuffix("%")) // 100)


def surge_of(limit: int | str, replicas: int) -> int:
    """A count, or a percentage of the replicas rounded up, as LeaderWorkerSet does; at most all."""
    if isinstance(limit, str):
        limit = -(-replicas * int(limit.removesuffix("%")) // 100)
    return min(limit, replicas)
