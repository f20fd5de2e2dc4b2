"""What a change does, in short sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.checks.pods.prefill_decode import pair_setting
from fusioninfer_pulumi.cli.diff._cells import compressed, count, counts, service_name
from fusioninfer_pulumi.cli.diff._records import Action, EngineChange, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_TEMPLATE,
    Identity,
    Manifest,
    at,
    count_at,
    label,
    role_of,
    service_of,
)
from fusioninfer_pulumi.cli.diff.restarts import Edit, Service, below
from fusioninfer_pulumi.engines.argument_checks import argument_changes
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, listed
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.names import (
    POOL_GROUP,
    POOL_KIND,
    REWRITE_KIND,
    inference_pool,
)
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


Shares = Mapping[str, float]
"""Percent by what gets them."""


def share_notes(kind: str, old: Manifest | None, new: Manifest | None) -> Iterator[str]:
    """Yields what changes in the shares of an InferenceModelRewrite or an HTTPRoute."""
    of_kind = {REWRITE_KIND: _rewrites, "HTTPRoute": _routes}.get(kind)
    if of_kind is None:
        return
    before, after = of_kind(old), of_kind(new)
    own_pool = inference_pool(label(new, labels.SERVICE))
    moves: dict[str, list[str]] = {}  # names that requests ask for, by the same change
    for asked in dict.fromkeys([*before, *after]):
        was, is_ = before.get(asked, {}), after.get(asked, {})
        if was != is_ and max(len(was), len(is_)) > 1:
            waits = "" if kind == REWRITE_KIND else _waits(own_pool, was, is_)
            moves.setdefault(f"{_moved(was, is_)}{waits}", []).append(asked)
    for moved, names in moves.items():
        yield f"requests{_listed(names)}: {moved}"


def _waits(own_pool: str, before: Shares, after: Shares) -> str:
    """When `up` writes the larger shares of `split`; empty if none grows."""
    if next(iter(after), None) != own_pool:
        return ""  # users wrote these backends
    before = before or {own_pool: 100}
    growing = [name for name, share in after.items() if share > before.get(name, 0)]
    return f", when {listed(growing)} can serve" if growing else ""


def _moved(before: Shares, after: Shares) -> str:
    """`next 5 % -> 50 %, base 95 % -> 50 %`."""
    return ", ".join(
        f"{name} {before.get(name, 0):.3g} % -> {after.get(name, 0):.3g} %"
        for name in dict.fromkeys([*before, *after])
        if before.get(name, 0) != after.get(name, 0)
    )


def _listed(asked: list[str]) -> str:
    names = [name for name in asked if name]
    return f" for {', '.join(names)}" if names else ""


def _rewrites(manifest: Manifest | None) -> dict[str, Shares]:
    """Shares of models by the name that requests ask for; empty for all other names."""
    by_route: dict[str, Shares] = {}
    for rule in _items(at(manifest, "spec", "rules")):
        models = [at(match, "model", "value") for match in _items(rule.get("matches"))]
        shares = _shares(rule.get("targets"), "modelRewrite")
        for name in models or [""]:
            by_route.setdefault(str(name), shares)
    return by_route


def _routes(manifest: Manifest | None) -> dict[str, Shares]:
    """Shares of pools by the rule; empty for a rule of all requests."""
    by_route: dict[str, Shares] = {}
    for index, rule in enumerate(_items(at(manifest, "spec", "rules"))):
        backends = _items(rule.get("backendRefs"))
        if all(backend.get("kind") == POOL_KIND for backend in backends):
            name = f"rule {rule.get('name') or index + 1}" if rule.get("matches") else ""
            by_route[name] = _shares(backends, "name")
    return by_route


def _shares(targets: Any, key: str) -> Shares:
    weights = {str(item.get(key)): item.get("weight", 1) for item in _items(targets)}
    numbers = {name: weight for name, weight in weights.items() if isinstance(weight, int)}
    total = sum(numbers.values())
    return {name: 100 * number / total for name, number in numbers.items()} if total else {}


def _items(listed: Any) -> list[Mapping[str, Any]]:
    items = listed if isinstance(listed, list) else []
    return [item for item in items if isinstance(item, Mapping)]


_MOST_DEFAULTS = 6
_TEMPLATES = ("leaderTemplate", "workerTemplate")


def engine_changes(edits: Sequence[Edit]) -> list[EngineChange]:
    """What the engines of LeaderWorkerSets no longer take, once for each role."""
    changed_engines: list[EngineChange] = []
    for edit, old, new in _commands(edits):
        changes = argument_changes(old, new)
        if edit.new is None or changes is None or not (changes.removed or changes.defaults):
            continue
        service, role = service_of(edit.key, edit.new), role_of(edit.key, edit.new)
        change = EngineChange(service, edit.key.namespace, role, changes)
        if change not in changed_engines:
            changed_engines.append(change)
    return changed_engines


def handshake_notes(edits: Sequence[Edit]) -> Iterator[str]:
    """Yields a warning for each decode role whose requests fail while both revisions run.

    The endpoint picker pairs prefill and decode pods of either revision.
    """
    warnings: dict[str, None] = {}
    for edit, old, new in _commands(edits):
        engine = new.engine
        if engine is None or old.engine is not engine or edit.new is None:
            continue
        remedy = engine.kv_cache.missing_recompute(old) or engine.kv_cache.missing_recompute(new)
        if remedy is None or label(edit.new, labels.COMPONENT_TYPE) != ComponentType.DECODER.value:
            continue
        changed = []
        for key in sorted({*engine.kv_cache.must_agree(old, new)} - {"served name"}):
            before, after = pair_setting(old, engine, key), pair_setting(new, engine, key)
            if None not in (before, after) and before != after:
                changed.append(f"{key} {before} -> {after}")
        if changed:
            warning = (
                f"role {role_of(edit.key, edit.new)}: warning: while both revisions run, "
                f"{engine.title} rejects KV caches between them ({', '.join(changed)}) and these "
                f"requests fail with HTTP 500; before this update, add {remedy}"
            )
            warnings[warning] = None
    yield from warnings


def _commands(edits: Sequence[Edit]) -> Iterator[tuple[Edit, EngineCommand, EngineCommand]]:
    """Yields the command lines, before and after, of each container of a LeaderWorkerSet."""
    for edit in edits:
        if not edit.key.is_lws or edit.old is None or edit.new is None:
            continue
        for template in _TEMPLATES:
            olds, news = (_containers(manifest, template) for manifest in (edit.old, edit.new))
            for name in (name for name in olds if name in news):
                yield edit, read_command(olds[name]), read_command(news[name])


def _containers(manifest: Manifest, template: str) -> dict[str, Mapping[str, Any]]:
    containers = at(manifest, *LWS_TEMPLATE.split("."), template, "spec", "containers")
    items = containers if isinstance(containers, (list, tuple)) else ()
    return {
        container["name"]: container
        for container in items
        if isinstance(container, Mapping) and isinstance(container.get("name"), str)
    }


def engine_notes(changes: Sequence[EngineChange], services: int) -> Iterator[str]:
    """Says in sentences what the engines no longer take; names services where there are several."""
    for change in changes:
        name = f"{service_name(change.namespace, change.service)}: " if services > 1 else ""
        arguments = change.changes
        prefix = (
            f"{name}role {change.role}, {arguments.engine} {arguments.before} -> {arguments.after}"
        )
        if arguments.removed:
            listed = [
                f"{argument.name} (use {argument.instead})" if argument.instead else argument.name
                for argument in arguments.removed
            ]
            yield f"{prefix}: no longer takes {', '.join(listed)}"
        # The engine chooses what null stands for: it may be the same in both releases.
        stated = [
            default for default in arguments.defaults if None not in (default.before, default.after)
        ]
        if stated:
            listed = [
                f"{default.name} {json.dumps(default.before)} -> {json.dumps(default.after)}"
                for default in stated[:_MOST_DEFAULTS]
            ]
            more = len(stated) - len(listed)
            rest = f" and {more} more (--output json lists them)" if more else ""
            yield f"{prefix}: other defaults: {', '.join(listed)}{rest}"
