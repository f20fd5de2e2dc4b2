"""Validates the generated objects of a service against Kubernetes' schemas.

`api` has validated the user's fields. Whole objects are validated as well, because what the library
adds to a pod may conflict with the user's template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, format_path
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import Manifest
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.schemas.schema_check import object_findings
from fusioninfer_pulumi.topology.leader_worker_set import KIND as LEADER_WORKER_SET

_LEADER = ("spec", "leaderWorkerTemplate", "leaderTemplate")
_WORKER = ("spec", "leaderWorkerTemplate", "workerTemplate")


def render_distinct(plan: ServicePlan) -> tuple[Manifest, ...]:
    """Return a plan's objects, with one LeaderWorkerSet per role and one PodGroup.

    The other LeaderWorkerSets and PodGroups differ from these only in names.
    """
    roles = tuple(replace(role, lws=role.lws[:1]) for role in plan.roles)
    return render(replace(plan, roles=roles, gangs=plan.gangs[:1]))


def check_objects(plan: ServicePlan) -> Iterator[Finding]:
    """Yield errors that the API server would report for the objects of a plan without errors.

    A finding's location is the user's field, or the closest field that contains or generates it.
    """
    findings = (
        _locate(finding, manifest, plan)
        for manifest in render_distinct(plan)
        for finding in object_findings(manifest)
    )
    # Leaders and workers may share a user's template, so a finding may occur twice.
    yield from dict.fromkeys(findings)


def _locate(finding: Finding, manifest: Mapping[str, Any], plan: ServicePlan) -> Finding:
    location, is_exact = find_user_field(finding.location, manifest, plan)
    if is_exact:
        return finding.with_location(*location)
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    message = f"{name}: {format_path(finding.location)}: {finding.message}"
    return replace(finding, location=location, message=message)


def find_user_field(
    location: Location, manifest: Mapping[str, Any], plan: ServicePlan
) -> tuple[Location, bool]:
    """Return the user's field for a location in a generated object, and whether it is exact.

    If it is not exact, the user did not set the location itself, and the field is the closest one
    that contains or generates it.
    """
    if location[:2] in (("metadata", "labels"), ("metadata", "annotations")):
        user_metadata = getattr(plan.meta, str(location[1]))
        is_set = len(location) > 2 and location[2] in user_metadata
        return (location[:3], True) if is_set else (location[:2], False)
    if manifest["kind"] == LEADER_WORKER_SET:
        name = manifest["metadata"]["labels"][labels.ROLE_NAME]
        role = next(role for role in plan.roles if role.name == name)
        if location[:3] not in (_LEADER, _WORKER):
            return ("roles", role.position), False
        pod = role.pods.leader if location[:3] == _LEADER else role.pods.all[-1]
        return plan.provenance.locate((*pod.path, *location[3:]))
    if plan.routing is not None:
        prefix, router = plan.routing.location, plan.routing.router
        if manifest["kind"] == "HTTPRoute" and router.httproute is not None:
            return plan.provenance.find_field((*prefix, "httproute", *location[1:]))
        if manifest["kind"] == "Deployment" and router.endpoint_picker is not None:
            # The user's template is merged into the generated one, so indexes differ.
            return (*prefix, "endpointPicker", "template"), False
        if manifest["metadata"]["labels"].get(labels.ROLE_NAME) == router.name:
            return prefix, False
    return (), False
