"""From a router role to its plan: the one entry to this room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.findings import Finding, error, join
from fusioninfer_pulumi.names import DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.plan.routing.attachment import attachment_findings
from fusioninfer_pulumi.plan.routing.elsewhere import elsewhere_findings, elsewhere_grants
from fusioninfer_pulumi.plan.routing.gateway import (
    gateway_findings,
    gateway_plan,
    implementation_of,
    parent_plans,
    parent_refs,
)
from fusioninfer_pulumi.plan.routing.grants import grant_findings, needed_grants
from fusioninfer_pulumi.plan.routing.picker import picker_intent, picker_plan
from fusioninfer_pulumi.plan.routing.pool import (
    failure_mode_findings,
    pool_findings,
    pool_plan,
    pooled_types,
)
from fusioninfer_pulumi.plan.routing.records import GatewayPlan, RouterPlan
from fusioninfer_pulumi.plan.routing.route import route_findings, route_plan
from fusioninfer_pulumi.plan.routing.several_pools import several_pools_findings
from fusioninfer_pulumi.spec.day_two import TracingArgs
from fusioninfer_pulumi.spec.role import RoleArgs


def router_plan(
    service: str,
    namespace: Any,
    position: int,
    declared: Sequence[RoleArgs],
    roles: Sequence[RolePlan],
    *,
    groups: int | None = None,
    complete: bool = True,
    tracing: TracingArgs | None = None,
) -> tuple[RouterPlan | None, list[Finding]]:
    """Plans a router role.

    Args:
        service: Name of the service.
        namespace: Its namespace; may be an Output.
        position: Index of the router among the declared roles.
        declared: All roles of the service.
        roles: The plans of those that run pods.
        groups: Serving groups of the service, None without.
        complete: Whether all of those could be planned; if not, nothing is said of what depends
            on them.
        tracing: The service's traces, None without.

    Returns:
        The plan, None when it cannot be made, and what is to be said.
    """
    args = declared[position]
    intent = picker_intent(args, declared)
    types = pooled_types(declared, intent)
    served = [role for role in roles if role.component_type in types]
    picker, findings = picker_plan(
        service, namespace, position, args, intent, served, groups, tracing
    )
    if complete:
        findings += pool_findings(position, declared, intent, served)
    implementation = implementation_of(args)
    gateway = gateway_plan(service, args)
    parents = parent_plans(namespace, position, args, gateway)
    refs = parent_refs(args, gateway)
    route = route_plan(service, namespace, args, refs, implementation)
    hostnames = (route.hostnames if route is not None else None) or ()
    needed = [
        *needed_grants(namespace, position, route, gateway),
        *elsewhere_grants(service, namespace, position, args),
    ]
    created = bool(args.reference_grants)
    findings += failure_mode_findings(position, args, implementation)
    findings += gateway_findings(position, args, gateway, parents)
    findings += route_findings(position, args, route, implementation)
    findings += elsewhere_findings(service, position, args)
    findings += several_pools_findings(position, route, implementation)
    if route is not None:
        findings += attachment_findings(namespace, hostnames, parents)
    findings += grant_findings(namespace, needed, created=created)
    findings += _name_findings(service, gateway)
    if picker is None or not served:
        return None, findings
    plan = RouterPlan(
        position=position,
        args=args,
        picker=picker,
        pool=pool_plan(service, args, declared, intent, served[0].serving.port),
        gateway=gateway,
        parents=parents,
        route=route,
        implementation=implementation,
        grants=tuple(needed) if created else (),
    )
    return plan, findings


def _name_findings(service: str, gateway: GatewayPlan | None) -> Iterator[Finding]:
    """Names that become label values, which end at 63 characters."""
    derived = [("endpoint picker", names.endpoint_picker(service))]
    if gateway is not None:
        derived.append(("Gateway", gateway.name))
    for what, name in derived:
        if len(name) > DNS_LABEL_LIMIT:
            yield error(
                join("metadata", "name"),
                f'the name of the {what} "{name}" has {len(name)} characters, of at most '
                f"{DNS_LABEL_LIMIT}; shorten the service's by {len(name) - DNS_LABEL_LIMIT}",
            )
            return
