"""Plans the HTTPRoute: the user's spec kept whole, and led to the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import names
from fusioninfer_pulumi.findings import Finding, info, join, warning
from fusioninfer_pulumi.plan.routing.gateway import same
from fusioninfer_pulumi.plan.routing.implementations import Implementation
from fusioninfer_pulumi.plan.routing.records import RoutePlan, RulePlan
from fusioninfer_pulumi.spec.role import RoleArgs
from fusioninfer_pulumi.spec.router import HttpRouteArgs

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
            at,
            "neither a route nor a Gateway is asked for: no HTTPRoute is made, and no request "
            "finds the pool; give httproute, gateway.refs or gateway: {}",
        )
        return
    if not route.parent_refs and not route.use_default_gateways:
        yield warning(
            f"{at}.parentRefs",
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
