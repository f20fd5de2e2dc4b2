"""Checks of routes and Gateways: pools, listeners, attached routes, NetworkPolicies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.api.service_shape import is_prefill_decode, serving_roles
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    warning,
)
from fusioninfer_pulumi.routing.gateway_implementations import (
    Implementation,
    SeveralPools,
)
from fusioninfer_pulumi.routing.pool import is_pool
from fusioninfer_pulumi.routing.routing_plan import Routing

ROUTE_WITHOUT_GATEWAY = Rule("route-without-gateway")


SERVING_PORTS_DIFFER = Rule("serving-ports-differ")
SEVERAL_POOLS_UNSUPPORTED = Rule("several-pools-unsupported")
REFERENCE_GRANT_MISSING = Rule("reference-grant-missing")
ROLE_WITHOUT_REQUESTS = Rule("role-without-requests")
DISAGGREGATION_ROLE_MISSING = Rule("disaggregation-role-missing")
ROUTE_MISSING = Rule("route-missing")
NETWORK_POLICY = Rule("network-policy")


def route_findings(parts: Routing) -> Iterator[Finding]:
    """Check that there is a route, and that it attaches to a Gateway."""
    args, route, field = parts.args, parts.route, (*parts.at, "httproute")
    if route is None:
        if args.httproute is None or args.httproute.external_field is None:
            yield warning(
                ROUTE_MISSING,
                field,
                "neither a route nor a Gateway is set: no HTTPRoute is created, and no request "
                f"{'reaches the pool' if parts.args.picks_endpoints else 'comes by a gateway'}; "
                "set httproute, gateway.refs or gateway: {}",
            )
        return
    if not route.parent_refs and not route.use_default_gateways:
        yield warning(
            ROUTE_WITHOUT_GATEWAY,
            (*field, "parentRefs"),
            "name no Gateway, so the route receives no requests; set them, gateway.refs or "
            "gateway: {}",
        )


def network_policy_findings(parts: Routing) -> Iterator[Finding]:
    """Check that NetworkPolicies allow the gateway's proxies and Prometheus.

    These are errors, because omitting a policy would give everybody access without notice.
    """
    field, args = (*parts.at, "networkPolicy"), parts.args.network_policy
    plan = parts.network_policy
    if plan is None:
        is_default = args is None and parts.is_routed and parts.implementation.proxies is not None
        if is_default or (args is not None and args.enabled):
            refs = ", or name the Gateway in gateway.refs" if is_default else ""
            yield error(
                NETWORK_POLICY,
                field,
                "the location of the gateway's proxies is unknown; set gatewayNamespace or gateway"
                f"{refs}; enabled: false allows all",
            )
    elif parts.spec.monitoring is not None and not plan.metrics:
        yield error(
            NETWORK_POLICY,
            field,
            "blocks Prometheus, which monitoring needs; set metrics to the NetworkPolicyPeers "
            "that read metrics, or enabled: false to allow all",
        )


def several_pools_findings(parts: Routing) -> Iterator[Finding]:
    """Check `split` and rules with several pools against the Gateway's implementation."""
    at, route, implementation = parts.at, parts.route, parts.implementation
    if route is None:
        return
    if route.split:
        split = (*at, "httproute", "split")
        if implementation.several_pools is SeveralPools.NO:
            yield error(
                SEVERAL_POOLS_UNSUPPORTED,
                split,
                f"{implementation.name} allows one InferencePool in a rule; give the other "
                "service its own route, by a header or a host name",
            )
        elif route.splits:
            yield from _several_pools(split, implementation)
    for index, rule in enumerate(route.rules):
        if sum(is_pool(ref) for ref in rule.backends) + len(rule.corrected) > 1:
            field = (*at, "httproute", "rules", index, "backendRefs")
            yield from _several_pools(field, implementation)


