"""Compares two lists of Kubernetes manifests: objects, their fields, replicas, pods and GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.cli.diff._formatting import service_name
from fusioninfer_pulumi.cli.diff._records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    Pair,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff._sentences import (
    describe_changes,
    describe_engine_changes,
    find_engine_changes,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    Manifest,
    Objects,
    Service,
    count_pods_and_accelerators,
    find_immutable_change,
    get_count,
    get_text,
    index_by_identity,
    is_equal,
    lws_of,
    restarts,
    role_of,
    service_of,
    to_canonical,
)
from fusioninfer_pulumi.cli.diff.restarts import (
    Edit,
    Steps,
    drop_explained_revision,
    find_rejections,
    find_released,
    find_role_effects,
    planned_steps,
    step_of,
)
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import (
    Update,
    describe_mixed_revisions,
    read_engines,
)

# Kubernetes merges lists by these keys; volume mounts may repeat a name, but not a path.
_NAMES = ("name", "mountPath")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Manifests = Sequence[Manifest]
Plans = tuple[Iterable[ServicePlan], Iterable[ServicePlan]]


class Change:
    """The change from one list of manifests to another.

    Attributes:
        plans: The services after, as far as they are known.
        objects: The objects of both sides.
        lws: The LeaderWorkerSets of both sides.
        services: The objects of both sides, by service.
        edits: The objects that differ.
        kept: A note for each role whose replicas an autoscaler has set.
        freed: LeaderWorkerSets that a lower partition lets restart.
    """

    def __init__(self, old: Manifests, new: Manifests, plans: Plans) -> None:
        self.plans = list(plans[1])
        self.steps = planned_steps(plans[0]), planned_steps(self.plans)
        olds = index_by_identity(old)
        news, self.kept = _with_live_replicas(olds, index_by_identity(new), self.steps[1])
        self.objects = olds, news
        self.lws = lws_of(olds), lws_of(news)
        self.services = _by_service(olds), _by_service(news)
        self.edits = list(_edits(olds, news))
        self.freed = find_released(self.lws, self.steps, self.edits)

    def find_rejections(self) -> dict[Service, list[Finding]]:
        """The changes that `pulumi up` rejects, by service."""
        return find_rejections(self.plans, self.lws, self.edits)


def compare(old: Manifests, new: Manifests, *, plans: Plans = ((), ())) -> Difference:
    """Compares two lists of manifests, and finds the effects on running pods.

    Args:
        old: Manifests before, from any source; they may be ill-formed.
        new: Manifests after.
        plans: Services before and after, as far as they are known: they determine the order of
            restarts and the partition.

    Returns:
        The difference, false where there is none.
    """
    change = Change(old, new, plans)
    edits = change.edits
    if not edits and not change.freed:
        return Difference(notes=tuple(change.kept))
    effects = tuple(find_role_effects(change.lws, edits, change.steps[1]))
    services = tuple({service_of(*item) for item in side.items()} for side in change.objects)
    affected = dict.fromkeys(edit.service for edit in edits if edit.service[1])
    engines = tuple(find_engine_changes(edits))
    return Difference(
        objects=tuple(edit.change for edit in edits),
        effects=effects,
        notes=(
            *describe_changes(edits, effects, services, change.find_rejections(), change.freed),
            *change.kept,
            *describe_engine_changes(engines, len(affected)),
            *_describe_new_defaults(change),
            *(
                f"{service_name(*service)}: {note}" if len(affected) > 1 else note
                for service in affected
                for note in find_mixed_revisions(change, service)
            ),
        ),
        engines=engines,
        totals=tuple(_totals(change.lws, affected)),
    )


def find_mixed_revisions(change: Change, service: Service) -> list[str]:
    """Describe what clients see while pods of two revisions run."""
    before, after = (side.get(service, []) for side in change.services)
    plans = (plan for plan in change.plans if plan.service == service[1])
    plan = next((plan for plan in plans if plan.namespace == service[0]), None)
    return describe_mixed_revisions(Update(read_engines(before), after, plan, before))


def _describe_new_defaults(change: Change) -> Iterator[str]:
    """Yield images that change because they are the library's defaults."""
    defaults = set[Any]()
    for plan in change.plans:
        roles = {engine.role for engine in plan.engines if engine.default}
        values = (value for value in plan.presets if value.field == "image")
        defaults.update(value.value for value in values if value.role in roles)
        if plan.picker is not None and plan.picker.epp.args.image is None:
            defaults.add(plan.picker.epp.image)
    fields = (field for edit in change.edits for field in edit.change.fields)
    images = (field for field in fields if field.path.endswith(".image") and field.old)
    for old, new in dict.fromkeys((str(field.old), str(field.new)) for field in images):
        if new in defaults:
            yield f"{old} -> {new} is the library's default; set `edition` to keep older ones"


