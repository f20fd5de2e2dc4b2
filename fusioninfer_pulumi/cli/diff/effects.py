"""What a change does to the replicas of each role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fusioninfer_pulumi.cli.diff.edits import Edit, Service
from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.order import Move, Turn, Turns, pace_of, stages, turn_of
from fusioninfer_pulumi.cli.diff.plain import count_at, text_at
from fusioninfer_pulumi.cli.diff.reasons import GANG_OFF, GANG_ON, below, restart_reason
from fusioninfer_pulumi.cli.diff.records import FieldChange, RoleEffect
from fusioninfer_pulumi.cli.diff.workloads import (
    gang,
    is_apps_workload,
    is_set,
    partition,
    role_of,
    service_of,
    template_paths,
)
from fusioninfer_pulumi.kube import labels

# More groups of one LeaderWorkerSet than anybody runs are written as one range, not listed.
_LISTED = 10_000

Sets = Mapping[Identity, Manifest]


@dataclass
class _Role:
    """What is gathered about one role."""

    before: int = 0
    after: int = 0
    existed: bool = False
    exists: bool = False
    restarts: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    ordered: bool = True
    behind: tuple[str, ...] = ()
    held: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    changes: list[FieldChange] = field(default_factory=list)
    gangs: set[str] = field(default_factory=set)


def role_effects(
    old: Sets,
    new: Sets,
    edits: Iterable[Edit],
    services: Iterable[Service],
    turns: Turns,
) -> Iterator[RoleEffect]:
    """Says what happens to the replicas of the services that have a changed object.

    Args:
        old: All LeaderWorkerSets before.
        new: All LeaderWorkerSets after.
        edits: All changes.
        services: The services to tell about, in their order.
        turns: When sets change, as far as plans tell.

    Yields:
        One effect per role that LeaderWorkerSets run, and one per Deployment (or the like) whose
        pods restart.
    """
    edits = list(edits)
    edited = {edit.key: edit for edit in edits}
    roles: dict[Service, dict[str, _Role]] = {service: {} for service in services}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        owners = [_owner(key, manifest) for manifest in (before, after) if manifest is not None]
        # Twice where the labels changed: one role loses the replica, another one gains it.
        for owner in dict.fromkeys(owners):
            service, role = owner
            if service in roles:
                _gather(
                    roles[service].setdefault(role, _Role()),
                    key,
                    before if before is not None and _owner(key, before) == owner else None,
                    after if after is not None and _owner(key, after) == owner else None,
                    edited.get(key),
                    turn_of(turns, key),
                )
    others: dict[Service, list[Edit]] = {}
    for edit in edits:
        if edit.restarts and is_apps_workload(edit.key):
            for service in edit.services:
                others.setdefault(service, []).append(edit)
    for service, gathered_roles in roles.items():
        restarting = [role for role, gathered in gathered_roles.items() if gathered.restarts]
        for role, gathered in gathered_roles.items():
            gathered.behind = tuple(each for each in gathered.behind if each in restarting)
            yield _effect(service, role, gathered)
        yield from (_apps_effect(service, edit) for edit in others.get(service, ()))


def scaling(before: int, after: int) -> str:
    """Says how the replicas of a role change in number."""
    return f"replicas {before} -> {after}"


def _owner(key: Identity, manifest: Manifest) -> tuple[Service, str]:
    return (key.namespace, service_of(key, manifest)), role_of(key, manifest)


def _gather(
    role: _Role,
    key: Identity,
    old: Manifest | None,
    new: Manifest | None,
    edit: Edit | None,
    turn: Turn | None,
) -> None:
    before = 0 if old is None else count_at(old, "spec", "replicas")
    after = 0 if new is None else count_at(new, "spec", "replicas")
    some = old if new is None else new
    prefix = role_of(key, some or {})
    serving_group = text_at(some, "metadata", "labels", labels.GROUP_INDEX)
    if serving_group:
        prefix = f"{serving_group}-{prefix}"
    index = text_at(some, "metadata", "labels", labels.REPLICA_INDEX)

    def groups(start: int, stop: int) -> list[str]:
        if index and max(before, after) <= 1:
            return [f"{prefix}-{index}"] * (stop - start)
        if stop - start > _LISTED:
            return [f"{prefix}-{start}..{prefix}-{stop - 1}"]
        return [f"{prefix}-{number}" for number in range(start, stop)]

    role.existed |= old is not None
    role.exists |= new is not None
    role.before += before
    role.after += after
    common = min(before, after)
    role.added += groups(common, after)
    role.removed += groups(common, before)
    if edit is None or not edit.restarts or not common:
        role.kept += groups(0, common)
        return
    _restart(role, edit, turn, groups)
    roots = template_paths(key)
    role.changes += (change for change in edit.change.fields if below(change.path, roots))
    had, has = bool(gang(old or {})), bool(gang(new or {}))
    if had != has:
        role.gangs.add(GANG_ON if has else GANG_OFF)


def _restart(
    role: _Role, edit: Edit, turn: Turn | None, groups: Callable[[int, int], list[str]]
) -> None:
    """Notes which replicas of a set restart, and when; a partition holds some back."""
    assert edit.old is not None
    assert edit.new is not None
    common = min(count_at(each, "spec", "replicas") for each in (edit.old, edit.new))
    # Below its partition LeaderWorkerSet keeps what there is, and so does the engine's state below
    # that of sets of one replica. A set that is made anew has none.
    held = common if turn is not None and turn.held else min(partition(edit.new), common)
    held = 0 if edit.refused else held
    role.held += groups(0, held)
    role.kept += groups(0, held)
    names = groups(held, common)
    role.restarts += names
    if not names:
        return
    several = not text_at(edit.new, "metadata", "labels", labels.REPLICA_INDEX)
    if edit.key.ordinal or (turn is None and not several):
        # The same service in two clusters: each of them goes its own way.
        role.ordered = False
        return
    pace = turn.at_a_time if turn else 1
    anew = bool(edit.refused) or (turn is not None and turn.anew)
    # LeaderWorkerSet paces what is in one set, as far as the cluster lets it.
    paced = several and not anew
    if paced:
        pace = pace_of(edit.new, common)
    role.moves.append(
        Move(
            turn.position if turn else 0,
            tuple(reversed(names)),
            None if anew else pace,
            turn is not None and turn.optional and not several,
            turn.groups if turn else None,
            at_most=paced,
        )
    )
    role.behind = turn.after if turn else ()


def apps_reason(edit: Edit) -> str:
    """Says why the pods of a Deployment or the like restart."""
    roots = template_paths(edit.key)
    changes = [change for change in edit.change.fields if below(change.path, roots)]
    refused = f"{edit.refused} changed" if edit.refused else ""
    return ", ".join(filter(None, (refused, restart_reason(changes))))


def _effect(service: Service, name: str, role: _Role) -> RoleEffect:
    reasons = []
    if role.restarts:
        reasons.append(restart_reason(role.changes, gang=", ".join(sorted(role.gangs))))
    if not role.existed or not role.exists:
        reasons.append("role added" if role.exists else "role removed")
    elif role.before != role.after:
        reasons.append(scaling(role.before, role.after))
    elif role.added:
        reasons.append("replicas renamed")
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=name,
        kind="LeaderWorkerSet",
        replicas_before=role.before,
        replicas_after=role.after,
        restarts=tuple(role.restarts),
        added=tuple(role.added),
        removed=tuple(role.removed),
        kept=tuple(role.kept),
        reason=", ".join(reasons),
        order=stages(role.moves) if role.ordered else (),
        after=role.behind,
        held=tuple(role.held),
    )


def _apps_effect(service: Service, edit: Edit) -> RoleEffect:
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=role_of(edit.key, edit.new or {}),
        kind=edit.key.kind,
        replicas_before=count_at(edit.old, "spec", "replicas"),
        replicas_after=count_at(edit.new, "spec", "replicas"),
        restarts=(edit.key.name,),
        added=(),
        removed=(),
        kept=(),
        reason=apps_reason(edit),
    )


def sets_only(objects: Mapping[Identity, Manifest]) -> dict[Identity, Manifest]:
    """Picks the LeaderWorkerSets."""
    return {key: manifest for key, manifest in objects.items() if is_set(key)}
