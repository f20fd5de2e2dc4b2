"""Validates the generated objects of a service against Kubernetes' schemas.

`api` has validated the user's fields. Whole objects are validated as well, because what the library
adds to a pod may conflict with the user's template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, format_path
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import Manifest
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.schemas.schema_check import object_findings
from fusioninfer_pulumi.topology.leader_worker_set import KIND

_LEADER = ("spec", "leaderWorkerTemplate", "leaderTemplate")
_WORKER = ("spec", "leaderWorkerTemplate", "workerTemplate")


def render_distinct(plan: ServicePlan) -> tuple[Manifest, ...]:
    """Return a plan's objects, but of those that differ only in names just the first.

    Replicas of a role share a template, and gangs of serving groups differ only in names.
    """
    roles = tuple(replace(role, lws=role.lws[:1]) for role in plan.roles)
    return render(replace(plan, roles=roles, gangs=plan.gangs[:1]))


def check_objects(plan: ServicePlan) -> Iterator[Finding]:
    """Yield errors that the API server would report for the objects of an error-free plan.

    Findings are located at the user's field, or the closest one that contains it.
    """
    findings = (
        _locate(finding, manifest, plan)
        for manifest in render_distinct(plan)
        for finding in object_findings(manifest)
    )
    # Leaders and workers may share a template.
    yield from dict.fromkeys(findings)


def _locate(finding: Finding, manifest: Mapping[str, Any], plan: ServicePlan) -> Finding:
    at, is_exact = find_user_field(finding.location, manifest, plan)
    if is_exact:
        return finding.at(*at)
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    message = f"{name}: {format_path(finding.location)}: {finding.message}"
    return replace(finding, location=at, message=message)


def find_user_field(
    location: Location, manifest: Mapping[str, Any], plan: ServicePlan
) -> tuple[Location, bool]:
    """Return the user's field for a location in a generated object, and whether it is exact.

    If it is not exact, it is the closest field that contains the value.
    """
    field, below, user_value = _find_origin(location, manifest, plan)
    location_in_user_value = cut_to_user_value(below, user_value)
    return (*field, *location_in_user_value), len(location_in_user_value) == len(
        below
    ) and user_value is not None


def _find_origin(
    at: Location, manifest: Mapping[str, Any], plan: ServicePlan
) -> tuple[Location, Location, Any]:
    """Return the user's field for a location in an object, the rest of it, and the user's value."""
    if at[:2] == ("metadata", "labels"):
        return ("metadata", "labels"), at[2:], plan.meta.labels
    if at[:2] == ("metadata", "annotations"):
        return ("metadata", "annotations"), at[2:], plan.meta.annotations
    if manifest["kind"] == KIND:
        return _find_pod_origin(at, manifest["metadata"]["labels"][labels.ROLE_NAME], plan)
    if plan.routing is not None:
        router = plan.routing.at
        args = plan.routing.args
        if manifest["kind"] == "HTTPRoute" and args.httproute is not None:
            route = args.httproute.model_dump(by_alias=True)
            return (*router, "httproute"), at[1:], route
        if manifest["kind"] == "Deployment" and args.endpoint_picker is not None:
            # The user's template is merged into the generated one, so indexes differ.
            return (*router, "endpointPicker", "template"), at, None
        if manifest["metadata"]["labels"].get(labels.ROLE_NAME) == plan.routing.name:
            return router, at, None
    return (), at, None


def _find_pod_origin(at: Location, name: str, plan: ServicePlan) -> tuple[Location, Location, Any]:
    (role,) = (role for role in plan.roles if role.name == name)
    if at[:3] in (_LEADER, _WORKER):
        pod = role.pods.leader if at[:3] == _LEADER else role.pods.all[-1]
        return pod.path, at[3:], pod.user_template
    return role.pods.leader.path[:2], at, None


def cut_to_user_value(location: Location, user_value: Any) -> Location:
    """Return the part of a location that exists in the user's value."""
    for count, key in enumerate(location):
        exists = (
            key in user_value
            if isinstance(user_value, Mapping)
            else isinstance(key, int) and isinstance(user_value, Sequence) and key < len(user_value)
        )
        if not exists or isinstance(user_value, str):
            return location[:count]
        user_value = user_value[key]
    return location
