"""In which order replicas restart: as the service's plan says, or a set that runs several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, RolloutLevel, RolloutStrategy
from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.plain import at
from fusioninfer_pulumi.cli.diff.records import RestartStage
from fusioninfer_pulumi.cli.diff.spans import size
from fusioninfer_pulumi.cli.diff.workloads import ROLLING
from fusioninfer_pulumi.rollout.groups import group_rollout
from fusioninfer_pulumi.rollout.order import rollout_plan
from fusioninfer_pulumi.rollout.steps import SetStep
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.role_rollout import replicas_of, surge_of


@dataclass(frozen=True)
class Turn:
    """When a set of a plan changes.

    Attributes:
        position: Its place in the rollout.
        at_a_time: Replicas of the role that change side by side, None for all.
        optional: Whether it changes after those that the service needs.
        after: Roles that change before its own.
        held: Whether it keeps the pod template that it has.
        groups: Whole serving groups that change side by side, None where groups do not count.
        anew: Whether a change of its pods deletes it and makes it anew.
    """

    position: int
    at_a_time: int | None
    optional: bool
    after: tuple[str, ...]
    held: bool
    groups: int | None = None
    anew: bool = False


@dataclass(frozen=True)
class Move:
    """Replicas of one set that restart, in their order.

    Attributes:
        position: Place of the set in the rollout.
        names: The replicas.
        at_a_time: How many of them side by side, None for all.
        optional: Whether they restart after the others.
        groups: Whole serving groups that restart side by side, None where groups do not count.
        at_most: Whether the cluster may take fewer of them at a time.
    """

    position: int
    names: tuple[str, ...]
    at_a_time: int | None
    optional: bool = False
    groups: int | None = None
    at_most: bool = False


#: By namespace, empty where only the engine knows it, and name of the set.
Turns = Mapping[tuple[str, str], Turn]


def turns(plans: Iterable[ServicePlan]) -> dict[tuple[str, str], Turn]:
    """Reads when each set changes from the plans of services."""
    found = {}
    for plan in plans:
        namespace = plan.namespace if isinstance(plan.namespace, str) else ""
        sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL and not _by_group(plan)
        rolling = plan.rollout.strategy in (None, RolloutStrategy.ROLLING)
        groups = group_rollout(plan).max_unavailable if _by_group(plan) and rolling else None
        before: list[str] = []
        for position, step in enumerate(rollout_plan(plan).steps):
            if not before or before[-1] != step.role:
                before.append(step.role)
            found[(namespace, step.name)] = Turn(
                position,
                _at_a_time(plan, step),
                not step.required,
                tuple(before[:-1]) if sequential else (),
                step.frozen,
                groups,
                step.rollout.strategy is RolloutStrategy.RECREATE,
            )
    return found


def _by_group(plan: ServicePlan) -> bool:
    return plan.groups is not None and plan.rollout.level is RolloutLevel.GROUP


def _at_a_time(plan: ServicePlan, step: SetStep) -> int | None:
    """Replicas of the set's role that change side by side, None for all."""
    # LeaderWorkerSet paces what is in one set, whether it is needed or not.
    paced = step.required or plan.layout is Layout.PER_ROLE
    if step.rollout.strategy is not RolloutStrategy.ROLLING or not paced:
        return None
    if _by_group(plan):
        # Whole groups take turns: all of a group's replicas change together.
        (role,) = (each for each in plan.roles if each.name == step.role)
        return group_rollout(plan).max_unavailable * role.group_replicas
    return step.rollout.max_unavailable


def turn_of(known: Turns, key: Identity) -> Turn | None:
    """When a set changes, None where no plan tells."""
    return known.get((key.namespace, key.name)) or known.get(("", key.name))


def pace_of(manifest: Manifest, replicas: int) -> int:
    """How many replicas of a set LeaderWorkerSet itself changes side by side."""
    limits = [at(manifest, *ROLLING, name) for name in ("maxUnavailable", "maxSurge")]
    down, more = (each if isinstance(each, int | str) else None for each in limits)
    try:
        found = replicas_of(1 if down is None else down, replicas) + surge_of(more or 0, replicas)
    except ValueError:
        return 1  # the API server refuses it
    return max(1, found)


def stages(moves: Sequence[Move]) -> tuple[RestartStage, ...]:
    """Puts the restarts of a role in order: what the service needs first, the rest together."""
    found = []
    for optional in (False, True):
        part = sorted(
            (move for move in moves if move.optional is optional), key=lambda move: move.position
        )
        names = tuple(name for move in part for name in move.names)
        if names:
            limits = [move.at_a_time for move in part]
            known = [limit for limit in limits if limit is not None]
            at_a_time = max(known) if len(known) == len(limits) else size(names)
            groups = part[0].groups if at_a_time < size(names) else None
            at_a_time = min(at_a_time, size(names))
            at_most = at_a_time > 1 and any(move.at_most for move in part)
            found.append(RestartStage(names, at_a_time, groups, at_most))
    return tuple(found)
