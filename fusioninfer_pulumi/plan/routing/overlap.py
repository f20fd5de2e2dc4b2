"""Whether the routes of two services take the same requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.plan.routing.attachment import hosts_meet
from fusioninfer_pulumi.plan.routing.gateway import same
from fusioninfer_pulumi.plan.routing.records import ParentPlan, RoutePlan


def take_the_same(one: ServicePlan, other: ServicePlan) -> bool:
    """Tells whether two routes have an equal rule, at one Gateway and for one host.

    The Gateway API gives such requests to the route that was made first.

    Args:
        one: A service.
        other: Another one.
    """
    if one.router is None or other.router is None:
        return False
    routes = one.router.route, other.router.route
    if routes[0] is None or routes[1] is None:
        return False
    return (
        _attach_alike(one.router.parents, other.router.parents, routes[0], routes[1])
        and _hosts_meet(routes[0], routes[1])
        and any(each in list(_matches(routes[1])) for each in _matches(routes[0]))
    )


def _attach_alike(
    one: tuple[ParentPlan, ...], other: tuple[ParentPlan, ...], first: RoutePlan, second: RoutePlan
) -> bool:
    if first.use_default_gateways and second.use_default_gateways:
        return True
    return any(
        a.name == b.name
        and same(a.namespace, b.namespace)
        and (a.section == b.section or None in (a.section, b.section))
        and (a.port == b.port or None in (a.port, b.port))
        for a in one
        for b in other
    )


def _hosts_meet(one: RoutePlan, other: RoutePlan) -> bool:
    if not one.hostnames or not other.hostnames:
        return True
    return any(hosts_meet(a, b) for a in one.hostnames for b in other.hostnames)


def _matches(route: RoutePlan) -> Iterator[Mapping[str, Any]]:
    """The conditions of all rules; an empty one takes every request."""
    for rule in route.rules:
        yield from rule.given.get("matches") or ({},)
