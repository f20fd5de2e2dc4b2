"""Compares two lists of Kubernetes manifests: objects, fields, replicas, pods, accelerators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    BeforeAfter,
    Difference,
    FieldChange,
    ObjectChange,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    Identity,
    Objects,
    ParsedManifest,
    ServiceIdentity,
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
    find_role_effects,
    find_step,
    find_unfrozen_lws,
    index_steps,
)
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import (
    UpdateComparison,
    describe_mixed_revisions,
    extract_engines,
)

# Keys that identify list items; the second applies if the first is not unique. For example, one
# volume may be mounted at several paths.
_MERGE_KEYS = ("name", "mountPath")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Manifests = Sequence[ParsedManifest]
#: The services before and after the change.
Plans = tuple[Iterable[ServicePlan], Iterable[ServicePlan]]


class Comparison:
    """Two lists of manifests, old and new, and the objects that differ.

    Attributes:
        new_plans: The services after the change, as far as they are known.
        new_steps: The update steps of these services.
        lws: The old and the new LeaderWorkerSets.
        old_services: The old objects, by service.
        new_services: The new objects, by service.
        edits: The objects that differ.
        autoscaling_notes: Notes about roles whose replicas an autoscaler has set.
        unfrozen_lws: LeaderWorkerSets whose replicas restart only because the partition is lowered.
            With layout PerReplica they may be unchanged, as the partition is none of their fields.
        rejections: The changes that `pulumi up` rejects, as `find_rejections` returns them.
    """

    def __init__(self, old: Manifests, new: Manifests, plans: Plans) -> None:
        old_plans, new_plans = plans
        self.new_plans = list(new_plans)
        self.new_steps = index_steps(self.new_plans)
        before = index_by_identity(old)
        declared = index_by_identity(new)
        after, self.autoscaling_notes = _keep_replicas(before, declared, self.new_steps)
        self.lws = select_lws(before), select_lws(after)
        self.old_services = _group_by_service(before)
        self.new_services = _group_by_service(after)
        self.edits = list(_find_edits(before, after))
        steps = index_steps(old_plans), self.new_steps
        self.unfrozen_lws = find_unfrozen_lws(self.lws, steps, self.edits)
        self.rejections = find_rejections(self.new_plans, self.lws, self.edits)


def compare(old: Manifests, new: Manifests, *, plans: Plans = ((), ())) -> Difference:
    """Compare two lists of manifests, and find the effects on running pods.

    Args:
        old: Manifests before the change, from any source; they may be malformed.
        new: Manifests after the change.
        plans: Services before and after, as far as they are known. Without plans, `compare` finds
            neither the replicas that `rollout.partition` excludes nor the changes that `pulumi up`
            rejects.

    Returns:
        The difference; its `bool` is False if nothing differs.
    """
    comparison = Comparison(old, new, plans)
    edits, unfrozen_lws = comparison.edits, comparison.unfrozen_lws
    effects = tuple(find_role_effects(comparison.lws, edits, comparison.new_steps, unfrozen_lws))
    changed_services = list(dict.fromkeys(edit.service for edit in edits if edit.service.name))
    engines = tuple(find_engine_changes(edits))
    services = comparison.old_services, comparison.new_services
    notes = [
        *describe_changes(edits, effects, services, comparison.rejections, unfrozen_lws),
        *comparison.autoscaling_notes,
        *describe_engine_changes(engines, len(changed_services)),
        *_describe_new_defaults(comparison),
    ]
    for service in changed_services:
        prefix = f"{format_service(*service)}: " if len(changed_services) > 1 else ""
        notes += [prefix + note for note in find_mixed_revisions(comparison, service)]
    return Difference(
        objects=tuple(edit.change for edit in edits),
        effects=effects,
        notes=tuple(notes),
        engines=engines,
        totals=tuple(_sum_pods_and_accelerators(comparison.lws, changed_services)),
    )


def find_mixed_revisions(comparison: Comparison, service: ServiceIdentity) -> list[str]:
    """Return sentences about the effects on clients while pods of two revisions run."""
    before = comparison.old_services.get(service, [])
    after = comparison.new_services.get(service, [])
    plans = (plan for plan in comparison.new_plans if plan.service == service.name)
    plan = next((plan for plan in plans if plan.namespace == service.namespace), None)
    update = UpdateComparison(extract_engines(before), after, plan, objects_before=before)
    return describe_mixed_revisions(update)


def _describe_new_defaults(comparison: Comparison) -> Iterator[str]:
    """Yield notes about images that change because the library has a new default."""
    default_images = set[Any]()
    for plan in comparison.new_plans:
        default_roles = {engine.role for engine in plan.engines if engine.is_default}
        images = (item for item in plan.provenance.values if item.field == "image")
        default_images.update(image.value for image in images if image.role in default_roles)
        if plan.picker is not None and plan.picker.epp.args.image is None:
            default_images.add(plan.picker.epp.image)
    fields = (field for edit in comparison.edits for field in edit.change.fields)
    changed = (field for field in fields if field.path.endswith(".image") and field.old)
    for old, new in dict.fromkeys((str(field.old), str(field.new)) for field in changed):
        if new in default_images:
            yield f"{new} replaces {old} as the library default; set `edition` to keep the old one"


def _group_by_service(objects: Objects) -> dict[ServiceIdentity, list[ParsedManifest]]:
    services: dict[ServiceIdentity, list[ParsedManifest]] = {}
    for key, manifest in objects.items():
        services.setdefault(get_service(key, manifest), []).append(manifest)
    return services


def _keep_replicas(before: Objects, after: Objects, steps: Steps) -> tuple[Objects, list[str]]:
    """Return `after` with the old replicas of autoscaled roles, and a note for each such role."""
    updated = dict(after)
    notes: list[str] = []
    for key, new in select_lws(after).items():
        old, step = before.get(key), find_step(key, steps)
        if old is None or step is None or not step.is_autoscaled:
            continue
        old_count, new_count = (get_count(side, "spec", "replicas") for side in (old, new))
        is_recreated = step.rollout.strategy is RolloutStrategy.RECREATE
        # A recreated LeaderWorkerSet starts with the replicas of the manifest.
        if old_count == new_count or is_recreated or find_immutable_change(key, old, new):
            continue
        updated[key] = {**new, "spec": {**new["spec"], "replicas": old_count}}
        notes.append(
            f"role {get_role(key, new)} is autoscaled: `pulumi up` keeps its live replicas; "
            f"{old_count} -> {new_count} applies only to a new LeaderWorkerSet"
        )
    return updated, list(dict.fromkeys(notes))  # without duplicates


def _find_edits(before: Objects, after: Objects) -> Iterator[Edit]:
    for key, new in after.items():
        old = before.get(key)
        if old is None:
            yield Edit(key, old=None, new=new, change=_build_change(key, new, "added"))
            continue
        # If only one side sets the namespace, it is `default`, and the objects are the same.
        differences = _compare_values("", old, new)
        fields = [field for field in differences if field.path != "metadata.namespace"]
        if not fields:
            continue
        immutable_field = find_immutable_change(key, old, new)
        action: Action = "replaced" if immutable_field else "changed"
        visible = drop_explained_revision(fields, key.template_paths)
        change = _build_change(key, new, action, visible)
        restarts = immutable_field is not None or needs_restart(key, old, new)
        yield Edit(key, old, new, change, restarts, immutable_field)
    for key, old in before.items():
        if key not in after:
            yield Edit(key, old=old, new=None, change=_build_change(key, old, "removed"))


def _build_change(
    key: Identity, manifest: ParsedManifest, action: Action, fields: tuple[FieldChange, ...] = ()
) -> ObjectChange:
    version = get_text(manifest, "apiVersion")
    return ObjectChange(version, key.kind, key.namespace, key.name, action, fields)


def _compare_values(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    """Yield the fields that differ between two plain values.

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
        if before is None or after is None:
            continue
        yield from _compare_mappings(path, before, after, _append_index)
        old_order = [name for name in before if name in after]
        new_order = [name for name in after if name in before]
        if old_order != new_order:
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
            # Both lists have the same item before the first changed one: perhaps its flag.
            flag = str(old[start - 1]) if start and offset == 0 else ""
            suffix = f" ({flag})" if flag.startswith("--") else ""
            yield from (
                change._replace(suffix=suffix)
                for change in _compare_values(
                    item_path, old[start + offset], new[start_new + offset]
                )
            )
        for index in range(start + common, end):
            yield FieldChange(_append_index(path, index), "removed", old[index], None)
        for index in range(start_new + common, end_new):
            yield FieldChange(_append_index(path, index), "added", None, new[index])