#: Warnings about rules with several pools; `{name}` is the Gateway's implementation.
_SEVERAL_POOLS = {
    SeveralPools.UNKNOWN: "name several InferencePools: agentgateway (1.0) and NGINX Gateway "
    "Fabric (2.3) split such requests; Istio to 1.30 asks one picker for all of them, Envoy AI "
    "Gateway to 1.1 allows one pool in a rule",
    SeveralPools.NO: "{name} allows one InferencePool in a rule",
    SeveralPools.ONE_EPP: "name several InferencePools: the shares hold, but {name} to 1.30 "
    "asks the endpoint picker of one pool for all of the rule's requests, "
    "and all fail if that pool has no ready pod (istio#61594)",
    SeveralPools.UNTESTED: "name several InferencePools: untested with {name}",
}


def _several_pools(at: Location, implementation: Implementation) -> Iterator[Finding]:
    message = _SEVERAL_POOLS.get(implementation.several_pools)
    if message is not None:
        yield warning(SEVERAL_POOLS_UNSUPPORTED, at, message.format(name=implementation.name))


def pool_findings(parts: Routing) -> Iterator[Finding]:
    """Report serving roles that are not in the pool, and ports that differ within the pool."""
    at, declared, served = parts.at, parts.spec.roles, parts.served
    intent = parts.intent
    if not parts.args.picks_endpoints:
        return
    field = (*at, "strategy" if intent.strategy is not None else "endpointPickerConfig")
    in_pool = {role.name for role in served}
    idle_roles = [role for role in serving_roles(declared) if role.name not in in_pool]
    if intent.strategy is Strategy.PD_DISAGGREGATION:
        yield from _disaggregation_findings(field, declared)
    elif idle_roles:
        idle = ", ".join(f"{role.name} ({role.component_type.value})" for role in idle_roles)
        to = ", ".join(role.name for role in served)
        yield warning(
            ROLE_WITHOUT_REQUESTS,
            field,
            f"requests go to {to} only, {idle} gets none: "
            + (
                f"choose {Strategy.PD_DISAGGREGATION.value} to pair prefill with decode"
                if is_prefill_decode(declared)
                else "a prefill pod returns only one token"
            ),
        )
    if len({role.pods.ports for role in served}) > 1:
        ports = ", ".join(f"{role.name} {role.pods.ports_text}" for role in served)
        single = all(role.pods.rank_ports == 1 for role in served)
        expected = "one port" if single else "the same ports"
        yield error(
            SERVING_PORTS_DIFFER,
            at,
            f"pods of a pool must serve on {expected}, got {ports}; give the roles {expected}",
        )
    target_ports = parts.args.pool.target_ports if parts.args.pool is not None else None
    for role in served:
        if target_ports is not None and role.pods.port not in target_ports:
            message = f"do not contain {role.pods.port}, on which {role.name} serves; add it, or "
            message += "set the role's port"
            yield error(SERVING_PORTS_DIFFER, (*at, "pool", "targetPorts"), message)


def _disaggregation_findings(field: Location, declared: Sequence[RoleArgs]) -> Iterator[Finding]:
    types = {role.component_type for role in serving_roles(declared)}
    missing = [
        kind.value for kind in (ComponentType.PREFILLER, ComponentType.DECODER) if kind not in types
    ]
    workers = [role.name for role in declared if role.component_type is ComponentType.WORKER]
    if missing:
        yield error(
            DISAGGREGATION_ROLE_MISSING,
            field,
            f"{Strategy.PD_DISAGGREGATION.value} requires a prefiller and a decoder; there is no "
            f"{' and no '.join(missing)}",
        )
    elif workers:
        yield warning(
            ROLE_WITHOUT_REQUESTS,
            field,
            f"requests go to prefillers and decoders only, {', '.join(workers)} (worker) gets none",
        )


def grant_findings(parts: Routing) -> Iterator[Finding]:
    """Check that routes to other namespaces have a ReferenceGrant."""
    if parts.args.reference_grants:
        return
    for grant in parts.grants:
        yield warning(
            REFERENCE_GRANT_MISSING,
            grant.at,
            f"{grant.to_kind} {grant.to_name} is in another namespace than the {grant.from_kind}, "
            "which requires a ReferenceGrant there; referenceGrants: true creates it",
        )


Check = Callable[[Routing], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    pool_findings,
    route_findings,
    several_pools_findings,
    network_policy_findings,
    grant_findings,
)
