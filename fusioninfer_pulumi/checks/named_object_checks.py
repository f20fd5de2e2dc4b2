"""Checks that the objects to which services refer exist in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from fusioninfer_pulumi.checks.live_cluster import ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.object_checks import find_user_field, render_distinct
from fusioninfer_pulumi.findings import Finding, Location, error, warning
from fusioninfer_pulumi.kube.supported_products import CLUSTER_SCOPED, REFERENCES, walk
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import NAMED_OBJECT_MISSING

#: The user's fields from which names of referenced objects are generated, keyed by kind.
_FIELDS_BY_KIND: Mapping[str, Location] = {
    "Queue": ("schedulingStrategy", "queue"),
    "LocalQueue": ("schedulingStrategy", "queue"),
    "PriorityClass": ("schedulingStrategy", "priorityClassName"),
    "StorageClass": ("model", "cache"),
}
#: API, kind, namespace (None for cluster-scoped kinds) and name of an object.
Reference = tuple[str, str, str | None, str]


def check_named_objects(cluster: LiveCluster) -> ClusterFindings:
    """Yield a finding for each object that a service refers to and the cluster does not have.

    Objects that the update creates are not reported, nor are objects in missing namespaces.
    """
    rendered = [item for plan in cluster.plans for item in render(plan)]
    created_names = {
        (item["kind"], item["metadata"].get("name"))
        for item in (*cluster.registered_objects, *rendered)
    }

    @cache
    def is_missing(reference: Reference) -> bool:
        _, _, namespace, _ = reference
        # The update may create a missing namespace and its objects.
        if namespace is not None and cluster.api.has("v1", "Namespace", None, namespace) is False:
            return False
        return cluster.api.has(*reference) is False

    for plan in cluster.plans:
        findings: dict[Reference, Finding] = {}
        for reference, location, is_exact in find_references(plan):
            _, kind, namespace, name = reference
            # A finding at an exact field replaces an earlier one at the closest field.
            if (kind, name) in created_names or (reference in findings and not is_exact):
                continue
            if is_missing(reference):
                # DeviceClasses are installed with a device driver, never by a service's program.
                make_finding = error if kind == "DeviceClass" else warning
                scope = "the cluster" if namespace is None else f"namespace {namespace}"
                message = f"{scope} has no {kind} {name}: create it, or correct the name"
                findings[reference] = make_finding(NAMED_OBJECT_MISSING, location, message)
        for finding in findings.values():
            yield plan, finding


def find_references(plan: ServicePlan) -> Iterator[tuple[Reference, Location, bool]]:
    """Yield each reference to an object, the user's field, and whether the field is exact."""
    for manifest in render_distinct(plan):
        for location, name, parent in walk(manifest):
            keys = [key for key in location if isinstance(key, str)]
            api_and_kind = REFERENCES.get(keys[-1]) or REFERENCES.get(".".join(keys[-2:]))
            if api_and_kind is None or not isinstance(name, str) or not name:
                continue
            if parent.get("optional") is True:
                continue
            api, kind = api_and_kind
            namespace = parent.get("namespace") or manifest["metadata"].get("namespace")
            object_namespace = None if kind in CLUSTER_SCOPED else namespace
            user_field, is_exact = find_user_field(location, manifest, plan)
            user_field = user_field if is_exact else _FIELDS_BY_KIND.get(kind, user_field)
            yield (api, kind, object_namespace, name), user_field, is_exact
