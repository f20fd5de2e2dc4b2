"""Compares two lists of Kubernetes manifests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from fusioninfer_pulumi.cli.diff.edits import Edit, Service
from fusioninfer_pulumi.cli.diff.effects import role_effects, sets_only
from fusioninfer_pulumi.cli.diff.fields import field_changes
from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest, by_identity
from fusioninfer_pulumi.cli.diff.notes import notes
from fusioninfer_pulumi.cli.diff.order import turns
from fusioninfer_pulumi.cli.diff.plain import same, text_at
from fusioninfer_pulumi.cli.diff.reasons import without_revision
from fusioninfer_pulumi.cli.diff.records import (
    Action,
    Difference,
    FieldChange,
    ObjectChange,
    ServiceTotals,
)
from fusioninfer_pulumi.cli.diff.refusals import refusals
from fusioninfer_pulumi.cli.diff.released import released, released_notes
from fusioninfer_pulumi.cli.diff.sizes import AcceleratorsOf, accelerators_of, total
from fusioninfer_pulumi.cli.diff.workloads import (
    refused_field,
    restarts,
    service_of,
    template_paths,
)
from fusioninfer_pulumi.service_plan import ServicePlan

Objects = Mapping[Identity, Manifest]


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
        plans: Services before and after, as far as they are known: they tell the order of restarts
            and what a partition holds back.

    Returns:
        The difference, false where there is none.
    """
    olds, news = by_identity(old), by_identity(new)
    edits = list(_edits(olds, news))
    old_sets, new_sets = sets_only(olds), sets_only(news)
    (_, new_plans) = plans = (list(plans[0]), list(plans[1]))
    old_turns, new_turns = map(turns, plans)
    freed = list(released((old_sets, new_sets), (old_turns, new_turns), edits))
    if not edits and not freed:
        return Difference()
    affected = list(dict.fromkeys(service for edit in edits for service in edit.services))
    effects = tuple(role_effects(old_sets, new_sets, edits, affected, new_turns))
    refused = refusals(new_plans, old_sets, edits)
    before, after = _services(olds), _services(news)
    told = notes(edits, effects, before - after, after - before, new_turns, refused)
    return Difference(
        objects=tuple(edit.change for edit in edits),
        effects=effects,
        notes=(*told, *released_notes(freed)),
        totals=tuple(_totals(old_sets, new_sets, affected, accelerators_of)),
    )


def _edits(olds: Objects, news: Objects) -> Iterator[Edit]:
    for key, new in news.items():
        old = olds.get(key)
        if old is None:
            yield Edit(key, None, new, _change(key, new, "added"))
        elif not same(old, new):
            # A namespace that is written out is the one that was meant: identities are equal.
            found = field_changes(old, new)
            fields = tuple(each for each in found if each.path != "metadata.namespace")
            if fields:
                yield _edit(key, old, new, fields)
    for key, old in olds.items():
        if key not in news:
            yield Edit(key, old, None, _change(key, old, "removed"))


def _edit(key: Identity, old: Manifest, new: Manifest, fields: tuple[FieldChange, ...]) -> Edit:
    refused = refused_field(key, old, new)
    fields = without_revision(fields, template_paths(key))
    change = _change(key, new, "replaced" if refused else "changed", fields)
    return Edit(key, old, new, change, bool(refused) or restarts(key, old, new), refused)


def _change(
    key: Identity, manifest: Manifest, action: Action, fields: tuple[FieldChange, ...] = ()
) -> ObjectChange:
    return ObjectChange(
        text_at(manifest, "apiVersion"), key.kind, key.namespace, key.name, action, fields
    )


def _services(objects: Objects) -> set[Service]:
    """Services that have an object of whatever kind."""
    return {(key.namespace, service_of(key, manifest)) for key, manifest in objects.items()}


def _totals(
    old_sets: Objects, new_sets: Objects, services: Collection[Service], count: AcceleratorsOf
) -> Iterator[ServiceTotals]:
    olds, news = _by_service(old_sets), _by_service(new_sets)
    for namespace, name in services:
        service = (namespace, name)
        if service in olds or service in news:
            before, after = (total(sets.get(service, ()), count) for sets in (olds, news))
            yield ServiceTotals(
                service=name,
                namespace=namespace,
                pods_before=before.pods,
                pods_after=after.pods,
                accelerators_before=before.accelerators,
                accelerators_after=after.accelerators,
            )


def _by_service(sets: Objects) -> dict[Service, list[Manifest]]:
    found: dict[Service, list[Manifest]] = {}
    for key, manifest in sets.items():
        found.setdefault((key.namespace, service_of(key, manifest)), []).append(manifest)
    return found
