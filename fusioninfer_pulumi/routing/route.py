"""The HTTPRoute: plan and object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.router import HttpRouteArgs
from fusioninfer_pulumi.findings import Finding, error, info, join, parse_path, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.gateway import same
from fusioninfer_pulumi.routing.gateways import Implementation, SeveralPools
from fusioninfer_pulumi.routing.pool import pool_target
from fusioninfer_pulumi.routing.records import RoutePlan, RouterPlan, RulePlan

#: Groups under which documents name the pool, though no gateway finds it there.
_OLD_GROUPS = ("inference.networking.x-k8s.io", "")

#: No limit: a streamed answer may take minutes.
STREAMING = "0s"


def route_plan(
    service: str,
    namespace: Any,
    args: RoleArgs,
    parent_refs: tuple[Mapping[str, Any], ...] | None,
    implementation: Implementation | None,
) -> RoutePlan | None:
    """Plans the route.

    Args:
        service: Name of the service.
        namespace: Its namespace; may be an Output.
        args: The router role.
        parent_refs: References to Gateways, None for none.
        implementation: What is known of the gateway.

    Returns:
        The route, None where neither a route nor a Gateway is asked for.
    """
    if args.httproute is None and args.gateway is None:
        return None
    if args.httproute is not None and args.httproute.elsewhere is not None:
        return None
    given = args.httproute or HttpRouteArgs()
    return RoutePlan(
        name=names.http_route(service),
        parent_refs=parent_refs,
        hostnames=None if given.hostnames is None else tuple(given.hostnames),
        rules=tuple(
            _rule(service, namespace, rule, implementation) for rule in given.rules or ({},)
        ),
        use_default_gateways=given.use_default_gateways,
        split=_split(service, given),
    )


def route_findings(
    position: int,
    args: RoleArgs,
    route: RoutePlan | None,
    implementation: Implementation | None,
) -> Iterator[Finding]:
    """What is to be said about the route.

    Args:
        position: Index of the router in the spec.
        args: The router role.
        route: The route, None where there is none.
        implementation: What is known of the gateway.

    Yields:
        Findings; repairs are `info`.
    """
    at = join("roles", position, "httproute")
    if route is None:
        if args.httproute is not None and args.httproute.elsewhere is not None:
            return
        yield warning(
            "route-missing",
            parse_path(at),
            "neither a route nor a Gateway is asked for: no HTTPRoute is made, and no request "
            "finds the pool; give httproute, gateway.refs or gateway: {}",
        )
        return
    if not route.parent_refs and not route.use_default_gateways:
        yield warning(
            "route-without-gateway",
            parse_path(f"{at}.parentRefs"),
            "name no Gateway: the route takes no requests; give them, gateway.refs or gateway: {}",
        )
    for index, rule in enumerate(route.rules):
        here = f"{at}.rules[{index}]"
        for backend in sorted(rule.repaired):
            told = rule.given["backendRefs"][backend]
            yield info(
                f"{here}.backendRefs[{backend}]",
                f"there is no {told.get('kind', 'Service')} {told['name']}: the name is that of "
                f"the service's {names.POOL_KIND}, to which it is corrected",
            )
        if implementation is None:
            continue
        if rule.given.get("timeouts") and not implementation.route_timeouts:
            yield warning(
                f"{here}.timeouts",
                f"{implementation.name} takes no timeouts in routes; remove them",
            )


def _split(service: str, given: HttpRouteArgs) -> tuple[tuple[str, int], ...]:
    shares = given.split or ()
    own = 100 - sum(share.weight for share in shares)
    others = ((names.inference_pool(share.service), share.weight) for share in shares)
    return ((names.inference_pool(service), own), *others) if shares else ()


def _rule(
    service: str,
    namespace: Any,
    given: Mapping[str, Any],
    implementation: Implementation | None,
) -> RulePlan:
    backends: Sequence[Mapping[str, Any]] = given.get("backendRefs") or ()
    # A redirect answers by itself, and the Gateway API forbids it any backend.
    completed = not backends and not _redirects(given)
    pool = names.inference_pool(service)
    repaired = frozenset(
        index
        for index, ref in enumerate(backends)
        if ref["name"] == pool
        and same(ref.get("namespace", namespace), namespace)
        and not is_pool(ref)
        and _meant_pool(ref)
    )
    ours = completed or any(
        index in repaired or (is_pool(ref) and ref["name"] == pool)
        for index, ref in enumerate(backends)
    )
    limited = "request" in (given.get("timeouts") or {})
    takes_timeouts = implementation is None or implementation.route_timeouts
    return RulePlan(
        given=given,
        completed=completed,
        repaired=repaired,
        request_timeout=STREAMING if ours and takes_timeouts and not limited else None,
    )


def _redirects(rule: Mapping[str, Any]) -> bool:
    return any(item.get("type") == "RequestRedirect" for item in rule.get("filters") or ())


def is_pool(ref: Mapping[str, Any]) -> bool:
    """Tells whether a backend is an InferencePool, of whatever service."""
    return ref.get("kind") == names.POOL_KIND and ref.get("group") == names.POOL_GROUP


def _meant_pool(ref: Mapping[str, Any]) -> bool:
    if ref.get("kind", "Service") == "Service":
        return not ref.get("group")
    return ref["kind"] == names.POOL_KIND and ref.get("group", "") in _OLD_GROUPS


_NOT_NAMED = (
    "lead to several InferencePools: agentgateway (1.0) and NGINX Gateway Fabric (2.3) split such "
    "requests; Istio to 1.30 asks one picker for all of them, Envoy AI Gateway to 1.1 takes one "
    "pool in a rule; gateway.implementation says which gateway it is"
)
_ONE_PICKER = (
    "lead to several InferencePools: the shares hold, but {name} to 1.30 asks the picker of one "
    "pool for all of the rule's requests, and where that pool has no ready pod all of them fail "
    "(istio#61594)"
)


def several_pools_findings(
    position: int,
    route: RoutePlan | None,
    implementation: Implementation | None,
) -> Iterator[Finding]:
    """Says what is wrong with shares, and what the gateway makes of several pools.

    Args:
        position: Index of the router in the spec.
        route: The route, None where there is none.
        implementation: What is known of the gateway.
    """
    at = join("roles", position, "httproute")
    if route is None:
        return
    if route.split:
        yield from _split_findings(f"{at}.split", route)
        if implementation is not None and implementation.several_pools is SeveralPools.NO:
            yield error(
                f"{at}.split",
                f"{implementation.name} takes one InferencePool in a rule; give the other service "
                "a route of its own, by a header or a host name",
            )
        elif any(rule.completed for rule in route.rules):
            yield from _several(f"{at}.split", implementation)
    for index, rule in enumerate(route.rules):
        pools = [ref for ref in rule.given.get("backendRefs") or () if is_pool(ref)]
        if len(pools) + len(rule.repaired) > 1:
            yield from _several(f"{at}.rules[{index}].backendRefs", implementation)


def _split_findings(at: str, route: RoutePlan) -> Iterator[Finding]:
    (own, _), *others = route.split
    for index, (pool, _) in enumerate(others):
        if pool == own:
            yield error(f"{at}[{index}].service", "is this service, which gets the rest anyway")
    if not any(rule.completed for rule in route.rules):
        yield error(at, "has no effect: every rule has backendRefs of its own; write weights there")


def _several(at: str, implementation: Implementation | None) -> Iterator[Finding]:
    if implementation is None:
        yield warning(at, _NOT_NAMED)
    elif implementation.several_pools is SeveralPools.NO:
        yield warning(at, f"{implementation.name} takes one InferencePool in a rule")
    elif implementation.several_pools is SeveralPools.ONE_PICKER:
        yield warning(at, _ONE_PICKER.format(name=implementation.name))
    elif implementation.several_pools is SeveralPools.UNKNOWN:
        yield warning(
            at,
            "lead to several InferencePools: what becomes of that is not known of "
            f"{implementation.name}",
        )


API_VERSION = "gateway.networking.k8s.io/v1"

#: What a backend keeps that is corrected to the pool; its port and kind were those of a Service.
_KEPT = ("weight", "filters")


def http_route(plan: ServiceMeta, router: RouterPlan, route: RoutePlan) -> Manifest:
    """Builds the HTTPRoute."""
    spec: dict[str, Any] = {}
    if route.parent_refs is not None:
        spec["parentRefs"] = list(route.parent_refs)
    if route.use_default_gateways is not None:
        spec["useDefaultGateways"] = route.use_default_gateways
    if route.hostnames is not None:
        spec["hostnames"] = list(route.hostnames)
    spec["rules"] = [_route_rule(router, route, rule) for rule in route.rules]
    return {
        "apiVersion": API_VERSION,
        "kind": "HTTPRoute",
        "metadata": router_metadata(plan, router, route.name),
        "spec": spec,
    }


def _route_rule(router: RouterPlan, route: RoutePlan, rule: RulePlan) -> Manifest:
    built = dict(rule.given)
    if rule.completed and route.split:
        built["backendRefs"] = [
            {**pool_target(router), "name": pool, "weight": weight} for pool, weight in route.split
        ]
    elif rule.completed:
        built["backendRefs"] = [pool_target(router)]
    elif rule.repaired:
        built["backendRefs"] = [
            _repaired(router, backend) if index in rule.repaired else backend
            for index, backend in enumerate(rule.given["backendRefs"])
        ]
    if rule.request_timeout is not None:
        built["timeouts"] = {"request": rule.request_timeout, **(rule.given.get("timeouts") or {})}
    return built


def _repaired(router: RouterPlan, backend: Manifest) -> Manifest:
    return {**pool_target(router), **{key: backend[key] for key in _KEPT if key in backend}}
