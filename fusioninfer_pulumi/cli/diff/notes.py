"""What a change does, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fusioninfer_pulumi.cli.diff.manifests import (
    ROLLING,
    Identity,
    Manifest,
    at,
    count_at,
    label,
    role_of,
)
from fusioninfer_pulumi.cli.diff.records import Action, RoleEffect
from fusioninfer_pulumi.cli.diff.restarts import (
    GANG_OFF,
    GANG_ON,
    Edit,
    Service,
    Turns,
    below,
    scaling,
)
from fusioninfer_pulumi.cli.diff.text import compressed
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
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
_WHOLE: tuple[Action, ...] = ("added", "removed")
#: Feature gate by which a StatefulSet, and so LeaderWorkerSet, goes by `maxUnavailable`.
_GATE = "MaxUnavailableStatefulSet"


def notes(
    edits: Sequence[Edit],
    effects: Iterable[RoleEffect],
    gone: Collection[Service],
    come: Collection[Service],
    turns: Turns,
    refused: Mapping[Service, Sequence[Finding]],
    freed: Iterable[Identity],
) -> Iterator[str]:
    """Says what a change does.

    Args:
        edits: All changes.
        effects: What they do to replicas.
        gone: Services of which nothing is left.
        come: Services of which nothing was there.
        turns: When sets change, as far as plans tell.
        refused: What `pulumi up` refuses of a service.
        freed: LeaderWorkerSets that a partition holds back no longer.

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
        found = [f"error: {each}" for each in (refused.get(service, ()) if service else ())]
        found += _service_notes(own, roles.get(service, ()) if service else (), turns)
        told = ""
        if len(by_service) > 1:
            told = f"{_name(service, names)}: " if service else "other objects: "
        yield from (told + note for note in found or _otherwise(own))
    yield from released_notes(freed)


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
        if edit.restarts and edit.key.is_apps_workload:
            picker = _is_picker(edit.key, edit.new)
            what = "endpoint picker" if picker else edit.key.kind
            yield f"{edit.reason}: {what} {edit.key.name} restarts"


def _scale(effect: RoleEffect, edits: Sequence[Edit], *, quiet: bool) -> Iterator[str]:
    before, after = effect.replicas_before, effect.replicas_after
    whole = whole_groups(edits)
    every = [edit for edit in edits if edit.key.is_lws and _has_role(edit, effect.role)]
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
            if edit.key.is_pod_group and group_of(edit) not in whole.get(edit.change.action, ())
        ]
        done += ["nothing restarts"] if quiet else []
        yield f"{effect.role} {scaling(before, after)}: {', '.join(done)}"


def _growth(edit: Edit) -> Iterator[str]:
    """A gang whose minimum grows: Volcano then binds no pod until all of it fits."""
    if not edit.key.is_pod_group or not edit.old or not edit.new:
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


def layout_notes(edits: Sequence[Edit]) -> Iterator[str]:
    """Finds roles whose sets ran one replica each and now run all of them, or the other way round.

    Args:
        edits: The changes of one service.

    Yields:
        What the component will say to that, with the severity of a finding.
    """
    before, after = (set(_roles(edits, action)) for action in ("removed", "added"))
    for per_replica in (False, True):
        roles = sorted(
            role for role, each in before if each is per_replica and (role, not each) in after
        )
        if roles:
            old, new = ("PerReplica", "PerRole") if per_replica else ("PerRole", "PerReplica")
            yield (
                f"error: layout {old} -> {new} ({', '.join(roles)}): pulumi up refuses it while "
                "the service runs; it would need room for all replicas twice, and then every old "
                "one would end at once"
            )


