"""A router: its plan and its objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.names import DNS_LABEL_LIMIT
from fusioninfer_pulumi.pickers.intent import picker_intent
from fusioninfer_pulumi.routing.attachment import attachment_findings
from fusioninfer_pulumi.routing.common import Manifest
from fusioninfer_pulumi.routing.elsewhere import elsewhere_findings, elsewhere_grants
from fusioninfer_pulumi.routing.gateway import (
    gateway,
    gateway_findings,
    gateway_plan,
    implementation_of,
    parent_plans,
    parent_refs,
)
from fusioninfer_pulumi.routing.gateway_extras import gateway_extras
from fusioninfer_pulumi.routing.grants import grant_findings, needed_grants, reference_grants
from fusioninfer_pulumi.routing.network_policy import network_policies
from fusioninfer_pulumi.routing.picker import (
    config_map,
    picker_deployment,
    picker_plan,
    picker_service,
)
from fusioninfer_pulumi.routing.picker_access import (
    metrics_reviewer,
    role,
    role_binding,
    service_account,
)
from fusioninfer_pulumi.routing.pool import (
    failure_mode_findings,
    inference_pool,
    pool_findings,
    pool_plan,
    pooled_types,
)
from fusioninfer_pulumi.routing.records import GatewayPlan, RouterPlan
from fusioninfer_pulumi.routing.route import (
    http_route,
    route_findings,
    route_plan,
    several_pools_findings,
)
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology


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
                "label-value-too-long",
                ("metadata", "name"),
                f'the name of the {what} "{name}" has {len(name)} characters, of at most '
                f"{DNS_LABEL_LIMIT}; shorten the service's by {len(name) - DNS_LABEL_LIMIT}",
            )
            return


def routing(plan: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds the objects of a router.

    The pool stands before the picker, which is Ready only once the pool exists; the route comes
    after all that it leads to.
    """
    yield service_account(plan, router)
    yield role(plan, router)
    yield role_binding(plan, router)
    if router.picker.metrics is MetricsMode.AUTHENTICATED:
        yield metrics_reviewer(plan, router)
    yield config_map(plan, router)
    yield inference_pool(plan, router)
    yield picker_deployment(plan, router)
    yield picker_service(plan, router)
    if router.gateway is not None:
        yield gateway(plan, router, router.gateway)
    if router.route is not None:
        yield http_route(plan, router, router.route)
    yield from gateway_extras(plan, router)
    yield from reference_grants(plan, router)
    yield from network_policies(plan, router)
