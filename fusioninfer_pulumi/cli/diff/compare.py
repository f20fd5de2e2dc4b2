"""Compares two lists of Kubernetes manifests: objects, their fields, replicas, pods and GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.diff._cells import service_name
from fusioninfer_pulumi.cli.diff._notes import (
    engine_changes,
    engine_notes,
    handshake_notes,
    notes,
    secret_notes,
    unknown_notes,
)
from fusioninfer_pulumi.cli.diff._records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    RoleEffect,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    Manifest,
    Objects,
    at,
    by_identity,
    canonical,
    count_at,
    hidden_template,
    refused_field,
    restarts,
    role_of,
    same,
    service_of,
    text_at,
)
from fusioninfer_pulumi.cli.diff.restarts import (
    Edit,
    Service,
    Turns,
    refusals,
    released,
    role_effects,
    turns,
    without_revision,
)
from fusioninfer_pulumi.kube.outputs import UNKNOWN
from fusioninfer_pulumi.kube.resources import accelerators
from fusioninfer_pulumi.plan.service_plan import ServicePlan

AcceleratorsOf = Callable[[Mapping[str, Any]], int]

# Kubernetes merges lists by these keys; volume mounts may repeat a name, but not a path.
_NAMES = ("name", "mountPath")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def accelerators_of(template: Mapping[str, Any]) -> int:
    """Counts what one pod of a template asks for, 0 where the template is ill-formed.

    A diff reads manifests of any origin, which may be invalid: what cannot be read asks for
    nothing that we know of.
    """
    try:
        return accelerators(template)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0


def compare(
    old: Sequence[Manifest],
    new: Sequence[Manifest],
    *,
    accelerators_of: AcceleratorsOf = accelerators_of,
    plans: tuple[Iterable[ServicePlan], Iterable[ServicePlan]] = ((), ()),
) -> Difference:
    """Finds what differs between two lists of manifests, and what that does to running pods.

    Args:
        old: Manifests before, from any source; they may be ill-formed.
        new: Manifests after.
        accelerators_of: Counts the accelerators that one pod of a template asks for.
        plans: Services before and after, as far as they are known: they have the order of restarts
            and what a partition holds back.

    Returns:
        The difference, false where there is none.
    """
    new_plans = list(plans[1])
    old_turns, new_turns = turns(plans[0]), turns(new_plans)
    olds = by_identity(old)
    news, kept = with_live_replicas(olds, by_identity(new), new_turns)
    edits = list(edits_between(olds, news))
    old_lws, new_lws = (
        {key: manifest for key, manifest in objects.items() if key.is_lws}
        for objects in (olds, news)
    )
    freed = released((old_lws, new_lws), (old_turns, new_turns), edits)
    unknown, secret = _hidden(olds, news)
    hidden = [*unknown_notes(unknown), *secret_notes(secret & {edit.key for edit in edits})]
    names = tuple(key.name for key in unknown)
    if not edits and not freed:
        return Difference(notes=(*hidden, *kept), unknown=names)
    effects = tuple(role_effects(old_lws, new_lws, edits, new_turns))
    refused = refusals(new_plans, (old_lws, new_lws), edits)
    services = _services(olds), _services(news)
    affected = list(dict.fromkeys(service for edit in edits for service in edit.services))
    engines = engine_changes(edits)
    return Difference(
        objects=tuple(edit.change for edit in edits),
        effects=effects,
        notes=(
            *notes(edits, effects, services, refused, freed, known=not unknown),
            *_beside_notes(effects, new_lws, accelerators_of, several=len(affected) > 1),
            *hidden,
            *kept,
            *engine_notes(engines, len(affected)),
            *handshake_notes(edits),
        ),
        totals=tuple(_totals(old_lws, new_lws, affected, accelerators_of)),
        engines=tuple(engines),
        unknown=names,
    )


def _hidden(olds: Objects, news: Objects) -> tuple[list[Identity], set[Identity]]:
    """Workloads of both sides whose pod template is unknown, and those whose is secret."""
    unknown: list[Identity] = []
    secret: set[Identity] = set()
    for key in (key for key in news if key in olds):
        stand_ins = {hidden_template(key, objects[key]) for objects in (olds, news)} - {None}
        if UNKNOWN in stand_ins:
            unknown.append(key)
        elif stand_ins:
            secret.add(key)
    return unknown, secret


def with_live_replicas(
    olds: Objects, news: Objects, turns: Turns
) -> tuple[Objects, dict[str, None]]:
    """The new objects with the replicas that autoscalers have set, and a note for each role."""
    updated, kept = dict(news), dict[str, None]()
    for key, new in news.items():
        old, turn = olds.get(key), turns.of(key)
        if old is None or turn is None or not (key.is_lws and turn.step.scaled_externally):
            continue
        before, after = (count_at(manifest, "spec", "replicas") for manifest in (old, new))
        if before == after or turn.recreated or refused_field(key, old, new):
            continue  # nothing to keep, or created again with the replicas of the manifest
        updated[key] = {**new, "spec": {**new["spec"], "replicas": before}}
        kept[
            f"role {role_of(key, new)} is autoscaled: `pulumi up` keeps its live replicas, and "
            f"{before} -> {after} holds for a LeaderWorkerSet that is created"
        ] = None
    return updated, kept


def edits_between(olds: Objects, news: Objects) -> Iterator[Edit]:
    """Yields the objects that differ."""
    for key, new in news.items():
        old = olds.get(key)
        if old is None:
            yield Edit(key, None, new, _change(key, new, "added"))
        elif not same(old, new):
            # Both are one object: a namespace that only one of them states is no change.
            changes = _changes("", old, new)
            fields = [field for field in changes if field.path != "metadata.namespace"]
            if fields:
                refused = refused_field(key, old, new)
                shown = without_revision(fields, key.template_paths)
                change = _change(key, new, "replaced" if refused else "changed", shown)
                restarting = bool(refused) or restarts(key, old, new)
                yield Edit(key, old, new, change, restarting, refused)
    for key, old in olds.items():
        if key not in news:
            yield Edit(key, old, None, _change(key, old, "removed"))


def _change(
    key: Identity, manifest: Manifest, action: Action, fields: tuple[FieldChange, ...] = ()
) -> ObjectChange:
    version = text_at(manifest, "apiVersion")
    return ObjectChange(version, key.kind, key.namespace, key.name, action, fields)


def _services(objects: Objects) -> set[Service]:
    """Services that have an object of any kind."""
    return {(key.namespace, service_of(key, manifest)) for key, manifest in objects.items()}


def _changes(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    """Yields the fields that differ between two plain values, in the order of the objects.

    Lists whose items are all named are compared by name: an environment variable inserted at the
    top is one added variable, not a change of all that follow. Items of other lists are aligned by
    value.
    """
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_mappings(path, old, new, _key)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(path, old, new)
    else:
        yield FieldChange(path, old, new, "changed")


def _of_mappings(
    path: str, old: dict[str, Any], new: dict[str, Any], step: Callable[[str, str], str]
) -> Iterator[FieldChange]:
    for key, value in old.items():
        if key in new:
            yield from _changes(step(path, key), value, new[key])
        else:
            yield FieldChange(step(path, key), value, None, "removed")
    for key, value in new.items():
        if key not in old:
            yield FieldChange(step(path, key), None, value, "added")


def _of_lists(path: str, old: list[Any], new: list[Any]) -> Iterator[FieldChange]:
    for key in _NAMES:
        olds, news = _by_name(old, key), _by_name(new, key)
        if olds is not None and news is not None:
            yield from _of_mappings(path, olds, news, _item)
            if [name for name in olds if name in news] != [name for name in news if name in olds]:
                yield FieldChange(f"{path}[*].{key}", list(olds), list(news), "changed")
            return
    # Imported here: most comparisons need no alignment.
    from difflib import SequenceMatcher

    olds_, news_ = [canonical(item) for item in old], [canonical(item) for item in new]
    matcher = SequenceMatcher(None, olds_, news_, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            continue
        both = min(end - start, end_new - start_new)
        for place in range(both):
            item = _item(path, start + place)
            yield from _changes(item, old[start + place], new[start_new + place])
        for place in range(start + both, end):
            yield FieldChange(_item(path, place), old[place], None, "removed")
        for place in range(start_new + both, end_new):
            yield FieldChange(_item(path, place), None, new[place], "added")


def _by_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """Indexes items by name, None where one has no name or shares it."""
    named = {
        item[key]: item for item in items if isinstance(item, dict) and type(item.get(key)) is str
    }
    return named if len(named) == len(items) else None


def _key(path: str, key: str) -> str:
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _item(path: str, place: str | int) -> str:
    return f"{path}[{place}]"


def _beside_notes(
    effects: Iterable[RoleEffect], lws: Objects, count: AcceleratorsOf, *, several: bool
) -> Iterator[str]:
    """Says which roles start beside those whose place they take, and the room for that."""
    by_service: dict[Service, list[RoleEffect]] = {}
    for effect in effects:
        if effect.kind == "LeaderWorkerSet" and effect.existed != effect.exists:
            by_service.setdefault((effect.namespace, effect.service), []).append(effect)
    for (namespace, service), changed in by_service.items():
        starting = [effect.role for effect in changed if effect.exists]
        ending = [effect.role for effect in changed if effect.existed]
        if not (starting and ending):
            continue
        devices = sum(
            size_of(manifest, count)[1]
            for key, manifest in lws.items()
            if (key.namespace, service_of(key, manifest)) == (namespace, service)
            and role_of(key, manifest) in starting
        )
        prefix = f"{service_name(namespace, service)}: " if several else ""
        yield (
            f"{prefix}role {', '.join(starting)} starts beside {', '.join(ending)}: room for "
            f"{devices} accelerators more until the update ends"
        )


def _totals(
    old_lws: Objects, new_lws: Objects, services: Collection[Service], count: AcceleratorsOf
) -> Iterator[ServiceTotals]:
    """What the LeaderWorkerSets of services run, before and after."""
    sums: dict[Service, list[int]] = {}
    for side, lws in enumerate((old_lws, new_lws)):
        for key, manifest in lws.items():
            service = (key.namespace, service_of(key, manifest))
            service_sums = sums.setdefault(service, [0, 0, 0, 0])
            pods, devices = size_of(manifest, count)
            service_sums[side] += pods
            service_sums[2 + side] += devices
    for namespace, name in services:
        if (namespace, name) in sums:
            yield ServiceTotals(name, namespace, *sums[namespace, name])


def size_of(manifest: Manifest, count: AcceleratorsOf) -> tuple[int, int]:
    """Counts the pods and accelerators of a LeaderWorkerSet."""
    template = at(manifest, "spec", "leaderWorkerTemplate")
    replicas, size = count_at(manifest, "spec", "replicas"), max(count_at(template, "size"), 1)
    worker = at(template, "workerTemplate")
    leader = at(template, "leaderTemplate") or worker
    devices = [count(part) if isinstance(part, Mapping) else 0 for part in (leader, worker)]
    return replicas * size, replicas * (devices[0] + (size - 1) * devices[1])
