"""Plans the routing of a service with a router role, and builds its objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import ServiceShape
from fusioninfer_pulumi.endpoint_pickers.picker_choice import EppChoice
from fusioninfer_pulumi.findings import Location
from fusioninfer_pulumi.kube import labels, object_names
from fusioninfer_pulumi.kube.object_metadata import Manifest, ServiceMeta
from fusioninfer_pulumi.routing.epp import (
    EppPlan,
    build_config_map,
    build_epp_access,
    build_epp_deployment,
    build_epp_service,
    plan_epp,
)
from fusioninfer_pulumi.routing.gateway_implementations import (
    GatewayPlan,
    Implementation,
    build_gateway,
    find_implementation,
    plan_gateway,
)
from fusioninfer_pulumi.routing.http_route import (
    GrantPlan,
    ParentPlan,
    RoutePlan,
    build_http_route,
    build_reference_grants,
    plan_grants,
    plan_parents,
    plan_route,
)
from fusioninfer_pulumi.routing.network_policy import (
    NetworkPolicyPlan,
    build_picker_network_policy,
    build_picker_peer,
    build_role_network_policies,
    find_proxy_peers,
    plan_network_policies,
)
from fusioninfer_pulumi.routing.pool import (
    PoolPlan,
    RewritePlan,
    build_inference_model_rewrite,
    build_inference_objectives,
    build_inference_pool,
    build_pool_reference,
    build_service_reference,
    choose_pool_types,
    plan_pool,
    plan_rewrites,
)
from fusioninfer_pulumi.topology.role_plan import RolePlan


class PickerPlan(NamedTuple):
    """An endpoint picker, the pool it chooses from, and the model names it rewrites."""

    epp: EppPlan
    pool: PoolPlan
    rewrites: RewritePlan | None


class Routing(NamedTuple):
    """The routing of a service with a router role.

    Attributes:
        spec: Spec of the service.
        router: The router role.
        location: Location of the router role.
        epp_choice: The endpoint picker's strategy, features and image.
        backend_roles: The roles whose pods are in the pool or behind the Service.
        backend: Reference to the pool; if there is no endpoint picker, to the Service and its port.
        gateway: The Gateway created for the service, or None if none is created.
        parents: Gateways that the route attaches to.
        route: The HTTPRoute created for the service, or None if none is created.
        grants: ReferenceGrants that the route and the Gateway need.
        network_policy: Peers that may connect to the pods. None means that no NetworkPolicies are
            created, so all peers may connect.
        picker: The endpoint picker. None if the backend is the Service, or if the picker is
            invalid; then no objects are built.
    """

    spec: InferenceServiceArgs
    router: RoleArgs
    location: Location
    epp_choice: EppChoice
    backend_roles: tuple[RolePlan, ...]
    backend: Mapping[str, Any]
    gateway: GatewayPlan | None
    parents: tuple[ParentPlan, ...]
    route: RoutePlan | None
    implementation: Implementation
    grants: tuple[GrantPlan, ...]
    network_policy: NetworkPolicyPlan | None
    picker: PickerPlan | None = None


def plan_routing(
    service: str,
    spec: InferenceServiceArgs,
    shape: ServiceShape,
    roles: Sequence[RolePlan],
    epp_choice: EppChoice,
) -> Routing:
    """Plan the routing of a service."""
    router, namespace = shape.router, spec.namespace
    assert router is not None
    location: Location = ("roles", spec.roles.index(router))
    has_picker = router.has_endpoint_picker
    types: Collection[ComponentType]
    if has_picker:
        types = choose_pool_types(roles, epp_choice)
        backend = build_pool_reference(object_names.inference_pool(service))
    else:
        types = shape.entry_types
        backend = build_service_reference(service, roles, shape)
    backend_roles = tuple(role for role in roles if role.component_type in types)
    implementation = find_implementation(router)
    gateway = plan_gateway(service, router)
    parents = plan_parents(location, namespace, router, gateway)
    route = plan_route(service, backend, namespace, router, gateway, implementation)
    proxies = find_proxy_peers(namespace, parents, implementation)
    picker = None
    if has_picker:
        epp = plan_epp(service, spec, router, epp_choice, backend_roles)
        if epp is not None and backend_roles:
            pool = plan_pool(service, router, backend_roles, types)
            picker = PickerPlan(epp, pool, plan_rewrites(service, router, epp.family))
    return Routing(
        spec=spec,
        router=router,
        location=location,
        epp_choice=epp_choice,
        backend_roles=backend_roles,
        backend=backend,
        gateway=gateway,
        parents=parents,
        route=route,
        implementation=implementation,
        grants=tuple(plan_grants(backend, namespace, location, router, route, gateway)),
        network_policy=plan_network_policies(router.network_policy, proxies),
        picker=picker,
    )


def build_router_meta(meta: ServiceMeta, role: str) -> ServiceMeta:
    """Return the service's metadata with the labels of the router role's objects."""
    router_labels = {
        labels.SERVICE: meta.service,
        labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
        labels.ROLE_NAME: role,
    }
    return replace(meta, labels={**meta.labels, **router_labels})


def build_routing_objects(
    meta: ServiceMeta, routing: Routing, roles: Sequence[RolePlan]
) -> Iterator[Manifest]:
    """Build the objects of a router role, except for the serving Service.

    `build_serving_service` builds that Service. Without an endpoint picker, the route leads to it.
    The pool comes before the endpoint picker, which is Ready only once the pool exists. The route
    comes after everything it leads to.
    """
    router_meta, picker = build_router_meta(meta, routing.router.name), routing.picker
    epp = None
    if picker is not None:
        epp = picker.epp
        yield from build_epp_access(router_meta, epp)
        yield build_config_map(router_meta, epp)
        yield build_inference_pool(router_meta, picker.pool, epp)
        if picker.rewrites is not None:
            yield build_inference_model_rewrite(router_meta, picker.rewrites, picker.pool.name)
        yield from build_inference_objectives(router_meta, epp.args, epp.family, picker.pool.name)
        yield build_epp_deployment(router_meta, epp)
        yield build_epp_service(router_meta, epp, routing.implementation.epp_protocol)
    if routing.gateway is not None:
        yield build_gateway(router_meta, routing.gateway)
    if routing.route is not None:
        yield build_http_route(router_meta, routing.route)
    ports = picker.pool.ports if picker is not None else (routing.backend["port"],)
    build_extras = routing.implementation.build_extras
    if build_extras is not None:
        yield from build_extras(router_meta, epp, routing.backend, ports[0])
    if routing.router.reference_grants:
        yield from build_reference_grants(router_meta, routing.grants)
    policy = routing.network_policy
    if policy is None:
        return
    if picker is not None:
        yield build_picker_network_policy(router_meta, policy, picker.epp, picker.pool, roles)
    yield from build_role_network_policies(
        router_meta,
        policy,
        roles,
        backend_role_names=[role.name for role in routing.backend_roles],
        ports=ports,
        picker=build_picker_peer(epp) if epp is not None else None,
    )
