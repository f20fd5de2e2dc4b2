"""The way of a request through a service's router, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.cli.plan_json import plain
from fusioninfer_pulumi.kube.outputs import surely_equal
from fusioninfer_pulumi.routing.endpoint import router_endpoint
from fusioninfer_pulumi.routing.route import ParentPlan
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.service_plan import ServicePlan


def request_path(plan: ServicePlan, router: RouterPlan) -> str:
    """The stations of a request: host -> Gateway -> route -> pool -> picker -> pods."""
    return " -> ".join(_stations(plan, router))


def router_url(plan: ServicePlan, router: RouterPlan) -> str:
    """Where clients send requests, as far as a plan can tell."""
    found = router_endpoint(router, plan.namespace)
    by = router.routed_by
    if by is not None:
        return f"not known: that of the route of service {by}"
    if router.external_routes:
        return f"not known: that of HTTPRoute {_routes(plan, router)}, which is made elsewhere"
    if found is None:
        return "not known: the Gateway is not ours, and the route has no host name"
    if found.host is None:
        return f"{found.url('<address>')} (the Gateway's, once it has one)"
    return found.url(str(plain(found.host)))


def _stations(plan: ServicePlan, router: RouterPlan) -> Iterator[str]:
    if router.route is not None:
        hosts = [str(plain(host)) for host in router.route.hostnames or ()]
        yield ", ".join(hosts) or "any host"
        gateways = [_gateway(parent, plan.namespace) for parent in router.parents]
        yield f"Gateway {', '.join(gateways)}" if gateways else "no Gateway"
        yield f"HTTPRoute {router.route.name}"
    elif router.routed_by is not None:
        yield f"the route of service {router.routed_by}"
    elif router.external_routes:
        yield f"HTTPRoute {_routes(plan, router)} (made elsewhere)"
    else:
        yield "no route"
    yield f"InferencePool {router.pool.name}"
    yield f"picker {router.picker.name} ({router.picker.family.name})"
    # Of a replica's pods only the leader serves.
    counts = [
        f"{len(role.replicas)} {role.name}" for role in plan.roles if role.name in router.pool.roles
    ]
    one = len(counts) == 1 and counts[0].startswith("1 ")
    yield f"{' + '.join(counts)} {'pod' if one else 'pods'}, port {router.pool.port}"


def _gateway(parent: ParentPlan, own: Any) -> str:
    section = "" if parent.section is None else f" ({parent.section})"
    return f"{_near(parent.namespace, own)}{parent.name}{section}"


def _routes(plan: ServicePlan, router: RouterPlan) -> str:
    own = plan.namespace
    return ", ".join(f"{_near(ref.namespace, own)}{ref.name}" for ref in router.external_routes)


def _near(namespace: Any, own: Any) -> str:
    """How a namespace is written before a name; not where it is the service's own."""
    return "" if namespace is None or surely_equal(namespace, own) else f"{plain(namespace)}/"