def _index_by_name(items: list[Any], merge_key: str) -> dict[str, Any] | None:
    """Map the text at `merge_key` to each item; return None if a text is missing or repeated."""
    by_name: dict[str, Any] = {}
    for item in items:
        name = item.get(merge_key) if isinstance(item, dict) else None
        if not isinstance(name, str) or name in by_name:
            return None
        by_name[name] = item
    return by_name


def _append_key(path: str, key: str) -> str:
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _append_index(path: str, index: str | int) -> str:
    return f"{path}[{index}]"


def _sum_pods_and_accelerators(
    lws: tuple[Objects, Objects], services: Iterable[ServiceIdentity]
) -> Iterator[ServiceTotals]:
    (old_pods, old_accelerators), (new_pods, new_accelerators) = map(_sum_by_service, lws)
    for service in services:
        if service in old_pods or service in new_pods:
            pods = BeforeAfter(old_pods[service], new_pods[service])
            accelerators = BeforeAfter(old_accelerators[service], new_accelerators[service])
            yield ServiceTotals(service.name, service.namespace, pods, accelerators)


def _sum_by_service(lws: Objects) -> tuple[Counter[ServiceIdentity], Counter[ServiceIdentity]]:
    """Return the pods and the accelerators of each service."""
    pods, accelerators = Counter[ServiceIdentity](), Counter[ServiceIdentity]()
    for key, manifest in lws.items():
        service = get_service(key, manifest)
        lws_pods, lws_accelerators = count_pods_and_accelerators(manifest)
        pods[service] += lws_pods
        accelerators[service] += lws_accelerators
    return pods, accelerators
