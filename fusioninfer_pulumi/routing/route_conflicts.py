"""Routes of two services that take the same requests of one Gateway."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, warning
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.between_services import RoutedService, share_gateway
from fusioninfer_pulumi.routing.route import RoutePlan
from fusioninfer_pulumi.routing.route_rules import normalised_matches


class Routes:
    """The routes of the services added so far."""

    def __init__(self) -> None:
        self._plans: list[RoutedService] = []

    def add(self, plan: RoutedService) -> list[Finding]:
        """Adds a service, and returns a warning for each earlier one whose requests it wants."""
        found = [each for other in self._plans for each in _findings(plan, other)]
        self._plans.append(plan)
        return found


def _findings(plan: RoutedService, other: RoutedService) -> Iterator[Finding]:
    router, theirs = plan.router, other.router
    if router is None or theirs is None or router.route is None or theirs.route is None:
        return
    # What one of them says of the other is checked there.
    if _names(plan, other) or _names(other, plan) or not share_gateway(router, theirs):
        return
    host = _shared_host(router.route, theirs.route)
    taken = [match for rule in theirs.route.rules for match in normalised_matches(rule.matches)]
    wanted = [match for rule in router.route.rules for match in normalised_matches(rule.matches)]
    if host is not None and any(match in taken for match in wanted):
        yield warning(
            "routes-conflict",
            ("roles", router.position, "httproute"),
            f"takes the same requests for {host} as service {other.service} at one Gateway, and "
            "the older route gets them all; give it another host name, path or header",
        )


def _names(plan: RoutedService, other: RoutedService) -> bool:
    route = plan.router.args.httproute if plan.router is not None else None
    shares = (route.split if route is not None else None) or ()
    return any(share.service == other.service for share in shares)


def _shared_host(one: RoutePlan, other: RoutePlan) -> str | None:
    """A host that both routes name, None for none: of two the more exact one gets its requests."""
    if not one.hostnames and not other.hostnames:
        return "any host"
    theirs = [host for host in other.hostnames or () if not is_output(host)]
    return next(
        (host for host in one.hostnames or () if not is_output(host) and host in theirs), None
    )
