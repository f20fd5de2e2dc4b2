"""Gateways, names and shares of requests that several services have in common."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fusioninfer_pulumi.api.router import SplitArgs
from fusioninfer_pulumi.engines.model_arguments import served_names
from fusioninfer_pulumi.findings import Finding, Location, error, info, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.attachment import attachment_findings, hosts_meet
from fusioninfer_pulumi.routing.gateway import same
from fusioninfer_pulumi.routing.records import ParentPlan, RoutePlan
from fusioninfer_pulumi.routing.route import is_pool
from fusioninfer_pulumi.service_plan import ServicePlan


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


class Gateways:
    """The Gateways of the services seen so far, by namespace and name."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[object, str], tuple[Mapping[str, Any], ...]] = {}

    def add(self, plan: ServicePlan) -> None:
        """Remembers the Gateway of a service, if it has one."""
        if plan.router is not None and plan.router.gateway is not None:
            key = _key(plan.namespace, plan.router.gateway.name)
            self._listeners[key] = tuple(plan.router.gateway.spec["listeners"])

    def findings(self, plan: ServicePlan) -> list[Finding]:
        """Checks a service's route against those Gateways.

        Args:
            plan: The service.

        Returns:
            One error for each of them that does not take the route.
        """
        router = plan.router
        if router is None or router.route is None:
            return []
        parents = [
            replace(parent, listeners=known)
            for parent in router.parents
            if parent.listeners is None
            and (known := self._listeners.get(_key(parent.namespace, parent.name))) is not None
        ]
        return list(attachment_findings(plan.namespace, router.route.hostnames or (), parents))


def _key(namespace: Any, name: str) -> tuple[object, str]:
    return (id(namespace) if is_output(namespace) else namespace), name


#: How alike two names are of which one is probably meant to be the other.
_ALIKE = 0.75


