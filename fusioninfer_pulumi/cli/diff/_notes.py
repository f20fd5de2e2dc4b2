"""Notes about the effects of a change, one sentence each."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.diff._formatting import count_objects, format_service, join_names
from fusioninfer_pulumi.cli.diff._records import BeforeAfter, EngineChange, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    ParsedManifest,
    ServiceIdentity,
    get_label,
)
from fusioninfer_pulumi.cli.diff.restarts import Edit
from fusioninfer_pulumi.cli.printing import format_count
from fusioninfer_pulumi.engines.argument_checks import compare_arguments
from fusioninfer_pulumi.findings import Finding, format_with_rule, summarize_names
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.object_metadata import list_items, lookup
from fusioninfer_pulumi.kube.object_names import POOL_KIND, REWRITE_KIND, inference_pool
from fusioninfer_pulumi.rollout.mixed_revisions import extract_engines
from fusioninfer_pulumi.topology.gang import NATIVE_GROUP

#: Stands for the objects that belong to no service.
_NO_SERVICE = ServiceIdentity(namespace="", name="")


def describe_changes(
    edits: Sequence[Edit],
    effects: Iterable[RoleEffect],
    services: Sequence[Container[ServiceIdentity]],
    rejections: Mapping[ServiceIdentity, Sequence[Finding]],
    unfrozen_lws: Iterable[Identity],
) -> Iterator[str]:
    """Yield sentences about each service, with its name if there are several services.

    Args:
        edits: The objects that differ.
        effects: The effects on replicas.
        services: The services that have objects, before and after.
        rejections: The changes that `pulumi up` rejects, by service.
        unfrozen_lws: LeaderWorkerSets whose replicas restart only because the partition is lowered.
    """
    by_service: dict[ServiceIdentity, list[Edit]] = {}
    for edit in edits:
        service = edit.service if edit.service.name else _NO_SERVICE
        by_service.setdefault(service, []).append(edit)
    role_effects: dict[ServiceIdentity, list[RoleEffect]] = {}
    for effect in effects:
        if effect.kind == "LeaderWorkerSet":
            key = ServiceIdentity(effect.namespace, effect.service)
            role_effects.setdefault(key, []).append(effect)
    for service, service_edits in by_service.items():
        name = "other objects" if service == _NO_SERVICE else format_service(*service)
        existed, exists = (service in side for side in services)
        if service != _NO_SERVICE and existed != exists:
            count = format_count(len(service_edits), "object")
            yield f"service {name} {'added' if exists else 'removed'} ({count})"
            continue
        sentences = [
            f"error: {format_with_rule(finding)}" for finding in rejections.get(service, ())
        ]
        service_effects = role_effects.get(service, ())
        sentences += _describe_service(service_edits, service_effects)
        if not sentences:
            # For a single service the summary above the notes already counts the objects.
            if len(by_service) > 1:
                sentences = [count_objects(edit.change for edit in service_edits)]
            # It is unknown whether objects outside of services restart pods.
            if service != _NO_SERVICE and not any(e.restart_reason for e in service_effects):
                sentences = ["; ".join([*sentences, "nothing restarts"])]
        prefix = f"{name}: " if len(by_service) > 1 else ""
        yield from (prefix + note for note in sentences)
    if unfrozen_lws:
        yield (
            f"partition lowered for {join_names(key.name for key in unfrozen_lws)}: "
            "replicas with the old pod template restart"
        )


def _describe_service(edits: Sequence[Edit], effects: Sequence[RoleEffect]) -> Iterator[str]:
    replaced: dict[tuple[str, str], list[str]] = {}
    for edit in edits:
        if edit.immutable_field:
            replaced.setdefault((edit.immutable_field, edit.key.kind), []).append(edit.key.name)
    for (field, kind), names in replaced.items():
        yield f"{field} is immutable: replaces {kind} {join_names(names)}"
    restarted: dict[str, list[str]] = {}
    for effect in effects:
        if effect.restarts:
            restarted.setdefault(effect.restart_reason, []).extend(effect.restarts)
    for reason, names in restarted.items():
        yield f"{reason}: restarts {join_names(names)}"
    if held := [name for effect in effects for name in effect.held]:
        yield f"the partition keeps the old pod template of {join_names(held)}"
    for edit in edits:
        if edit.restarts and edit.key.is_apps_workload:
            yield f"{edit.reason}: restarts {edit.key.kind} {edit.key.name}"
    has_restarts = any(edit.restarts for edit in edits) or any(e.restart_reason for e in effects)
    suffix = "" if has_restarts else ", nothing restarts"
    for effect in effects:
        # Only the table of replicas shows the other changes.
        if effect.role_change not in ("", "replicas renamed", "layout changed"):
            yield f"role {effect.role}: {effect.role_change}" + (
                f", stops {join_names(effect.removed)}" if effect.removed else suffix
            )
    removed = {edit.key.name for edit in edits if not edit.new and edit.key.is_lws}
    for edit in edits:
        yield from _warn_about_larger_gang(edit)
        yield from _warn_about_live_effects(edit, removed)
        yield from (
            note + suffix for note in describe_traffic_shares(edit.key.kind, edit.old, edit.new)
        )


def _warn_about_larger_gang(edit: Edit) -> Iterator[str]:
    if not edit.key.is_pod_group or not edit.old or not edit.new:
        return
    native = edit.key.group == NATIVE_GROUP
    field = ("schedulingPolicy", "gang", "minCount") if native else ("minMember",)
    before, after = lookup(edit.old, "spec", *field), lookup(edit.new, "spec", *field)
    if not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return
    is_all_or_nothing = native or bool(lookup(edit.new, "spec", "minTaskMember"))
    # PodGroups of this library without tasks have subgroups.
    if is_all_or_nothing or lookup(edit.new, "spec", "subGroupPolicy"):
        prefix = "the gang is all-or-nothing; " if is_all_or_nothing else ""
        yield (
            f"PodGroup {field[-1]} {before} -> {after}: {prefix}unless all {after} pods fit, "
            "replacement pods of running replicas stay pending"
        )


_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_STORAGE = ("resources", "requests", "storage")


def _warn_about_live_effects(edit: Edit, removed: Container[str]) -> Iterator[str]:
    """Yield effects on running pods that the changed fields do not show.

    `removed` contains the names of the LeaderWorkerSets that the update deletes.
    """
    name, kind = edit.key.name, edit.key.kind
    target = lookup(edit.old, "spec", "scaleTargetRef", "name")
    if kind in _AUTOSCALERS and not edit.new and target not in removed:
        yield f"{kind} {name} removed: the role may scale down to the manifest's `replicas`"
    if not edit.old or not edit.new:
        return
    old_size, new_size = (lookup(side, "spec", *_STORAGE) for side in (edit.old, edit.new))
    if kind == "PersistentVolumeClaim" and _is_less(new_size, old_size):
        change = f"{old_size} -> {new_size}"
        yield f"error: a claim cannot shrink: the API server rejects {name} {change}"
    old_ports, new_ports = (_format_target_ports(side) for side in (edit.old, edit.new))
    if kind in (POOL_KIND, "Service") and old_ports and new_ports and old_ports != new_ports:
        yield (
            f"{kind} {name}: target port {old_ports} -> {new_ports} changes immediately, but "
            "pods restart one at a time: requests to pods with the other port fail"
        )


def _is_less(size: Any, other: Any) -> bool:
    try:
        return quantity.parse(size) < quantity.parse(other)
    except ValueError:
        return False


def _format_target_ports(manifest: ParsedManifest) -> str:
    """Return the target ports of an InferencePool (`targetPorts`) or a Service (`ports`)."""
    pool = [port.get("number") for port in list_items(manifest, "spec", "targetPorts")]
    service = [port.get("targetPort") for port in list_items(manifest, "spec", "ports")]
    return ", ".join(str(port) for port in pool or service if port is not None)


def describe_traffic_shares(
    kind: str, old: ParsedManifest | None, new: ParsedManifest | None
) -> Iterator[str]:
    """Yield how the traffic shares of an InferenceModelRewrite or an HTTPRoute change."""
    shares_before, shares_after = _read_shares(kind, old), _read_shares(kind, new)
    own_pool = inference_pool(get_label(new, labels.SERVICE))
    names_by_text: dict[str, list[str]] = {}
    for name in dict.fromkeys([*shares_before, *shares_after]):
        before, after = shares_before.get(name, {}), shares_after.get(name, {})
        if before == after or max(len(before), len(after)) < 2:  # one target gets all requests
            continue
        text = ", ".join(
            f"{target} {before.get(target, 0):.3g} % -> {after.get(target, 0):.3g} %"
            for target in dict.fromkeys([*before, *after])
            if before.get(target, 0) != after.get(target, 0)
        )
        # `pulumi up` raises shares of `httproute.split` when the pools are ready, but
        # immediately changes shares of backends that users wrote. The first pool of a split is the
        # service's.
        is_split = kind != REWRITE_KIND and next(iter(after), None) == own_pool
        old_shares = before or {own_pool: 100}
        growing = [target for target, share in after.items() if share > old_shares.get(target, 0)]
        if is_split and growing:
            text += f", when {summarize_names(growing)} is ready"
        names_by_text.setdefault(text, []).append(name)
    for text, names in names_by_text.items():
        requested_names = ", ".join(filter(None, names))
        requests = f"requests for {requested_names}" if requested_names else "requests"
        yield f"{requests}: {text}"


def _read_shares(kind: str, manifest: ParsedManifest | None) -> dict[str, Mapping[str, float]]:
    """Return percentages of targets by model name (InferenceModelRewrite) or rule (HTTPRoute).

    The name is empty if the percentages apply to all requests.
    """
    shares: dict[str, Mapping[str, float]] = {}
    if kind not in (REWRITE_KIND, "HTTPRoute"):
        return shares
    for number, rule in enumerate(list_items(manifest, "spec", "rules"), start=1):
        matches, backends = list_items(rule, "matches"), list_items(rule, "backendRefs")
        if kind == REWRITE_KIND:
            percentages = _compute_percentages(list_items(rule, "targets"), "modelRewrite")
            models = [str(lookup(match, "model", "value")) for match in matches]
            for model in models or [""]:
                shares.setdefault(model, percentages)
        elif all(backend.get("kind") == POOL_KIND for backend in backends):
            name = f"rule {rule.get('name') or number}" if rule.get("matches") else ""
            shares[name] = _compute_percentages(backends, "name")
    return shares


def _compute_percentages(targets: Iterable[Mapping[str, Any]], key: str) -> Mapping[str, float]:
    weights = {str(item.get(key)): item.get("weight", 1) for item in targets}
    numbers = {name: weight for name, weight in weights.items() if isinstance(weight, int)}
    total = sum(numbers.values())
    return {name: 100 * number / total for name, number in numbers.items()} if total else {}


_MAX_DEFAULTS = 6


def find_engine_changes(edits: Sequence[Edit]) -> list[EngineChange]:
    """Find removed arguments and changed defaults of engine releases, once for each role."""
    changes: list[EngineChange] = []
    for edit in edits:
        if not edit.key.is_lws or edit.old is None or edit.new is None:
            continue
        engines = zip(extract_engines([edit.old]), extract_engines([edit.new]), strict=False)
        for old, new in engines:
            comparison = compare_arguments(old.command, new.command)
            if comparison is None or not (comparison.removed or comparison.defaults):
                continue
            change = EngineChange(
                service=edit.service.name,
                namespace=edit.service.namespace,
                role=new.role,
                engine=comparison.engine,
                release=BeforeAfter(comparison.before, comparison.after),
                removed=comparison.removed,
                defaults=comparison.defaults,
            )
            if change not in changes:
                changes.append(change)
    return changes


def describe_engine_changes(changes: Sequence[EngineChange], service_count: int) -> Iterator[str]:
    """Yield sentences about changed engine releases, with the service if there are several."""
    for change in changes:
        name = f"{format_service(change.namespace, change.service)}: " if service_count > 1 else ""
        releases = f"{change.release.before} -> {change.release.after}"
        prefix = f"{name}role {change.role}, {change.engine} {releases}"
        if change.removed:
            texts = [
                f"{argument} (use {successor})" if successor else argument
                for argument, successor in change.removed
            ]
            yield f"{prefix}: no longer accepts {', '.join(texts)}"
        # A default of null means that the engine chooses, which may give the same value as before.
        texts = [
            f"{default.name} {json.dumps(default.before)} -> {json.dumps(default.after)}"
            for default in change.defaults
            if None not in (default.before, default.after)
        ]
        if texts:
            more = len(texts) - _MAX_DEFAULTS
            suffix = f" and {more} more (--output json lists them)" if more > 0 else ""
            yield f"{prefix}: changed defaults: {', '.join(texts[:_MAX_DEFAULTS])}{suffix}"
