"""Device claims of pods, and their ResourceClaimTemplates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.topology import VOLCANO
from fusioninfer_pulumi.findings import Finding, error, join, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import metadata
from fusioninfer_pulumi.kube.resources import is_accelerator
from fusioninfer_pulumi.pods.build import role_labels
from fusioninfer_pulumi.pods.templates import (
    Place,
    places,
    with_container,
    with_spec,
    with_template,
)
from fusioninfer_pulumi.topology.topology import Topology

_REQUEST = "devices"
_DIGEST_LENGTH = 8


@dataclass(frozen=True)
class ClaimTemplate:
    """A ResourceClaimTemplate.

    Attributes:
        name: Its name.
        spec: Spec of the claims that are made from it.
    """

    name: str
    spec: dict[str, Any]


def claim_templates(service: str, role: RoleArgs) -> Iterator[ClaimTemplate]:
    """The templates that a role needs, in the order of its claims."""
    for claim in role.resource_claims or ():
        if claim.made:
            yield claim_template(service, role.name, claim)


def claim_template(service: str, role: str, claim: ResourceClaimArgs) -> ClaimTemplate:
    """The template of one claim.

    Templates cannot change (the API server's validation), so the name ends in a hash of the spec:
    other devices are another template, and pods that name it.
    """
    spec = claim.spec if claim.spec is not None else _described(claim)
    text = json.dumps(spec, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return ClaimTemplate(names.claim_template(service, role, claim.name, digest), spec)


def claimed_classes(spec: Mapping[str, Any]) -> Iterator[str]:
    """Names of the DeviceClasses that the spec of a claim asks for; alternatives count, too."""
    for request in claim_requests(spec):
        alternatives = request.get("firstAvailable")
        for asked in (
            request.get("exactly"),
            *(alternatives if isinstance(alternatives, list) else ()),
        ):
            if isinstance(asked, Mapping) and isinstance(asked.get("deviceClassName"), str):
                yield asked["deviceClassName"]


def claim_requests(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requests of a claim's spec, which the API server alone checks; odd ones left out."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, Mapping) else None
    listed = requests if isinstance(requests, list) else []
    return [each for each in listed if isinstance(each, Mapping)]


def claim_findings(
    roles: Iterable[tuple[int, RoleArgs]], scheduler: str | None, *, gang_scheduled: bool
) -> Iterator[Finding]:
    """Warns of pods with claims that Volcano places: as it is installed, it ignores claims.

    Volcano 1.14.1, pkg/scheduler/plugins/predicates: the plugin for claims is off by default, and
    pods are bound without an allocation, which no kubelet starts (e2e/test_claims.py).

    Args:
        roles: The service's serving roles, each with its index in the spec; their claims are
            written into the pod templates already.
        scheduler: Their scheduler.
        gang_scheduled: Whether the pods are a gang.
    """
    if scheduler != VOLCANO:
        return
    out = "gangPolicy.mode to Off" if gang_scheduled else "schedulerName to another scheduler"
    for position, role in roles:
        given = join("roles", position, "resourceClaims") if role.resource_claims else None
        at = given or _in_template(position, role)
        if at is not None:
            yield warning(
                at,
                "Volcano binds such pods without the devices that they claim, and they never "
                "start, unless the arguments of its plugin predicates say "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); say "
                f"so there, or set schedulingStrategy.{out}",
            )
            return


def _in_template(position: int, role: RoleArgs) -> str | None:
    """Path of claims that a user wrote into a pod template."""
    return next(
        (
            f"{place.at}.spec.resourceClaims"
            for place in places(position, role)
            if place.template["spec"].get("resourceClaims")
        ),
        None,
    )


def _described(claim: ResourceClaimArgs) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "deviceClassName": claim.device_class_name,
        "allocationMode": "ExactCount",
        "count": claim.count or 1,
    }
    if claim.selectors:
        wanted["selectors"] = [{"cel": {"expression": text}} for text in claim.selectors]
    if claim.admin_access is not None:
        wanted["adminAccess"] = claim.admin_access
    return {"devices": {"requests": [{"name": _REQUEST, "exactly": wanted}]}}


def claiming_role(service: str, position: int, role: RoleArgs) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        service: Name of the service.
        position: Index of the role in the spec.
        role: The role, valid by the spec's rules.

    Returns:
        The role whose serving containers use its claims, and what is to be said.
    """
    claims = role.resource_claims or []
    if not claims:
        return role, []
    findings: list[Finding] = []
    referred = [_reference(service, role.name, claim) for claim in claims]
    for place in places(position, role):
        taken = list(_taken(place, claims))
        findings += taken
        if taken:
            continue
        spec = place.template["spec"]
        used = [{"name": claim.name} for claim in claims]

        def using(container: Mapping[str, Any], used: Any = used) -> Mapping[str, Any]:
            resources = container.get("resources") or {}
            own = {**resources, "claims": [*(resources.get("claims") or ()), *used]}
            return {**container, "resources": own}

        template = with_container(place.template, str(place.container["name"]), using)
        listed = [*(spec.get("resourceClaims") or ()), *referred]
        role = with_template(role, place.field, with_spec(template, resourceClaims=listed))
    return role, findings


def _reference(service: str, role: str, claim: ResourceClaimArgs) -> dict[str, str]:
    if claim.claim_name is not None:
        return {"name": claim.name, "resourceClaimName": claim.claim_name}
    made = claim.template_name or claim_template(service, role, claim).name
    return {"name": claim.name, "resourceClaimTemplateName": made}


def _taken(place: Place, claims: list[ResourceClaimArgs]) -> Iterator[Finding]:
    given = {each.get("name") for each in place.template["spec"].get("resourceClaims") or ()}
    for claim in claims:
        if claim.name in given:
            yield error(
                f"{place.at}.spec.resourceClaims",
                f'"{claim.name}" is also the name of one of resourceClaims; rename one',
            )
    limits = (place.container.get("resources") or {}).get("limits") or {}
    for resource in limits:
        if is_accelerator(str(resource)) and any(claim.made for claim in claims):
            yield error(
                f"{place.container_at}.resources.limits.{resource}",
                "asks for accelerators beside resourceClaims, so the pod would get both; remove "
                "one",
            )


def device_claims(plan: Topology) -> Iterator[dict[str, Any]]:
    """Builds the templates of all roles that have pods."""
    for role in plan.roles:
        if not role.replicas:
            continue
        for template in claim_templates(plan.service, role.args):
            yield {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": metadata(plan, template.name, role_labels(plan, role)),
                "spec": {"spec": template.spec},
            }
