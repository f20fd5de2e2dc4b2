"""What a change does, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fusioninfer_pulumi.cli.diff.edits import Edit, Service
from fusioninfer_pulumi.cli.diff.effects import apps_reason, scaling
from fusioninfer_pulumi.cli.diff.identity import Identity
from fusioninfer_pulumi.cli.diff.layouts import layout_notes, pace_notes
from fusioninfer_pulumi.cli.diff.order import Turns
from fusioninfer_pulumi.cli.diff.plain import at
from fusioninfer_pulumi.cli.diff.reasons import GANG_OFF, GANG_ON, below
from fusioninfer_pulumi.cli.diff.records import RoleEffect
from fusioninfer_pulumi.cli.diff.serving_groups import group_notes, group_of, whole_groups
from fusioninfer_pulumi.cli.diff.spans import compressed
from fusioninfer_pulumi.cli.diff.workloads import (
    is_apps_workload,
    is_picker,
    is_pod_group,
    is_set,
    role_of,
)
from fusioninfer_pulumi.kube.names import POOL_GROUP

# Groups whose objects run no pods, or whose restarts are known here. Of others nothing is claimed.
_KNOWN_GROUPS = frozenset(
    {
        "",
        "apps",
        "leaderworkerset.x-k8s.io",
        "scheduling.volcano.sh",
        "gateway.networking.k8s.io",
        POOL_GROUP,
        "inference.networking.x-k8s.io",
        "rbac.authorization.k8s.io",
        "autoscaling",
        "policy",
    }
)
_POD_KINDS = frozenset({"Pod", "ReplicationController"})
_PAST = {"added": "added", "changed": "updated", "replaced": "replaced", "removed": "deleted"}


def notes(
    edits: Sequence[Edit],
    effects: Iterable[RoleEffect],
    gone: Collection[Service],
    come: Collection[Service],
    turns: Turns,
    refused: Mapping[Service, Sequence[str]],
) -> Iterator[str]:
    """Says what a change does.

    Args:
        edits: All changes.
        effects: What they do to replicas.
        gone: Services of which nothing is left.
        come: Services of which nothing was there.
        turns: When sets change, as far as plans tell.
        refused: What `pulumi up` refuses of a service.

    Yields:
        Sentences, service by service; each names its service where there are several.
    """
    by_service: dict[Service | None, list[Edit]] = {}
    for edit in edits:
        for service in edit.services or (None,):
            by_service.setdefault(service, []).append(edit)
    roles: dict[Service, list[RoleEffect]] = {}
    for effect in effects:
        if effect.kind == "LeaderWorkerSet":
            roles.setdefault((effect.namespace, effect.service), []).append(effect)
    names = [service[1] for service in by_service if service]
    for service, own in by_service.items():
        if service in gone or service in come:
            verb, past = ("removed", "deleted") if service in gone else ("added", "added")
            yield f"service {_name(service, names)} {verb}: {counted(len(own), 'object')} {past}"
            continue
        found = list(refused.get(service, ()) if service else ())
        found += _service_notes(own, roles.get(service, ()) if service else (), turns)
        told = ""
        if len(by_service) > 1:
            told = f"{_name(service, names)}: " if service else "other objects: "
        yield from (told + note for note in found or _otherwise(own))


def counted(number: int, noun: str) -> str:
    """Writes a number and its noun: `one object`, `2 objects`."""
    return f"one {noun}" if number == 1 else f"{number} {noun}s"


def actions(edits: Iterable[Edit]) -> str:
    """Counts what is done to objects: `one object added, 2 updated`."""
    numbers: dict[str, int] = {}
    for edit in edits:
        numbers[edit.change.action] = numbers.get(edit.change.action, 0) + 1
    (first, number), *rest = numbers.items()
    return ", ".join(
        [
            f"{counted(number, 'object')} {_PAST[first]}",
            *(f"{number if number > 1 else 'one'} {_PAST[action]}" for action, number in rest),
        ]
    )


def _name(service: Service | None, names: Sequence[str]) -> str:
    namespace, name = service or ("", "")
    return f"{namespace}/{name}" if names.count(name) > 1 else name


def _service_notes(
    edits: Sequence[Edit], roles: Sequence[RoleEffect], turns: Turns
) -> Iterator[str]:
    yield from layout_notes(edits)
    yield from _replacements(edits)
    yield from _restarts(roles)
    yield from pace_notes(edits, turns)
    yield from _apps_restarts(edits)
    quiet = not any(edit.restarts for edit in edits)
    yield from group_notes(edits, quiet=quiet)
    for effect in roles:
        yield from _scale(effect, edits, quiet=quiet)
    for edit in edits:
        yield from _growth(edit)


def _replacements(edits: Sequence[Edit]) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for edit in edits:
        if edit.refused:
            groups.setdefault((edit.refused, edit.key.kind), []).append(edit.key.name)
    for (field, kind), names in groups.items():
        plural, are = ("s", "are") if len(names) > 1 else ("", "is")
        yield (
            f"{field} changed, which no update can do: {kind}{plural} {compressed(names)} "
            f"{are} deleted and created anew"
        )


def _restarts(roles: Sequence[RoleEffect]) -> Iterator[str]:
    groups: dict[str, list[RoleEffect]] = {}
    for effect in roles:
        if effect.restarts:
            scaled = scaling(effect.replicas_before, effect.replicas_after)
            reason = effect.reason.removesuffix(scaled).removesuffix(", ")
            groups.setdefault(reason, []).append(effect)
    existing = [effect for effect in roles if effect.replicas_before]
    for reason, group in groups.items():
        whole = len(group) == len(existing) and not any(effect.kept for effect in group)
        if whole and reason.startswith((GANG_ON, GANG_OFF)):
            yield f"{reason}: every replica restarts"
        else:
            names = [name for effect in group for name in effect.restarts]
            one = len(names) == 1 and ".." not in names[0]
            noun, verb = ("replica", "restarts") if one else ("replicas", "restart")
            yield f"{reason}: {noun} {compressed(names)} {verb}"
    held = [name for effect in roles for name in effect.held]
    if held:
        one = len(held) == 1 and ".." not in held[0]
        noun, verb = ("replica", "keeps") if one else ("replicas", "keep")
        yield f"{noun} {compressed(held)} {verb} the old pod template: below the partition"


def _apps_restarts(edits: Sequence[Edit]) -> Iterator[str]:
    for edit in edits:
        if edit.restarts and is_apps_workload(edit.key):
            picker = is_picker(edit.key, edit.new or {})
            what = "endpoint picker" if picker else edit.key.kind
            yield f"{apps_reason(edit)}: {what} {edit.key.name} restarts"


def _scale(effect: RoleEffect, edits: Sequence[Edit], *, quiet: bool) -> Iterator[str]:
    before, after = effect.replicas_before, effect.replicas_after
    whole = whole_groups(edits)
    every = [edit for edit in edits if is_set(edit.key) and _has_role(edit, effect.role)]
    own = [each for each in every if group_of(each) not in whole.get(each.change.action, ())]
    if len(own) < len(every) and not any(each.change.action != "changed" for each in own):
        return  # it has no other replicas, but in more or fewer groups
    added = sum(edit.change.action == "added" for edit in own)
    removed = sum(edit.change.action == "removed" for edit in own)
    done = [
        f"{counted(number, 'LeaderWorkerSet')} {past}"
        for number, past in ((added, "added"), (removed, "deleted"))
        if number
    ] or ["LeaderWorkerSet updated"]
    if effect.reason in ("role added", "role removed"):
        yield f"role {effect.role} {effect.reason.removeprefix('role ')}: {', '.join(done)}"
    elif before != after:
        done += [
            f"PodGroup {_PAST[edit.change.action]}"
            for edit in edits
            if is_pod_group(edit.key) and group_of(edit) not in whole.get(edit.change.action, ())
        ]
        done += ["nothing restarts"] if quiet else []
        yield f"{effect.role} {scaling(before, after)}: {', '.join(done)}"


def _growth(edit: Edit) -> Iterator[str]:
    """A gang whose minimum grows: Volcano then binds no pod until all of it fits."""
    if not is_pod_group(edit.key) or not edit.old or not edit.new:
        return
    before, after = at(edit.old, "spec", "minMember"), at(edit.new, "spec", "minMember")
    if not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return
    held_back = f"for all {after} pods, replacement pods of running replicas are held back"
    grows = f"PodGroup minMember {before} -> {after}"
    if at(edit.new, "spec", "minTaskMember"):
        yield f"{grows}: the gang is all-or-nothing; without room {held_back}"
    elif at(edit.new, "spec", "subGroupPolicy"):
        yield f"{grows}: without room {held_back}"


def _otherwise(edits: Sequence[Edit]) -> Iterator[str]:
    """What to say of changes that restart nothing."""
    if not all(_is_known(edit.key) for edit in edits):
        yield actions(edits)
        return
    fields = [change for edit in edits for change in edit.change.fields]
    only_changed = all(edit.change.action == "changed" for edit in edits)
    only_metadata = all(below(change.path, ("metadata",)) for change in fields)
    if only_changed and only_metadata:
        yield f"metadata changed: {actions(edits)}, nothing restarts"
    else:
        yield f"{actions(edits)}: nothing restarts"


def _is_known(key: Identity) -> bool:
    return key.group in _KNOWN_GROUPS and not (key.group == "" and key.kind in _POD_KINDS)


def _has_role(edit: Edit, role: str) -> bool:
    return any(role_of(edit.key, manifest) == role for manifest in (edit.old, edit.new) if manifest)
