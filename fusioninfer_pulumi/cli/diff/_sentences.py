"""The effects of a change in short sentences."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.diff._formatting import count, count_objects, join_names, service_name
from fusioninfer_pulumi.cli.diff._records import EngineChange, Pair, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_TEMPLATE,
    Identity,
    Manifest,
    Service,
    label,
    role_of,
)
from fusioninfer_pulumi.cli.diff.restarts import Edit
from fusioninfer_pulumi.engines.argument_checks import compare_arguments
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.engine_commands import read_command
from fusioninfer_pulumi.findings import Finding, list_names
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.object_metadata import at
from fusioninfer_pulumi.kube.object_names import POOL_KIND, REWRITE_KIND, inference_pool
from fusioninfer_pulumi.topology.gang import NATIVE_GROUP


def describe_changes(
    edits: Sequence[Edit],
    effects: Iterable[RoleEffect],
    services: Sequence[Container[Service]],
    rejections: Mapping[Service, Sequence[Finding]],
    freed: Iterable[Identity],
) -> Iterator[str]:
    """Yields the effects of a change, service by service, with names if there are several.

    Args:
        edits: The objects that differ.
        effects: The effects on replicas.
        services: The services that have objects, before and after.
        rejections: The changes that `pulumi up` rejects.
        freed: LeaderWorkerSets that a lower partition lets restart.
    """
    by_service: dict[Service, list[Edit]] = {}
    for edit in edits:
        by_service.setdefault(edit.service if edit.service[1] else ("", ""), []).append(edit)
    roles: dict[Service, list[RoleEffect]] = {}
    for effect in effects:
        if effect.kind == "LeaderWorkerSet":
            roles.setdefault((effect.namespace, effect.service), []).append(effect)
    for service, service_edits in by_service.items():
        name = service_name(*service) if service[1] else "other objects"
        was, is_ = (service in group for group in services)
        if service[1] and was != is_:
            number = count(len(service_edits), "object")
            yield f"service {name} {'added' if is_ else 'removed'} ({number})"
            continue
        sentences = [f"error: {message}" for message in rejections.get(service, ())]
        sentences += _service_notes(service_edits, roles.get(service, ()))
        if not sentences:
            # Nothing is known of objects outside of services.
            rest = "; nothing restarts" if service[1] else ""
            sentences = [count_objects(edit.change for edit in service_edits) + rest]
        prefix = f"{name}: " if len(by_service) > 1 else ""
        yield from (prefix + note for note in sentences)
    if freed:
        yield (
            f"no longer below the partition: {join_names(key.name for key in freed)}; replicas "
            "that still have the old pod template restart"
        )


def _service_notes(edits: Sequence[Edit], roles: Sequence[RoleEffect]) -> Iterator[str]:
    replaced: dict[tuple[str, str], list[str]] = {}
    for edit in edits:
        if edit.immutable_field:
            replaced.setdefault((edit.immutable_field, edit.key.kind), []).append(edit.key.name)
    for (field, kind), names in replaced.items():
        yield f"{field} is immutable: replaces {kind} {join_names(names)}"
    restarted: dict[str, list[str]] = {}
    for effect in roles:
        if effect.restarts:
            restarted.setdefault(effect.restart_reason, []).extend(effect.restarts)
    for why, names in restarted.items():
        yield f"{why}: restarts {join_names(names)}"
    if held := [name for effect in roles for name in effect.held]:
        yield f"below the partition, keep the old pod template: {join_names(held)}"
    for edit in edits:
        if edit.restarts and edit.key.is_apps_workload:
            yield f"{edit.reason}: restarts {edit.key.kind} {edit.key.name}"
    rest = "" if any(edit.restarts for edit in edits) else ", nothing restarts"
    for effect in roles:
        yield from _scale(effect, rest)
    removed = {edit.key.name for edit in edits if not edit.new and edit.key.is_lws}
    for edit in edits:
        yield from _growth(edit)
        yield from _live_effects(edit, removed)
        yield from (
            note + rest for note in describe_traffic_shares(edit.key.kind, edit.old, edit.new)
        )


def _scale(effect: RoleEffect, rest: str) -> Iterator[str]:
    """Yields how a role is scaled, added or removed."""
    if effect.role_change and effect.role_change != "replicas renamed":
        yield f"role {effect.role}: {effect.role_change}{rest}"


def _growth(edit: Edit) -> Iterator[str]:
    """Warns of a growing gang: its pods stay pending until all of them fit."""
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
            f"PodGroup {field[-1]} {before} -> {after}: {what}unless all {after} pods fit, "
            "replacement pods of running replicas stay pending"
        )


def _live_effects(edit: Edit, removed: Container[str]) -> Iterator[str]:
    """Yield effects on running pods that the changed fields alone do not show.

    `removed` are LeaderWorkerSets that the update deletes.
    """
    name, kind = edit.key.name, edit.key.kind
    scaled = at(edit.old, "spec", "scaleTargetRef", "name")
    if kind in _AUTOSCALERS and not edit.new and scaled not in removed:
        yield f"{kind} {name} removed: the role's replicas may fall to its `replicas`"
    if not edit.old or not edit.new:
        return
    before, after = (at(side, "spec", *_STORAGE) for side in (edit.old, edit.new))
    if kind == "PersistentVolumeClaim" and _is_less(after, before):
        yield f"error: a claim cannot shrink: the API server rejects {name} {before} -> {after}"
    before, after = (_target_ports(side) for side in (edit.old, edit.new))
    if kind in (POOL_KIND, "Service") and before and after and before != after:
        yield (
            f"{kind} {name}: target port {before} -> {after} in one step, but pods restart one "
            "after the other: requests to pods that still have the other port fail"
        )


_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_STORAGE = ("resources", "requests", "storage")


def _is_less(after: Any, before: Any) -> bool:
    try:
        return quantity.parse(after) < quantity.parse(before)
    except ValueError:
        return False


def _target_ports(manifest: Manifest) -> str:
    pool = [port.get("number") for port in _items(at(manifest, "spec", "targetPorts"))]
    service = [port.get("targetPort") for port in _items(at(manifest, "spec", "ports"))]
    return ", ".join(str(port) for port in pool or service if port is not None)


def describe_traffic_shares(kind: str, old: Manifest | None, new: Manifest | None) -> Iterator[str]:
    """Yields what changes in the shares of an InferenceModelRewrite or an HTTPRoute."""
    before, after = _shares(kind, old), _shares(kind, new)
    own_pool = inference_pool(label(new, labels.SERVICE))
    moves: dict[str, list[str]] = {}  # names that requests ask for, by the same change
    for requested in dict.fromkeys([*before, *after]):
        was, is_ = before.get(requested, {}), after.get(requested, {})
        if was == is_ or max(len(was), len(is_)) < 2:  # one target is no share
            continue
        text = ", ".join(
            f"{name} {was.get(name, 0):.3g} % -> {is_.get(name, 0):.3g} %"
            for name in dict.fromkeys([*was, *is_])
            if was.get(name, 0) != is_.get(name, 0)
        )
        # `up` writes the larger shares of `split` late; users wrote other backends.
        growing = [n for n, share in is_.items() if share > (was or {own_pool: 100}).get(n, 0)]
        if kind != REWRITE_KIND and next(iter(is_), None) == own_pool and growing:
            text += f", when {list_names(growing)} is ready"
        moves.setdefault(text, []).append(requested)
    for text, names in moves.items():
        asked_for = ", ".join(filter(None, names))
        yield f"requests{f' for {asked_for}' if asked_for else ''}: {text}"


def _shares(kind: str, manifest: Manifest | None) -> dict[str, Mapping[str, float]]:
    """Returns percentages of targets, by requested model name or rule; empty for other kinds."""
    shares: dict[str, Mapping[str, float]] = {}
    if kind not in (REWRITE_KIND, "HTTPRoute"):
        return shares
    for index, rule in enumerate(_items(at(manifest, "spec", "rules"))):
        matches, backends = _items(rule.get("matches")), _items(rule.get("backendRefs"))
        if kind == REWRITE_KIND:
            targets = _percent(_items(rule.get("targets")), "modelRewrite")
            for name in [at(match, "model", "value") for match in matches] or [""]:
                shares.setdefault(str(name), targets)
        elif all(backend.get("kind") == POOL_KIND for backend in backends):
            name = f"rule {rule.get('name') or index + 1}" if rule.get("matches") else ""
            shares[name] = _percent(backends, "name")
    return shares


def _percent(targets: Iterable[Mapping[str, Any]], key: str) -> Mapping[str, float]:
    weights = {str(item.get(key)): item.get("weight", 1) for item in targets}
    numbers = {name: weight for name, weight in weights.items() if isinstance(weight, int)}
    total = sum(numbers.values())
    return {name: 100 * number / total for name, number in numbers.items()} if total else {}


def _items(value: Any) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, (list, tuple)) else []
    return [item for item in items if isinstance(item, Mapping)]


_MOST_DEFAULTS = 6
_TEMPLATES = ("leaderTemplate", "workerTemplate")


def find_engine_changes(edits: Sequence[Edit]) -> list[EngineChange]:
    """Finds changed arguments and defaults of engine releases, once for each role."""
    changed_engines: list[EngineChange] = []
    for edit, old, new in _commands(edits):
        found = compare_arguments(old, new)
        if found is None or not (found.removed or found.defaults):
            continue
        namespace, service = edit.service
        change = EngineChange(
            service=service,
            namespace=namespace,
            role=role_of(edit.key, edit.new),
            engine=found.engine,
            release=Pair(found.before, found.after),
            removed=found.removed,
            defaults=found.defaults,
        )
        if change not in changed_engines:
            changed_engines.append(change)
    return changed_engines


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
    items = _items(at(manifest, *LWS_TEMPLATE.split("."), template, "spec", "containers"))
    return {item["name"]: item for item in items if isinstance(item.get("name"), str)}


def describe_engine_changes(changes: Sequence[EngineChange], services: int) -> Iterator[str]:
    """Yields a sentence for each changed engine release, named if there are several."""
    for change in changes:
        name = f"{service_name(change.namespace, change.service)}: " if services > 1 else ""
        releases = f"{change.release.before} -> {change.release.after}"
        prefix = f"{name}role {change.role}, {change.engine} {releases}"
        if change.removed:
            texts = [
                f"{argument.name} (use {argument.instead})" if argument.instead else argument.name
                for argument in change.removed
            ]
            yield f"{prefix}: no longer accepts {', '.join(texts)}"
        # The engine chooses what null stands for: it may be the same in both releases.
        texts = [
            f"{default.name} {json.dumps(default.before)} -> {json.dumps(default.after)}"
            for default in change.defaults
            if None not in (default.before, default.after)
        ]
        if texts:
            more = len(texts) - _MOST_DEFAULTS
            rest = f" and {more} more (--output json lists them)" if more > 0 else ""
            yield f"{prefix}: changed defaults: {', '.join(texts[:_MOST_DEFAULTS])}{rest}"
