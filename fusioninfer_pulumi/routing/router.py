"""A router: its plan and its objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.route import HttpRouteRefArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.endpoint_pickers.intent import epp_intent
from fusioninfer_pulumi.findings import Finding, Location, Rule, error
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta
from fusioninfer_pulumi.routing.attachment import attachment_findings
from fusioninfer_pulumi.routing.epp import (
    EppPlan,
    config_map,
    epp_deployment,
    epp_plan,
    epp_role,
    epp_service,
    metrics_reviewer,
    role_binding,
    service_account,
)
from fusioninfer_pulumi.routing.gateway import (
    GatewayPlan,
    failure_mode_findings,
    gateway_findings,
    gateway_object,
    gateway_plan,
    implementation_of,
)
from fusioninfer_pulumi.routing.gateways import Implementation
from fusioninfer_pulumi.routing.grants import (
    GrantPlan,
    grant_findings,
    needed_grants,
    reference_grants,
)
from fusioninfer_pulumi.routing.network_policy import network_policies, policy_findings
from fusioninfer_pulumi.routing.pool import (
    PoolPlan,
    inference_pool,
    pool_findings,
    pool_plan,
    pooled_types,
)
from fusioninfer_pulumi.routing.route import (
    ParentPlan,
    RoutePlan,
    external_route_findings,
    http_route,
    parent_plans,
    route_findings,
    route_plan,
    several_pools_findings,
)
from fusioninfer_pulumi.routing.route_rules import listener_findings, rule_findings
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.topology import Topology

LABEL_VALUE_TOO_LONG = Rule(
    "label-value-too-long",
    "error",
    "Names that become label values are not too long.",
    remedy="Shorten the name of the service.",
)


@dataclass(frozen=True)
class RouterPlan:
    """A router role.

    Attributes:
        gateway: The Gateway that belongs to the service, None where there is none.
        parents: Gateways that the route attaches to.
        route: The HTTPRoute, None where neither a route nor a Gateway is asked for.
        grants: ReferenceGrants that are created.
    """

    position: int
    args: RoleArgs
    epp: EppPlan
    pool: PoolPlan
    gateway: GatewayPlan | None
    parents: tuple[ParentPlan, ...]
    route: RoutePlan | None
    implementation: Implementation
    grants: tuple[GrantPlan, ...]

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.args.name

    @property
    def routed_by(self) -> str | None:
        """The service whose route leads to the pool, None where it is not another one's."""
        return None if self.args.httproute is None else self.args.httproute.routed_by

    @property
    def external_routes(self) -> tuple[HttpRouteRefArgs, ...]:
        """HTTPRoutes that lead to the pool and belong to no service."""
        return () if self.args.httproute is None else tuple(self.args.httproute.refs or ())

    @property
    def is_routed(self) -> bool:
        """Whether some route leads to the pool, as far as the spec says."""
        route = self.args.httproute
        return self.route is not None or (route is not None and route.external_field is not None)


def router_plan(
    service: str,
    namespace: Any,
    position: int,
    declared: Sequence[RoleArgs],
    roles: Sequence[RolePlan],
    *,
    groups: int | None = None,
    tracing: TracingArgs | None = None,
) -> tuple[RouterPlan | None, list[Finding]]:
    """Plans the router role at `position` of the declared roles, with findings.

    `roles` are the plans of those that run pods. The plan is None when the endpoint picker or the
    pool cannot be planned.
    """
    args, at = declared[position], ("roles", position)
    intent = epp_intent(args, declared)
    types = pooled_types(declared, intent)
    served = [role for role in roles if role.component_type in types]
    epp, findings = epp_plan(service, namespace, at, args, intent, served, groups, tracing)
    findings += pool_findings(at, declared, intent, served)
    implementation = implementation_of(args)
    gateway = gateway_plan(service, args)
    parents = parent_plans(at, namespace, args, gateway)
    route = route_plan(service, namespace, args, gateway, implementation)
    needed = tuple(needed_grants(service, namespace, at, args, route, gateway))
    created = bool(args.reference_grants)
    findings += failure_mode_findings(at, args)
    findings += gateway_findings(at, args, gateway, {parent.name for parent in parents})
    findings += route_findings(at, args, route, implementation)
    findings += rule_findings(at, route)
    findings += listener_findings(at, gateway, implementation)
    findings += external_route_findings(service, at, args)
    if route is not None:
        findings += several_pools_findings(at, route, implementation)
        findings += attachment_findings(namespace, route.hostnames or (), parents)
    findings += grant_findings(namespace, needed, created=created)
    findings += _name_findings(service, gateway)
    if args.network_policy is not None:
        findings += policy_findings((*at, "networkPolicy"), args.network_policy)
    if epp is None or not served:
        return None, findings
    plan = RouterPlan(
        position=position,
        args=args,
        epp=epp,
        pool=pool_plan(service, args, declared, intent, served[0].serving.port),
        gateway=gateway,
        parents=parents,
        route=route,
        implementation=implementation,
        grants=needed if created else (),
    )
    return plan, findings


def _name_findings(service: str, gateway: GatewayPlan | None) -> Iterator[Finding]:
    """One error about names that become label values, which end at 63 characters."""
    derived = [("endpoint picker", names.endpoint_picker(service))]
    if gateway is not None:
        derived.append(("Gateway", gateway.name))
    at: Location = ("metadata", "name")
    for what, name in derived:
        if len(name) > names.DNS_LABEL_LIMIT:
            yield error(
                LABEL_VALUE_TOO_LONG,
                at,
                f'the name of the {what} "{name}" has {len(name)} characters, of at most '
                f"{names.DNS_LABEL_LIMIT}; shorten the service's by "
                f"{len(name) - names.DNS_LABEL_LIMIT}",
            )
            return


def router_meta(meta: ServiceMeta, role: str) -> ServiceMeta:
    """The service's metadata with the labels of every object of its router role."""
    own = {
        labels.SERVICE: meta.service,
        labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
        labels.ROLE_NAME: role,
    }
    return ServiceMeta(
        service=meta.service,
        namespace=meta.namespace,
        labels={**meta.labels, **own},
        annotations=meta.annotations,
    )


def router_objects(topology: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds the objects of a router.

    The pool precedes the endpoint picker, which is Ready only once the pool exists; the route
    follows everything that it leads to.
    """
    meta, epp = router_meta(topology, router.name), router.epp
    yield service_account(meta, epp)
    yield epp_role(meta, epp)
    yield role_binding(meta, epp)
    if epp.metrics is MetricsMode.AUTHENTICATED:
        yield metrics_reviewer(meta, epp)
    yield config_map(meta, epp)
    yield inference_pool(meta, router.pool, epp.name)
    yield epp_deployment(meta, epp)
    yield epp_service(meta, epp, router.implementation.epp_protocol)
    if router.gateway is not None:
        yield gateway_object(meta, router.gateway)
    if router.route is not None:
        yield http_route(meta, router.route, router.pool.name)
    yield from gateway_extras(topology, router)
    yield from reference_grants(meta, router.grants)
    if router.args.network_policy is not None:
        yield from network_policies(
            meta, router.args.network_policy, epp, router.pool, topology.roles
        )


def gateway_extras(topology: Topology, router: RouterPlan) -> Iterator[Manifest]:
    """Builds what the gateway's implementation needs beside a route to the pool."""
    extras = router.implementation.extras
    if extras is None or not router.is_routed:
        return
    meta = router_meta(topology, router.name)
    served = [role for role in topology.roles if role.name in router.pool.roles]
    yield from extras(meta, router.epp, router.pool, served)