class Shares:
    """The services seen so far, and how their routes lead to each other.

    Args:
        plans: The services that are known already.
    """

    def __init__(self, plans: Iterable[ServicePlan] = ()) -> None:
        self._plans = list(plans)

    def add(self, plan: ServicePlan) -> list[Finding]:
        """Adds a service where it is not known whether others follow.

        Args:
            plan: The service.

        Returns:
            What is to be said of it and each earlier service, of which one names the other.
        """
        earlier = tuple(self._plans)
        self._plans.append(plan)
        found = self.findings(plan, complete=False)
        for other in earlier:
            found += [
                Finding(
                    each.rule,
                    each.severity,
                    (),
                    f"{each.path} of service {other.service}: {each.message}",
                )
                for each in self.findings(other, complete=False, to=plan.service)
            ]
        return found

    def findings(
        self, plan: ServicePlan, *, complete: bool, to: str | None = None
    ) -> list[Finding]:
        """Holds a service's `split` and `routedBy` against the services that they name.

        Args:
            plan: The service.
            complete: Whether all services are known: then a name of none of them is told, too.
            to: Looks at references to the service of this name alone; None at all of them.

        Returns:
            Errors where requests would fail, warnings where they probably go another way.
        """
        router = plan.router
        given = router.args.httproute if router is not None else None
        if router is None or given is None:
            return []
        at = ("roles", router.position, "httproute")
        found: list[Finding] = []
        for index, share in enumerate(given.split or ()):
            if _shares(plan) and share.service != plan.service and to in (None, share.service):
                found += self._share(
                    (*at, "split", index, "service"), plan, share, complete=complete
                )
        by = given.routed_by
        if by is not None and by != plan.service and to in (None, by):
            found += self._routed((*at, "routedBy"), plan, by, complete=complete)
        return found

    def _share(
        self, at: Location, plan: ServicePlan, share: SplitArgs, *, complete: bool
    ) -> Iterator[Finding]:
        other = self._near(plan, share.service)
        if other is None:
            if complete:
                yield from self._missing(at, plan, share.service, "its share of requests fails")
        elif not other.routers:
            say: Callable[[str, Location, str], Finding] = error if share.weight else warning
            yield say(
                "split-to-missing-pool",
                at,
                f"{other.service} has no router, so there is no InferencePool "
                f"{names.inference_pool(other.service)}: gateways answer its share with errors; "
                f"give it a role of componentType router with httproute: {_back(plan)}",
            )
        elif other.router is not None:
            yield from self._own_route(at, plan, other)
            lacking = sorted((_models(plan) or set()) - (_models(other) or set()))
            if lacking and _models(other) is not None:
                yield warning(
                    "split-models-differ",
                    at,
                    f"{other.service} serves {_listed(_models(other))}, not {', '.join(lacking)}: "
                    "requests keep the name that they ask for, and those of its share fail; give "
                    "both the same names (model.name, or --served-model-name)",
                )

    def _own_route(self, at: Location, plan: ServicePlan, other: ServicePlan) -> Iterator[Finding]:
        assert other.router is not None, "asked of services with a router only"
        by, route = other.router.routed_by, other.router.route
        if by is not None:
            if by != plan.service and not any(
                each.service == by and _leads(each, other) for each in self._plans
            ):
                yield warning(
                    "routed-by-differs",
                    at,
                    f"{other.service} says routedBy: {by}, and this is {plan.service}",
                )
        elif other.router.routes_elsewhere:
            return  # by which it gets requests is not read
        elif route is None:
            yield warning(
                "routed-by-missing",
                at,
                f"{other.service} does not say whose route leads to it; write {_back(plan)}",
            )
        elif take_the_same(plan, other):
            yield warning(
                "routes-conflict",
                at,
                f"{other.service} makes a route of its own for the same requests, {route.name}: "
                f"of two such routes the older one gets all of them; write {_back(plan)} there",
            )
        else:
            yield info(
                "split-target-has-route",
                at,
                f"{other.service} gets requests by its own route, too: {route.name}",
            )

    def _routed(
        self, at: Location, plan: ServicePlan, by: str, *, complete: bool
    ) -> Iterator[Finding]:
        if any(_leads(each, plan) and each.service == by for each in self._plans):
            return
        if any(_leads(each, plan) and _shares(each) for each in self._plans):
            return  # told where that one gives the share
        other = self._near(plan, by)
        if other is None:
            if complete:
                yield from self._missing(at, plan, by, "no request comes")
        elif not other.routers:
            yield warning(
                "routed-by-without-route",
                at,
                f"{by} has no router, and so no route: no request comes",
            )
        elif other.router is not None and other.router.route is None:
            yield warning(
                "routed-by-without-route", at, f"{by} makes no route itself: no request comes"
            )
        elif other.router is not None:
            yield warning(
                "routed-by-without-split",
                at,
                f"the route of {by} does not lead here: no request comes; give it split: "
                f"[{{service: {plan.service}, weight: 0}}], or more",
            )

    def _near(self, plan: ServicePlan, name: str) -> ServicePlan | None:
        """The service of that name in the same namespace, None where none is known to be there."""
        found = (each for each in self._plans if each.service == name)
        return next((each for each in found if same(each.namespace, plan.namespace)), None)

    def _missing(
        self, at: Location, plan: ServicePlan, name: str, otherwise: str
    ) -> Iterator[Finding]:
        others = [each for each in self._plans if each is not plan]
        if not others:
            return  # a service that is looked at alone: the other one is elsewhere
        if any(is_output(each.namespace) for each in (plan, *others)):
            return
        spaces = sorted({each.namespace for each in others if each.service == name})
        if spaces:
            yield warning(
                "service-in-other-namespace",
                at,
                f"{name} is in namespace {', '.join(spaces)}, and the name means one of this "
                f"service's namespace {plan.namespace}: {otherwise} unless there is one, too",
            )
            return
        known = sorted({each.service for each in others if each.namespace == plan.namespace})
        close = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        hint = f"; did you mean {close[0]}?" if close else ""
        yield warning(
            "service-not-found",
            at,
            f"{name} is none of the services given: {otherwise} unless it is in namespace "
            f"{plan.namespace} already{hint}",
        )


def _back(plan: ServicePlan) -> str:
    return f"{{routedBy: {plan.service}}}"


def _shares(plan: ServicePlan) -> bool:
    """Whether a service's `split` has an effect."""
    route = plan.router.route if plan.router is not None else None
    return route is not None and bool(route.split) and any(each.completed for each in route.rules)


def _leads(plan: ServicePlan, other: ServicePlan) -> bool:
    """Whether the route of one service leads to the pool of another."""
    if plan is other or plan.router is None or plan.router.route is None:
        return False
    pool, route = names.inference_pool(other.service), plan.router.route
    near = _shares(plan) and same(plan.namespace, other.namespace)
    if near and any(name == pool for name, _ in route.split):
        return True
    return any(
        is_pool(ref)
        and ref["name"] == pool
        and same(ref.get("namespace", plan.namespace), other.namespace)
        for rule in route.rules
        for ref in rule.given.get("backendRefs") or ()
    )


def _models(plan: ServicePlan) -> set[str] | None:
    """The names by which requests ask a service's pool, None where they cannot be read."""
    assert plan.router is not None, "asked of services with a router only"
    found: set[str] = set()
    for role in plan.roles:
        if role.name in plan.router.pool.roles:
            served = served_names(role.serving.command)
            if served is None:
                return None
            found.update(served)
    return found


def _listed(models: set[str] | None) -> str:
    return ", ".join(sorted(models or ()))
