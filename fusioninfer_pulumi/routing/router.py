"""A router: its plan and its objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.monitoring import TracingArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.route import HttpRouteRefArgs
from fusioninfer_pulumi.api.router import MetricsMode
from fusioninfer_pulumi.api.topology import entry_types
from fusioninfer_pulumi.endpoint_pickers.intent import EppIntent
from fusioninfer_pulumi.findings import Finding, Location
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import Manifest, ServiceMeta
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
    gateway_object,
    gateway_plan,
    implementation_of,
)
from fusioninfer_pulumi.routing.gateways import Implementation
from fusioninfer_pulumi.routing.grants import (
    GrantPlan,
    needed_grants,
    reference_grants,
)
from fusioninfer_pulumi.routing.model_rewrite import (
    RewritePlan,
    inference_model_rewrite,
    rewrite_plan,
)
from fusioninfer_pulumi.routing.network_policy import (
    NetworkPolicyPlan,
    network_policy_plan,
    picker_network_policy,
    proxy_peers,
    role_network_policies,
)
from fusioninfer_pulumi.routing.pool import (
    PoolPlan,
    inference_pool,
    pool_plan,
    pool_reference,
    pooled_types,
)
from fusioninfer_pulumi.routing.route import (
    ParentPlan,
    RoutePlan,
    http_route,
    parent_plans,
    route_plan,
)
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.service import service_reference
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True)
class RouterParts:
    """What a router role is made of, also where no endpoint picker can be planned.

    Attributes:
        declared: All roles of the service.
        served: The roles whose pods are in the pool, or behind the Service.
        backend: Reference to the pool; without an endpoint picker to the Service, with its port.
        gateway: The Gateway that belongs to the service, None where there is none.
        parents: Gateways that the route attaches to.
        route: The HTTPRoute, None where neither a route nor a Gateway is asked for.
        grants: ReferenceGrants that are needed.
        proxies: NetworkPolicyPeers that match the gateway's proxies, none where it is not known
            where they run.
        monitored: Whether the service has monitors.
    """

    service: str
    namespace: Any
    position: int
    groups: int | None
    declared: tuple[RoleArgs, ...]
    intent: EppIntent
    served: tuple[RolePlan, ...]
    backend: Mapping[str, Any]
    gateway: GatewayPlan | None
    parents: tuple[ParentPlan, ...]
    route: RoutePlan | None
    implementation: Implementation
    grants: tuple[GrantPlan, ...]
    proxies: tuple[Manifest, ...]
    monitored: bool

    @property
    def args(self) -> RoleArgs:
        """The router role."""
        return self.declared[self.position]

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.args.name

    @property
    def at(self) -> Location:
        """Location of the router role."""
        return ("roles", self.position)

    @property
    def picks_endpoints(self) -> bool:
        """Whether an endpoint picker chooses the pod of a request."""
        return self.args.picks_endpoints

    @property
    def created_grants(self) -> tuple[GrantPlan, ...]:
        """The ReferenceGrants that belong to the service."""
        return self.grants if self.args.reference_grants else ()

    @property
    def network_policy(self) -> NetworkPolicyPlan | None:
        """Who reaches the pods, None where everybody does."""
        policy = self.args.network_policy
        return network_policy_plan(policy, self.proxies if self.is_routed else ())

    @property
    def routed_by(self) -> str | None:
        """The service whose route leads to the pods, None where it is not another one's."""
        return None if self.args.httproute is None else self.args.httproute.routed_by

    @property
    def external_routes(self) -> tuple[HttpRouteRefArgs, ...]:
        """HTTPRoutes that lead to the pods and belong to no service."""
        return () if self.args.httproute is None else tuple(self.args.httproute.refs or ())

    @property
    def is_routed(self) -> bool:
        """Whether some route leads to the pods, as far as the spec says."""
        route = self.args.httproute
        return self.route is not None or (route is not None and route.external_field is not None)


@dataclass(frozen=True)
class RouterPlan(RouterParts):
    """A router role whose endpoint picker and pool are planned."""

    epp: EppPlan
    pool: PoolPlan

    @property
    def rewrites(self) -> RewritePlan | None:
        """The InferenceModelRewrite, None where no name is rewritten."""
        return rewrite_plan(self.service, self.args, self.epp.family)