def _by_service(objects: Objects) -> dict[Service, list[Manifest]]:
    services: dict[Service, list[Manifest]] = {}
    for key, manifest in objects.items():
        services.setdefault(service_of(key, manifest), []).append(manifest)
    return services


def _with_live_replicas(olds: Objects, news: Objects, steps: Steps) -> tuple[Objects, list[str]]:
    """The new objects with the replicas that autoscalers have set, and a note for each role."""
    updated, kept = dict(news), dict[str, None]()
    for key, new in news.items():
        old, step = olds.get(key), step_of(key, steps)
        if old is None or step is None or not (key.is_lws and step.scaled_externally):
            continue
        before, after = (get_count(manifest, "spec", "replicas") for manifest in (old, new))
        recreated = step.rollout.strategy is RolloutStrategy.RECREATE
        if before == after or recreated or find_immutable_change(key, old, new):
            continue  # nothing to keep, or created again with the replicas of the manifest
        updated[key] = {**new, "spec": {**new["spec"], "replicas": before}}
        kept[
            f"role {role_of(key, new)} is autoscaled: `pulumi up` keeps its live replicas; "
            f"{before} -> {after} applies only to a new LeaderWorkerSet"
        ] = None
    return updated, list(kept)


def _edits(olds: Objects, news: Objects) -> Iterator[Edit]:
    """Yields the objects that differ."""
    for key, new in news.items():
        old = olds.get(key)
        if old is None:
            yield Edit(key, None, new, _change(key, new, "added"))
        elif not is_equal(old, new):
            # The namespace may be set in one of them only.
            changes = _changes("", old, new)
            fields = [field for field in changes if field.path != "metadata.namespace"]
            if fields:
                immutable_field = find_immutable_change(key, old, new)
                shown = drop_explained_revision(fields, key.template_paths)
                change = _change(key, new, "replaced" if immutable_field else "changed", shown)
                restarting = bool(immutable_field) or restarts(key, old, new)
                yield Edit(key, old, new, change, restarting, immutable_field)
    for key, old in olds.items():
        if key not in news:
            yield Edit(key, old, None, _change(key, old, "removed"))


def _change(
    key: Identity, manifest: Manifest, action: Action, fields: tuple[FieldChange, ...] = ()
) -> ObjectChange:
    version = get_text(manifest, "apiVersion")
    return ObjectChange(version, key.kind, key.namespace, key.name, action, fields)


def _changes(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    """Yields the fields that differ between two plain values, in the order of the objects.

    Lists whose items are all named are compared by name: an environment variable inserted at the
    top is one added variable, not a change of all that follow. Items of other lists are aligned by
    value.
    """
    if is_equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_mappings(path, old, new, _key)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(path, old, new)
    else:
        yield FieldChange(path, "changed", old, new)


def _of_mappings(
    path: str, old: dict[str, Any], new: dict[str, Any], step: Callable[[str, str], str]
) -> Iterator[FieldChange]:
    for key, value in old.items():
        if key in new:
            yield from _changes(step(path, key), value, new[key])
        else:
            yield FieldChange(step(path, key), "removed", value, None)
    for key, value in new.items():
        if key not in old:
            yield FieldChange(step(path, key), "added", None, value)


def _of_lists(path: str, old: list[Any], new: list[Any]) -> Iterator[FieldChange]:
    for key in _NAMES:
        olds, news = _by_name(old, key), _by_name(new, key)
        if olds is not None and news is not None:
            yield from _of_mappings(path, olds, news, _item)
            if [name for name in olds if name in news] != [name for name in news if name in olds]:
                yield FieldChange(f"{path}[*].{key}", "changed", list(olds), list(news))
            return
    # Imported here: most comparisons need no alignment.
    from difflib import SequenceMatcher

    olds_, news_ = [to_canonical(item) for item in old], [to_canonical(item) for item in new]
    matcher = SequenceMatcher(None, olds_, news_, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            continue
        both = min(end - start, end_new - start_new)
        for place in range(both):
            item = _item(path, start + place)
            yield from _changes(item, old[start + place], new[start_new + place])
        for place in range(start + both, end):
            yield FieldChange(_item(path, place), "removed", old[place], None)
        for place in range(start_new + both, end_new):
            yield FieldChange(_item(path, place), "added", None, new[place])


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


def _totals(
    lws: tuple[Objects, Objects], services: Mapping[Service, None]
) -> Iterator[ServiceTotals]:
    """Pods and accelerators of the LeaderWorkerSets of services, before and after."""
    sums: dict[Service, list[list[int]]] = {}
    for side, objects in enumerate(lws):
        for key, manifest in objects.items():
            service_sums = sums.setdefault(service_of(key, manifest), [[0, 0], [0, 0]])
            for which, number in enumerate(count_pods_and_accelerators(manifest)):
                service_sums[which][side] += number
    for namespace, name in services:
        if (namespace, name) in sums:
            pods, devices = sums[namespace, name]
            yield ServiceTotals(name, namespace, Pair(*pods), Pair(*devices))
