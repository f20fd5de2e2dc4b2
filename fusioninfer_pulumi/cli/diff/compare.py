"""Compares two lists of Kubernetes manifests: objects, fields, replicas, pods and GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.cli.diff._formatting import format_service
from fusioninfer_pulumi.cli.diff._notes import (
    describe_changes,
    describe_engine_changes,
    find_engine_changes,
)
from fusioninfer_pulumi.cli.diff._records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    Pair,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    Manifest,
    Objects,
    Service,
    count_pods_and_accelerators,
    find_immutable_change,
    get_count,
    get_role,
    get_service,
    get_text,
    index_by_identity,
    is_equal,
    needs_restart,
    select_lws,
    to_canonical,
)
from fusioninfer_pulumi.cli.diff.restarts import (
    Edit,
    Steps,
    drop_explained_revision,
    find_rejections,
    find_released_lws,
    find_role_effects,
    find_step,
    index_steps,
)
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import (
    UpdateComparison,
    describe_mixed_revisions,
    read_engines,
)

# Kubernetes merges lists by these keys; names of volume mounts may repeat, their paths may not.
_MERGE_KEYS = ("name", "mountPath")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Manifests = Sequence[Manifest]
Plans = tuple[Iterable[ServicePlan], Iterable[ServicePlan]]


class Comparison:
    """Two lists of manifests, old and new, and the objects that differ.

    Attributes:
        plans: The services after the change, as far as they are known.
        lws: The old and the new LeaderWorkerSets.
        steps: The update steps of the old and the new LeaderWorkerSets.
        services: The old and the new objects, by service.
        edits: The objects that differ.
        autoscaling_notes: Notes about roles whose replicas an autoscaler has set.
        released: LeaderWorkerSets whose replicas restart only because the partition is lowered.
    """

    def __init__(self, old: Manifests, new: Manifests, plans: Plans) -> None:
        self.plans = list(plans[1])
        self.steps = index_steps(plans[0]), index_steps(self.plans)
        before = index_by_identity(old)
        after, self.autoscaling_notes = _keep_live_replicas(
            before, index_by_identity(new), self.steps[1]
        )
        self.lws = select_lws(before), select_lws(after)
        self.services = _group_by_service(before), _group_by_service(after)
        self.edits = list(_find_edits(before, after))
        self.released = find_released_lws(self.lws, self.steps, self.edits)


def compare(old: Manifests, new: Manifests, *, plans: Plans = ((), ())) -> Difference:
    """Compare two lists of manifests, and find the effects on running pods.

    Args:
        old: Manifests before the change, from any source; they may be malformed.
        new: Manifests after the change.
        plans: Services before and after, as far as they are known. Without them, replicas that
            `rollout.partition` excludes and changes that `pulumi up` rejects are not detected.

    Returns:
        The difference, false if there is none.
    """
    comparison = Comparison(old, new, plans)
    edits = comparison.edits
    if not edits and not comparison.released:
        return Difference(notes=tuple(comparison.autoscaling_notes))
    effects = tuple(
        find_role_effects(comparison.lws, edits, comparison.steps[1], comparison.released)
    )
    affected = dict.fromkeys(edit.service for edit in edits if edit.service[1])
    engines = tuple(find_engine_changes(edits))
    rejections = find_rejections(comparison.plans, comparison.lws, edits)
    return Difference(
        objects=tuple(edit.change for edit in edits),
        effects=effects,
        notes=(
            *describe_changes(edits, effects, comparison.services, rejections, comparison.released),
            *comparison.autoscaling_notes,
            *describe_engine_changes(engines, len(affected)),
            *_describe_new_defaults(comparison),
            *(
                f"{format_service(*service)}: {note}" if len(affected) > 1 else note
                for service in affected
                for note in find_mixed_revisions(comparison, service)
            ),
        ),
        engines=engines,
        totals=tuple(_sum_pods_and_accelerators(comparison.lws, affected)),
    )


def find_mixed_revisions(comparison: Comparison, service: Service) -> list[str]:
    """Describe the effects on clients while pods of two revisions run."""
    before, after = (side.get(service, []) for side in comparison.services)
    plans = (plan for plan in comparison.plans if plan.service == service[1])
    plan = next((plan for plan in plans if plan.namespace == service[0]), None)
    return describe_mixed_revisions(UpdateComparison(read_engines(before), after, plan, before))


def _describe_new_defaults(comparison: Comparison) -> Iterator[str]:
    """Yield notes about images that change because the library has a new default."""
    default_images = set[Any]()
    for plan in comparison.plans:
        roles = {engine.role for engine in plan.engines if engine.is_default}
        images = (item for item in plan.provenance.values if item.field == "image")
        default_images.update(image.value for image in images if image.role in roles)
        if plan.picker is not None and plan.picker.epp.args.image is None:
            default_images.add(plan.picker.epp.image)
    fields = (field for edit in comparison.edits for field in edit.change.fields)
    changed = (field for field in fields if field.path.endswith(".image") and field.old)
    for old, new in dict.fromkeys((str(field.old), str(field.new)) for field in changed):
        if new in default_images:
            yield f"{new} replaces {old} as the library default; set `edition` to keep the old one"


def _group_by_service(objects: Objects) -> dict[Service, list[Manifest]]:
    services: dict[Service, list[Manifest]] = {}
    for key, manifest in objects.items():
        services.setdefault(get_service(key, manifest), []).append(manifest)
    return services


def _keep_live_replicas(before: Objects, after: Objects, steps: Steps) -> tuple[Objects, list[str]]:
    """Return `after` with the live replicas of autoscaled roles, and a note for each such role."""
    updated, notes = dict(after), dict[str, None]()
    for key, new in after.items():
        old, step = before.get(key), find_step(key, steps)
        if old is None or step is None or not (key.is_lws and step.is_autoscaled):
            continue
        live, declared = (get_count(manifest, "spec", "replicas") for manifest in (old, new))
        recreated = step.rollout.strategy is RolloutStrategy.RECREATE
        if live == declared or recreated or find_immutable_change(key, old, new):
            continue  # a recreated LeaderWorkerSet starts with the replicas of the manifest
        updated[key] = {**new, "spec": {**new["spec"], "replicas": live}}
        notes[
            f"role {get_role(key, new)} is autoscaled: `pulumi up` keeps its live replicas; "
            f"{live} -> {declared} applies only to a new LeaderWorkerSet"
        ] = None
    return updated, list(notes)


def _find_edits(before: Objects, after: Objects) -> Iterator[Edit]:
    for key, new in after.items():
        old = before.get(key)
        if old is None:
            yield Edit(key, None, new, _build_change(key, new, "added"))
        elif not is_equal(old, new):
            # The namespace may be set on one side only.
            differences = _compare_values("", old, new)
            fields = [field for field in differences if field.path != "metadata.namespace"]
            if fields:
                immutable_field = find_immutable_change(key, old, new)
                action: Action = "replaced" if immutable_field else "changed"
                visible = drop_explained_revision(fields, key.template_paths)
                change = _build_change(key, new, action, visible)
                restarts = bool(immutable_field) or needs_restart(key, old, new)
                yield Edit(key, old, new, change, restarts, immutable_field)
    for key, old in before.items():
        if key not in after:
            yield Edit(key, old, None, _build_change(key, old, "removed"))


def _build_change(
    key: Identity, manifest: Manifest, action: Action, fields: tuple[FieldChange, ...] = ()
) -> ObjectChange:
    version = get_text(manifest, "apiVersion")
    return ObjectChange(version, key.kind, key.namespace, key.name, action, fields)


def _compare_values(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    """Yield the fields that differ between two plain values, in the order of the objects.

    Lists whose items all have names are compared by name, so that an environment variable inserted
    at the top is one added variable, not a change of all variables. Other lists are aligned by
    value.
    """
    if is_equal(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_mappings(path, old, new, _append_key)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(path, old, new)
    else:
        yield FieldChange(path, "changed", old, new)


def _compare_mappings(
    path: str, old: dict[str, Any], new: dict[str, Any], append: Callable[[str, str], str]
) -> Iterator[FieldChange]:
    for key, value in old.items():
        if key in new:
            yield from _compare_values(append(path, key), value, new[key])
        else:
            yield FieldChange(append(path, key), "removed", value, None)
    for key, value in new.items():
        if key not in old:
            yield FieldChange(append(path, key), "added", None, value)


def _compare_lists(path: str, old: list[Any], new: list[Any]) -> Iterator[FieldChange]:
    for key in _MERGE_KEYS:
        before, after = _index_by_name(old, key), _index_by_name(new, key)
        if before is not None and after is not None:
            yield from _compare_mappings(path, before, after, _append_index)
            # Whether the items in both lists have another order.
            if [n for n in before if n in after] != [n for n in after if n in before]:
                yield FieldChange(f"{path}[*].{key}", "changed", list(before), list(after))
            return
    # Imported here, because most comparisons need no alignment.
    from difflib import SequenceMatcher

    before_texts, after_texts = ([to_canonical(item) for item in items] for items in (old, new))
    matcher = SequenceMatcher(None, before_texts, after_texts, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            continue
        common = min(end - start, end_new - start_new)
        for offset in range(common):
            item_path = _append_index(path, start + offset)
            yield from _compare_values(item_path, old[start + offset], new[start_new + offset])
        for index in range(start + common, end):
            yield FieldChange(_append_index(path, index), "removed", old[index], None)
        for index in range(start_new + common, end_new):
            yield FieldChange(_append_index(path, index), "added", None, new[index])


def _index_by_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """Index items by name, None unless all names are set and unique."""
    by_name = {
        item[key]: item for item in items if isinstance(item, dict) and type(item.get(key)) is str
    }
    return by_name if len(by_name) == len(items) else None


def _append_key(path: str, key: str) -> str:
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _append_index(path: str, index: str | int) -> str:
    return f"{path}[{index}]"


def _sum_pods_and_accelerators(
    lws: tuple[Objects, Objects], services: Mapping[Service, None]
) -> Iterator[ServiceTotals]:
    sums: dict[Service, list[list[int]]] = {}  # pods and accelerators, each old and new
    for side, objects in enumerate(lws):
        for key, manifest in objects.items():
            service_sums = sums.setdefault(get_service(key, manifest), [[0, 0], [0, 0]])
            for index, number in enumerate(count_pods_and_accelerators(manifest)):
                service_sums[index][side] += number
    for namespace, name in services:
        if (namespace, name) in sums:
            pods, devices = sums[namespace, name]
            yield ServiceTotals(name, namespace, Pair(*pods), Pair(*devices))
