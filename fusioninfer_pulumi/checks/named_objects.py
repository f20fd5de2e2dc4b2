"""Checks that the objects that a service names exist in its cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.checks.objects import user_field
from fusioninfer_pulumi.checks.server import Tried, tried_objects
from fusioninfer_pulumi.findings import Finding, Location, error, warning
from fusioninfer_pulumi.kube import outputs
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.prerequisites import CLUSTER_WIDE, REFERENCES, field_values
from fusioninfer_pulumi.plan.objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import NAMED_OBJECT_MISSING

#: Fields of a service that become names in generated objects.
_FIELDS: Mapping[str, Location] = {
    "Queue": ("schedulingStrategy", "queue"),
    "LocalQueue": ("schedulingStrategy", "queue"),
    "PriorityClass": ("schedulingStrategy", "priorityClassName"),
    "StorageClass": ("model", "cache"),
}


@dataclass(frozen=True)
class Reference:
    """An object that a service names; its namespace is None for a kind without namespaces."""

    api: str
    kind: str
    namespace: str | None
    name: str


def named_object_findings(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    namespace: str,
    registered: Iterable[Mapping[str, Any]] = (),
) -> list[tuple[Finding, ...]]:
    """Returns a finding for each object that a plan names and the cluster does not have.

    Objects of the plans themselves exist after the update, and so do those of namespaces that the
    update creates.

    Args:
        api: The cluster. What the credentials may not read is in its `unread`.
        plans: Plans without errors.
        namespace: Namespace of services whose own is not known before the update.
        registered: Further objects that the same program creates.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    created = {
        (item["kind"], item["metadata"].get("name"))
        for item in (*registered, *(item for plan in plans for item in render(plan)))
    }
    existing: dict[Reference, bool] = {}
    findings: list[tuple[Finding, ...]] = []
    for plan in plans:
        missing: dict[Reference, Finding] = {}
        for reference, at, exact in references(plan, namespace):
            if (reference.kind, reference.name) in created or (reference in missing and not exact):
                continue
            if reference not in existing:
                existing[reference] = _exists(api, reference)
            if not existing[reference]:
                missing[reference] = _finding(reference, at)
        findings.append(tuple(missing.values()))
    return findings


def references(plan: ServicePlan, namespace: str) -> Iterator[tuple[Reference, Location, bool]]:
    """Yields the objects that a plan names: each with its field, and whether users wrote that."""
    for tried in tried_objects(plan):
        own = tried.manifest["metadata"].get("namespace")
        own = namespace if outputs.is_output(own) else own
        for (api, kind), fields in REFERENCES.items():
            for at, name, parent in (
                value for field in fields for value in field_values(field, tried.manifest)
            ):
                if isinstance(name, str) and name and parent.get("optional") is not True:
                    where = None if kind in CLUSTER_WIDE else parent.get("namespace") or own
                    yield Reference(api, kind, where, name), *_user_field(plan, tried, at, kind)


def _user_field(plan: ServicePlan, tried: Tried, at: Location, kind: str) -> tuple[Location, bool]:
    location, exact = user_field(tried.in_rendered(at), tried.rendered, plan)
    return (location, True) if exact else (_FIELDS.get(kind, location), False)


def _exists(api: KubernetesApi, reference: Reference) -> bool:
    """Whether an object exists, or may exist."""
    place = reference.namespace
    if place is not None and api.has("v1", "Namespace", None, place) is False:
        return True
    return api.has(reference.api, reference.kind, place, reference.name) is not False


def _finding(reference: Reference, at: Location) -> Finding:
    # The driver of devices is installed apart from services; programs create the other kinds.
    make_finding = error if reference.kind == "DeviceClass" else warning
    where = "the cluster" if reference.namespace is None else f"namespace {reference.namespace}"
    message = f"{where} has no {reference.kind} {reference.name}: create it, or correct the name"
    return make_finding(NAMED_OBJECT_MISSING, at, message)