def router_parts(
    service: str,
    namespace: Any,
    position: int,
    declared: Sequence[RoleArgs],
    roles: Sequence[RolePlan],
    intent: EppIntent,
    groups: int | None = None,
    *,
    monitored: bool = False,
) -> RouterParts:
    """Builds the parts of the router role at `position`; `roles` are those that run pods."""
    args, at = declared[position], ("roles", position)
    picks = args.picks_endpoints
    types = pooled_types(declared, intent) if picks else entry_types(declared)
    served = tuple(role for role in roles if role.component_type in types)
    backend = (
        pool_reference(names.inference_pool(service))
        if picks
        else service_reference(service, roles)
    )
    implementation = implementation_of(args)
    gateway = gateway_plan(service, args)
    route = route_plan(service, backend, namespace, args, gateway, implementation)
    parents = parent_plans(at, namespace, args, gateway)
    return RouterParts(
        service=service,
        namespace=namespace,
        position=position,
        groups=groups,
        declared=tuple(declared),
        intent=intent,
        served=served,
        backend=backend,
        gateway=gateway,
        parents=parents,
        route=route,
        implementation=implementation,
        grants=tuple(needed_grants(backend, namespace, at, args, route, gateway)),
        proxies=proxy_peers(namespace, parents, implementation),
        monitored=monitored,
    )


def router_plan(
    parts: RouterParts, tracing: TracingArgs | None = None
) -> tuple[RouterPlan | None, list[Finding]]:
    """Plans a router role; None, and why, if the endpoint picker or the pool cannot be planned."""
    args, served = parts.args, parts.served
    epp, findings = epp_plan(
        parts.service,
        parts.namespace,
        parts.at,
        args,
        parts.intent,
        served,
        parts.groups,
        tracing,
    )
    if epp is None or not served:
        return None, findings
    ports = served[0].serving.ports
    pool = pool_plan(parts.service, args, parts.declared, parts.intent, ports)
    return RouterPlan(**vars(parts), epp=epp, pool=pool), findings


def router_meta(meta: ServiceMeta, role: str) -> ServiceMeta:
    """The service's metadata with the labels of every object of its router role."""
    own_labels = {
        labels.SERVICE: meta.service,
        labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
        labels.ROLE_NAME: role,
    }
    return ServiceMeta(
        service=meta.service,
        namespace=meta.namespace,
        labels={**meta.labels, **own_labels},
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
    if router.rewrites is not None:
        yield inference_model_rewrite(meta, router.rewrites, router.pool.name)
    yield epp_deployment(meta, epp)
    yield epp_service(meta, epp, router.implementation.epp_protocol)
    yield from _route_objects(topology, router)
    policy = router.network_policy
    if policy is not None:
        pool, roles = router.pool, topology.roles
        yield picker_network_policy(meta, policy, epp, pool, roles)
        picker = epp.pod_labels
        yield from role_network_policies(meta, policy, roles, pool.roles, pool.ports, picker)


def service_route_objects(topology: Topology, parts: RouterParts) -> Iterator[Manifest]:
    """Builds the objects of a router without an endpoint picker, but for its Service."""
    yield from _route_objects(topology, parts)
    policy = parts.network_policy
    if policy is not None:
        meta, ports = router_meta(topology, parts.name), [parts.backend["port"]]
        served = [role.name for role in parts.served]
        yield from role_network_policies(meta, policy, topology.roles, served, ports, None)


def _route_objects(topology: Topology, parts: RouterParts) -> Iterator[Manifest]:
    meta = router_meta(topology, parts.name)
    if parts.gateway is not None:
        yield gateway_object(meta, parts.gateway)
    if parts.route is not None:
        yield http_route(meta, parts.route)
    yield from gateway_extras(topology, parts)
    yield from reference_grants(meta, parts.created_grants)


def gateway_extras(topology: Topology, parts: RouterParts) -> Iterator[Manifest]:
    """Builds what the gateway's implementation needs beside a route to the pool or Service."""
    if not parts.is_routed:
        return
    known, meta = parts.implementation, router_meta(topology, parts.name)
    if isinstance(parts, RouterPlan):
        if known.extras is not None:
            yield from known.extras(meta, parts.epp, parts.pool, parts.served)
    elif known.service_extras is not None:
        yield from known.service_extras(meta, parts.backend, parts.served)
