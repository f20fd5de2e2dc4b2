"""What a change does, in short sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from fusioninfer_pulumi.cli.diff._cells import compressed, count, counts, service_name
from fusioninfer_pulumi.cli.diff._records import Action, RoleEffect
from fusioninfer_pulumi.cli.diff._shares import share_notes
from fusioninfer_pulumi.cli.diff.manifests import Identity, at, count_at, label, role_of
from fusioninfer_pulumi.cli.diff.restarts import Edit, Service, below
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.names import POOL_GROUP
from fusioninfer_pulumi.topology.gang import NATIVE_GROUP

# API groups whose objects run no pods, or whose restarts are known. Nothing is said of others.
_KNOWN_GROUPS = frozenset(
    {
        "",
        "apps",
        "leaderworkerset.x-k8s.io",
        "scheduling.volcano.sh",
        NATIVE_GROUP,
        "gateway.networking.k8s.io",
        POOL_GROUP,
        "inference.networking.x-k8s.io",
        "llm-d.ai",
        "rbac.authorization.k8s.io",
        "autoscaling",
        "policy",
    }
)
_POD_KINDS = frozenset({"Pod", "ReplicationController"})


def notes(
    edits: Sequence[Edit],
    effects: Iterable[RoleEffect],
    services: tuple[set[Service], set[Service]],
    refused: Mapping[Service, Sequence[Finding]],
    freed: Iterable[Identity],
    *,
    known: bool = True,
) -> Iterator[str]:
    """Yields what a change does, service by service; where there are several, each is named.

    `services` are those that have an object, before and after; `refused` is what `pulumi up`
    refuses of each; a partition holds those that are `freed` back no longer. Unless all pod
    templates are `known`, it never says that nothing restarts.
    """
    by_service: dict[Service | None, list[Edit]] = {}
    for edit in edits:
        for service in edit.services or (None,):
            by_service.setdefault(service, []).append(edit)
    roles: dict[Service | None, list[RoleEffect]] = {}
    for effect in effects:
        if effect.kind == "LeaderWorkerSet":
            roles.setdefault((effect.namespace, effect.service), []).append(effect)
    for service, service_edits in by_service.items():
        name = service_name(*service) if service else "other objects"
        was, is_ = (service in group for group in services)
        if service and was != is_:
            number = count(len(service_edits), "object")
            yield f"service {name} {'added' if is_ else 'removed'} ({number})"
            continue
        sentences = [
            f"error: {message}" for message in (refused.get(service, ()) if service else ())
        ]
        sentences += _service_notes(service_edits, roles.get(service, ()), known=known)
        prefix = f"{name}: " if len(by_service) > 1 else ""
        yield from (
            prefix + note for note in sentences or [_without_effect(service_edits, known=known)]
        )
    names = sorted((key.name for key in freed), key=_by_number)
    if names:
        yield (
            f"no longer below the partition: {compressed(names)}; replicas that still have the "
            "old pod template restart"
        )


def unknown_notes(keys: Iterable[Identity]) -> Iterator[str]:
    """Says of which workloads nothing is known."""
    for kind, names in _by_kind(keys):
        yield (
            f"{kind} {compressed(names)}: the pod template is known only after the update; whether "
            "pods restart is not known"
        )


def secret_notes(keys: Iterable[Identity]) -> Iterator[str]:
    """Says of which workloads only that they change is known."""
    for kind, names in _by_kind(keys):
        yield (
            f"{kind} {compressed(names)}: the pod template is secret as a whole; what changes in "
            "it is not known, and pods may not restart"
        )


def _by_kind(keys: Iterable[Identity]) -> Iterator[tuple[str, list[str]]]:
    ordered = sorted(keys, key=lambda key: (key.kind, _by_number(key.name)))
    for kind, same in groupby(ordered, key=lambda key: key.kind):
        yield kind, [key.name for key in same]


def _by_number(name: str) -> tuple[str, int, str]:
    head, _, number = name.rpartition("-")
    return (head, int(number), "") if number.isdecimal() else (name, -1, "")


def _service_notes(
    edits: Sequence[Edit], roles: Sequence[RoleEffect], *, known: bool
) -> Iterator[str]:
    replaced: dict[tuple[str, str], list[str]] = {}
    for edit in edits:
        if edit.refused:
            replaced.setdefault((edit.refused, edit.key.kind), []).append(edit.key.name)
    for (field, kind), names in replaced.items():
        yield f"{field} cannot be updated: deletes and creates {kind} {compressed(names)}"
    restarted: dict[str, list[str]] = {}
    for effect in roles:
        if effect.restarts:
            restarted.setdefault(effect.restart_reason, []).extend(effect.restarts)
    for why, names in restarted.items():
        yield f"{why}: restarts {compressed(names)}"
    held_back = [name for effect in roles for name in effect.held_back]
    if held_back:
        yield f"below the partition, keeps the old pod template: {compressed(held_back)}"
    for edit in edits:
        if edit.restarts and edit.key.is_apps_workload:
            yield f"{edit.reason}: restarts {_object(edit)}"
    quiet = known and not any(edit.restarts for edit in edits)
    rest = ", nothing restarts" if quiet else ""
    groups: set[tuple[Action, str]] = {
        (edit.change.action, _group(edit))
        for edit in edits
        if edit.key.is_pod_group and _group(edit) and edit.change.action in ("added", "removed")
    }
    yield from _whole_groups(edits, groups, rest)
    for effect in roles:
        yield from _scale(effect, edits, groups, rest)
    for edit in edits:
        yield from _growth(edit)
        yield from (
            f"{share_note}{rest}" for share_note in share_notes(edit.key.kind, edit.old, edit.new)
        )


def _object(edit: Edit) -> str:
    component = label(edit.new, labels.COMPONENT_TYPE)
    picker = component == "router" or edit.key.name.endswith("-epp")
    kind = "endpoint picker" if picker and edit.key.kind == "Deployment" else edit.key.kind
    return f"{kind} {edit.key.name}"


def _group(edit: Edit) -> str:
    """Number of an object's serving group, empty where it has none."""
    return label(edit.new or edit.old, labels.GROUP_INDEX)


