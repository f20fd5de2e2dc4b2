"""What there is to say about rules that lead to several InferencePools."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, error, join, warning
from fusioninfer_pulumi.plan.routing.implementations import Implementation, SeveralPools
from fusioninfer_pulumi.plan.routing.records import RoutePlan
from fusioninfer_pulumi.plan.routing.route import is_pool

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
        yield from _split(f"{at}.split", route)
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


def _split(at: str, route: RoutePlan) -> Iterator[Finding]:
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
