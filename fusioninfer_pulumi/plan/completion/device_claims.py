"""Lets every pod of a role claim its devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.plan.completion.templates import (
    Place,
    places,
    with_container,
    with_spec,
    with_template,
)
from fusioninfer_pulumi.plan.device_claims import claim_template
from fusioninfer_pulumi.plan.resources import is_accelerator
from fusioninfer_pulumi.spec.device_claims import ResourceClaimArgs
from fusioninfer_pulumi.spec.role import RoleArgs


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