def _whole_groups(
    edits: Sequence[Edit], groups: set[tuple[Action, str]], rest: str
) -> Iterator[str]:
    """Serving groups that come or go as a whole: each has a PodGroup of its own."""
    for action in ("added", "removed"):
        group_edits = [
            e for e in edits if e.change.action == action and (action, _group(e)) in groups
        ]
        names = sorted(
            (edit.key.name for edit in group_edits if edit.key.is_pod_group), key=_by_number
        )
        if names:
            lws = count(sum(edit.key.is_lws for edit in group_edits), "LeaderWorkerSet")
            yield f"serving group {compressed(names)} {action} ({lws}){rest}"


def _scale(
    effect: RoleEffect, edits: Sequence[Edit], groups: set[tuple[Action, str]], rest: str
) -> Iterator[str]:
    """What is done for more or fewer replicas of a role, apart from whole groups."""
    scaled = [edit for edit in edits if edit.key.is_lws and _scales(edit, effect.role)]
    role_edits = [edit for edit in scaled if (edit.change.action, _group(edit)) not in groups]
    same = effect.existed and effect.exists and effect.replicas_before == effect.replicas_after
    if same or (scaled and not role_edits):
        return
    role_edits += [
        edit
        for edit in edits
        if edit.key.is_pod_group and (edit.change.action, _group(edit)) not in groups
    ]
    done = Counter((edit.key.kind, edit.change.action) for edit in role_edits)
    text = ", ".join(f"{count(number, kind)} {action}" for (kind, action), number in done.items())
    yield f"role {effect.role}: {effect.role_change}{f' ({text})' if text else ''}{rest}"


def _scales(edit: Edit, role: str) -> bool:
    """Whether the replicas of a set change in number, and are those of a role."""
    sides = [side for side in (edit.old, edit.new) if side]
    replicas = {count_at(side, "spec", "replicas") for side in sides}
    of_role = any(role_of(edit.key, side) == role for side in sides)
    return of_role and (len(sides) == 1 or len(replicas) > 1)


def _growth(edit: Edit) -> Iterator[str]:
    """A gang whose minimum grows: no pod is then bound until all of it fits."""
    if not edit.key.is_pod_group or not edit.old or not edit.new:
        return
    native = edit.key.group == NATIVE_GROUP
    field = ("schedulingPolicy", "gang", "minCount") if native else ("minMember",)
    before, after = at(edit.old, "spec", *field), at(edit.new, "spec", *field)
    if not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return
    forms = [at(edit.new, "spec", form) for form in ("minTaskMember", "subGroupPolicy")]
    if any(forms) or native:
        what = "the gang is all-or-nothing; " if forms[0] or native else ""
        yield (
            f"PodGroup {field[-1]} {before} -> {after}: {what}without room for all {after} pods, "
            "replacement pods of running replicas are held back"
        )


def _without_effect(edits: Sequence[Edit], *, known: bool) -> str:
    """What to say of changes that restart nothing."""
    text = counts(edit.change for edit in edits)
    if not known or not all(_is_known(edit.key) for edit in edits):
        return text
    fields = [change for edit in edits for change in edit.change.fields]
    changed = all(edit.change.action == "changed" for edit in edits)
    if changed and all(below(change.path, ("metadata",)) for change in fields):
        text += ", metadata only"
    return f"{text}; nothing restarts"


def _is_known(key: Identity) -> bool:
    return key.group in _KNOWN_GROUPS and not (key.group == "" and key.kind in _POD_KINDS)