def pace_notes(edits: Sequence[Edit], turns: Turns) -> Iterator[str]:
    """Says how the replicas of one set restart.

    Args:
        edits: The changes of one service.
        turns: When sets change, as far as plans tell.
    """
    for edit in edits:
        told = pace(edit.new or {}) if edit.restarts and not edit.refused else ""
        if not told or not edit.key.is_lws:
            continue
        turn = turns.of(edit.key)
        if turn is not None and turn.recreated:
            yield (
                f"LeaderWorkerSet {edit.key.name} is deleted with all its replicas and created "
                "anew: strategy Recreate"
            )
        else:
            yield f"LeaderWorkerSet {edit.key.name} restarts its replicas by itself: {told}"


def _roles(edits: Sequence[Edit], action: str) -> Iterator[tuple[str, bool]]:
    """Roles of the sets that are added or removed, and whether each runs one replica."""
    for edit in edits:
        manifest = edit.new or edit.old
        if edit.key.is_lws and edit.change.action == action and label(manifest, labels.ROLE_NAME):
            yield role_of(edit.key, manifest), bool(label(manifest, labels.REPLICA_INDEX))


def _is_picker(key: Identity, manifest: Manifest | None) -> bool:
    """Tells whether a workload is the endpoint picker of a service."""
    component = label(manifest, labels.COMPONENT_TYPE)
    return key.kind == "Deployment" and (component == "router" or key.name.endswith("-epp"))


def pace(manifest: Manifest) -> str:
    """How LeaderWorkerSet updates the groups of one set, empty where it has a single one."""
    if count_at(manifest, "spec", "replicas") <= 1:
        return ""
    limit, surge = (at(manifest, *ROLLING, key) for key in ("maxUnavailable", "maxSurge"))
    count = "1" if limit in (None, 0, 1) else f"up to {'all' if limit == '100%' else limit}"
    told = f"the highest ordinal first, {count} at a time"
    if surge:
        told += f", with {surge} more meanwhile"
    return told if count == "1" else f"{told} (one where {_GATE} is off)"


def whole_groups(edits: Iterable[Edit]) -> dict[Action, frozenset[str]]:
    """Reads which groups are added, and which removed, with their PodGroups."""
    found: dict[Action, set[str]] = {action: set() for action in _WHOLE}
    for edit in edits:
        if edit.key.is_pod_group and edit.change.action in found and group_of(edit):
            found[edit.change.action].add(group_of(edit))
    return {action: frozenset(groups) for action, groups in found.items() if groups}


def group_of(edit: Edit) -> str:
    """Number of an object's serving group, empty where it has none."""
    return label(edit.new or edit.old, labels.GROUP_INDEX)


def group_notes(edits: Sequence[Edit], *, quiet: bool) -> Iterator[str]:
    """Says which groups come or go.

    Args:
        edits: All changes of a service.
        quiet: Whether none of them restarts anything.

    Yields:
        One sentence for those that come, one for those that go.
    """
    for action, groups in whole_groups(edits).items():
        own = [
            edit
            for edit in edits
            if edit.key.is_lws and edit.change.action == action and group_of(edit) in groups
        ]
        names = [f"group-{number}" for number in sorted(groups, key=int)]
        past = "added" if action == "added" else "deleted"
        told = compressed(names).replace("group-", "")
        sets = "one LeaderWorkerSet" if len(own) == 1 else f"{len(own)} LeaderWorkerSets"
        plural = "" if len(groups) == 1 else "s"
        rest = ", nothing restarts" if quiet else ""
        yield f"serving group{plural} {told} {past}: {sets}, PodGroup{plural}{rest}"


def released_notes(keys: Iterable[Identity]) -> Iterator[str]:
    """Says what may happen to them; nothing where there are none."""
    names = sorted((key.name for key in keys), key=_by_number)
    if names:
        yield (
            f"the partition holds {compressed(names)} back no longer: what was held back of it "
            "takes the pod template, and restarts"
        )


def _by_number(name: str) -> tuple[str, int, str]:
    head, _, number = name.rpartition("-")
    return (head, int(number), "") if number.isdecimal() else (name, -1, "")
