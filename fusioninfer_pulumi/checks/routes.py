"""Checks of routes: the pool that they lead to, what the gateway takes, and what may attach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.api.topology import is_prefill_decode, serving
from fusioninfer_pulumi.checks.gateways import (
    ROUTE_WITHOUT_GATEWAY,
    failure_mode_findings,
    gateway_findings,
    route_attachment_findings,
)
from fusioninfer_pulumi.checks.pods.kv_transfer import POOL_PODS_SERVE_HTTPS
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, warning
from fusioninfer_pulumi.kube import names
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.gateways import Implementation, SeveralPools
from fusioninfer_pulumi.routing.pool import is_pool
from fusioninfer_pulumi.routing.router import Routing
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_WITHOUT_EFFECT,
    NAME_TOO_LONG,
    OUTPUT_NOT_ALLOWED,
)
from fusioninfer_pulumi.topology.role import RolePlan

SERVING_PORTS_DIFFER = Rule(
    "serving-ports-differ",
    ("warning", "error"),
    "The roles behind one Service or pool serve on the same ports.",
    remedy="Give them the same ports.",
)

SEVERAL_POOLS_UNSUPPORTED = Rule(
    "several-pools-unsupported",
    ("error", "warning"),
    "The gateway takes several pools in a rule, and asks the picker of each.",
    remedy="Give the other service a route of its own.",
)
SPLIT_TO_ITSELF = Rule(
    "split-to-itself",
    "error",
    "A service names another one, not itself, in `split` and `routedBy`.",
    remedy="Remove it.",
)


REFERENCE_GRANT_MISSING = Rule(
    "reference-grant-missing",
    "warning",
    "A route that leads to another namespace has a ReferenceGrant there.",
    remedy="Set `referenceGrants: true`, or create it.",
    source="https://gateway-api.sigs.k8s.io/api-types/referencegrant/",
)

ROLE_WITHOUT_REQUESTS = Rule(
    "role-without-requests",
    "warning",
    "Every serving role gets requests.",
    remedy="Choose a strategy that uses it, or remove the role.",
)
DISAGGREGATION_ROLE_MISSING = Rule(
    "disaggregation-role-missing",
    "error",
    "`pd-disaggregation` has a prefiller and a decoder.",
    remedy="Add the role, or choose another strategy.",
)

ROUTE_MISSING = Rule(
    "route-missing",
    "warning",
    "A service with a router has a route.",
    remedy="Add `httproute`, `gateway.refs` or `gateway: {}`.",
)
BACKEND_KIND_CORRECTED = Rule(
    "backend-kind-corrected",
    "info",
    "A backend of the service's pool has kind InferencePool.",
    remedy="Write `kind: InferencePool`.",
)
ROUTE_TIMEOUTS_UNSUPPORTED = Rule(
    "route-timeouts-unsupported",
    "warning",
    "The gateway takes timeouts in routes.",
    remedy="Remove them.",
)


NETWORK_POLICY = Rule(
    "network-policy",
    "error",
    "NetworkPolicies keep out the gateway or Prometheus.",
    remedy="Set `networkPolicy`.",
)


def route_findings(parts: Routing) -> Iterator[Finding]:
    """Checks the route for parents and timeouts, and says which backends are corrected.

    `at` is the location of the router role, as in all checks of routes.
    """
    at, args, route, implementation = parts.at, parts.args, parts.route, parts.implementation
    field = (*at, "httproute")
    if route is None:
        if args.httproute is None or args.httproute.external_field is None:
            yield warning(
                ROUTE_MISSING,
                field,
                "neither a route nor a Gateway is asked for: no HTTPRoute is made, and no request "
                f"{'finds the pool' if parts.args.picks_endpoints else 'comes through a gateway'}; "
                "give httproute, gateway.refs or gateway: {}",
            )
        return
    if not route.parent_refs and not route.use_default_gateways:
        yield warning(
            ROUTE_WITHOUT_GATEWAY,
            (*field, "parentRefs"),
            "name no Gateway: the route takes no requests; give them, gateway.refs or gateway: {}",
        )
    for index, rule in enumerate(route.rules):
        for number, ref in enumerate(rule.backends):
            place = (*field, "rules", index, "backendRefs", number)
            if number in rule.corrected:
                yield info(
                    BACKEND_KIND_CORRECTED,
                    place,
                    f"there is no {ref.get('kind', 'Service')} {ref['name']}: the name is that of "
                    f"the service's {names.POOL_KIND}, to which it is corrected",
                )
        if rule.written.get("timeouts") and not implementation.route_timeouts:
            yield warning(
                ROUTE_TIMEOUTS_UNSUPPORTED,
                (*field, "rules", index, "timeouts"),
                f"{implementation.name} takes no timeouts in routes; remove them",
            )


def external_route_findings(parts: Routing) -> Iterator[Finding]:
    """Rejects a service that names itself in `routedBy`."""
    at, service = parts.at, parts.service
    route = parts.args.httproute
    if route is None or route.external_field is None:
        return
    field = (*at, "httproute", route.external_field)
    if route.routed_by == service:
        yield error(
            SPLIT_TO_ITSELF,
            field,
            "is this service, and no route is made then; remove it, or name the one whose route "
            "leads here",
        )


def network_policy_findings(parts: Routing) -> Iterator[Finding]:
    """Checks that NetworkPolicies let in the gateway's proxies and the readers of metrics.

    No other field removes policies: who reaches the pods would change unnoticed.
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
                f"it is not known where the gateway's proxies run; set gatewayNamespace or gateway"
                f"{refs}; enabled: false lets everybody in",
            )
    elif parts.spec.monitoring is not None and not plan.metrics:
        yield error(
            NETWORK_POLICY,
            field,
            "keeps Prometheus out, which monitoring needs; set metrics to the NetworkPolicyPeers "
            "that read metrics; enabled: false lets everybody in",
        )


def several_pools_findings(parts: Routing) -> Iterator[Finding]:
    """Checks `split`, and every rule that leads to several pools against the implementation."""
    at, route, implementation = parts.at, parts.route, parts.implementation
    if route is None:
        return
    if route.split:
        split = (*at, "httproute", "split")
        (own_pool, _), *others = route.split
        for index, (pool, _) in enumerate(others):
            if pool == own_pool:
                yield error(
                    SPLIT_TO_ITSELF,
                    (*split, index, "service"),
                    "is this service, which gets the rest anyway",
                )
        if not route.splits:
            yield error(
                FIELD_WITHOUT_EFFECT,
                split,
                "has no effect: every rule has backendRefs of its own; write weights there",
            )
        if implementation.several_pools is SeveralPools.NO:
            yield error(
                SEVERAL_POOLS_UNSUPPORTED,
                split,
                f"{implementation.name} takes one InferencePool in a rule; give the other service "
                "a route of its own, by a header or a host name",
            )
        elif route.splits:
            yield from _several_pools(split, implementation)
    for index, rule in enumerate(route.rules):
        if sum(is_pool(ref) for ref in rule.backends) + len(rule.corrected) > 1:
            field = (*at, "httproute", "rules", index, "backendRefs")
            yield from _several_pools(field, implementation)


def _several_pools(at: Location, implementation: Implementation) -> Iterator[Finding]:
    """At most one warning about a rule that leads to several pools."""
    name, treatment = implementation.name, implementation.several_pools
    if treatment is SeveralPools.UNKNOWN:
        yield warning(
            SEVERAL_POOLS_UNSUPPORTED,
            at,
            "lead to several InferencePools: agentgateway (1.0) and NGINX Gateway Fabric (2.3) "
            "split such requests; Istio to 1.30 asks one picker for all of them, Envoy AI Gateway "
            "to 1.1 takes one pool in a rule",
        )
    elif treatment is SeveralPools.NO:
        yield warning(SEVERAL_POOLS_UNSUPPORTED, at, f"{name} takes one InferencePool in a rule")
    elif treatment is SeveralPools.ONE_EPP:
        yield warning(
            SEVERAL_POOLS_UNSUPPORTED,
            at,
            f"lead to several InferencePools: the shares hold, but {name} to 1.30 asks the picker "
            "of one pool for all of the rule's requests, and where that pool has no ready pod all "
            "of them fail (istio#61594)",
        )
    elif treatment is SeveralPools.UNTESTED:
        yield warning(
            SEVERAL_POOLS_UNSUPPORTED,
            at,
            f"lead to several InferencePools: what becomes of that is not known of {name}",
        )


def pool_findings(parts: Routing) -> Iterator[Finding]:
    """Checks the declared roles against the pool, which holds the pods of the `served` ones."""
    at, declared, served = parts.at, parts.spec.roles, parts.served
    intent = parts.intent
    if not parts.args.picks_endpoints:
        why = "a gateway speaks plain HTTP to a Service without a BackendTLSPolicy"
        yield from _https_findings(served, why)
        return
    field = (*at, "strategy" if intent.strategy is not None else "endpointPickerConfig")
    names_served = {role.name for role in served}
    left_out = [role for role in serving(declared) if role.name not in names_served]
    if intent.strategy is Strategy.PD_DISAGGREGATION:
        yield from _disaggregation_findings(field, declared)
    elif left_out:
        idle = ", ".join(f"{role.name} ({role.component_type.value})" for role in left_out)
        to = ", ".join(role.name for role in served)
        yield warning(
            ROLE_WITHOUT_REQUESTS,
            field,
            f"requests go to {to} only, {idle} gets none: "
            + (
                f"choose {Strategy.PD_DISAGGREGATION.value} to pair prefill with decode"
                if is_prefill_decode(declared)
                else "a prefill pod answers with one token only"
            ),
        )
    if len({role.pods.ports for role in served}) > 1:
        ports = ", ".join(f"{role.name} {role.pods.ports_text}" for role in served)
        single = all(role.pods.rank_ports == 1 for role in served)
        same = "one port" if single else "the same ports"
        yield error(
            SERVING_PORTS_DIFFER,
            at,
            f"the pods of a pool serve on {same}, the roles on different ones ({ports}); give "
            f"them {same}",
        )
    elif parts.args.pool is not None and parts.args.pool.target_ports is not None:
        yield from _target_ports((*at, "pool", "targetPorts"), parts.args.pool.target_ports, served)
    yield from _https_findings(served, "gateway and picker speak plain HTTP to the pods of a pool")


def _https_findings(served: Sequence[RolePlan], why: str) -> Iterator[Finding]:
    """Warns of engines with a certificate of their own."""
    for role in served:
        if role.pods.command.serves_https:
            message = f"serves HTTPS, but {why}; end TLS at the Gateway"
            yield warning(POOL_PODS_SERVE_HTTPS, ("roles", role.position), message)


def _target_ports(
    at: Location, ports: Sequence[int], served: Sequence[RolePlan]
) -> Iterator[Finding]:
    """Checks target ports of the user's own against what listens in the pods."""
    for index, port in enumerate(ports):
        if port in ports[:index]:
            yield error(DUPLICATE_NAME, (*at, index), f"{port} is named twice; remove one")
    for role in served:
        sidecar = role.pods.kv.sidecar if role.pods.kv is not None else None
        if role.pods.port not in ports:
            yield error(
                SERVING_PORTS_DIFFER,
                at,
                f"leave out {role.pods.port}, on which {role.name} serves; add it, or set the "
                "role's port",
            )
        elif sidecar is not None and set(ports) != set(sidecar.ports):
            yield error(
                SERVING_PORTS_DIFFER,
                at,
                f"name other ports than the sidecar of {role.name} listens on "
                f"({', '.join(map(str, sidecar.ports))}); remove this, and set "
                "parallelism.portPerRank or the sidecar's --data-parallel-size",
            )


def _disaggregation_findings(field: Location, declared: Sequence[RoleArgs]) -> Iterator[Finding]:
    types = {role.component_type for role in serving(declared)}
    missing = [
        kind.value for kind in (ComponentType.PREFILLER, ComponentType.DECODER) if kind not in types
    ]
    workers = [role.name for role in declared if role.component_type is ComponentType.WORKER]
    if missing:
        yield error(
            DISAGGREGATION_ROLE_MISSING,
            field,
            f"{Strategy.PD_DISAGGREGATION.value} needs a prefiller and a decoder; there is no "
            f"{' and no '.join(missing)}",
        )
    elif workers:
        yield warning(
            ROLE_WITHOUT_REQUESTS,
            field,
            f"requests go to prefillers and decoders only, {', '.join(workers)} (worker) gets none",
        )


def grant_findings(parts: Routing) -> Iterator[Finding]:
    """One warning for each grant that is not created, one error for each that has no name."""
    namespace, needed = parts.spec.namespace, parts.grants
    created = bool(parts.args.reference_grants)
    for grant in needed:
        if grant.from_namespace is not namespace:
            if not created:
                yield warning(
                    REFERENCE_GRANT_MISSING,
                    grant.at,
                    f"routes of namespace {grant.from_namespace} may not lead to {grant.to_kind} "
                    f"{grant.to_name} without a ReferenceGrant beside it; referenceGrants: true "
                    "creates it",
                )
        elif created and is_output(namespace):
            yield error(
                OUTPUT_NOT_ALLOWED,
                grant.at,
                "the ReferenceGrant's name is made of the service's namespace, which must be a "
                "plain value for that, got a pulumi Output",
            )
        elif not created:
            yield warning(
                REFERENCE_GRANT_MISSING,
                grant.at,
                f"{grant.to_kind} {grant.to_name} is in namespace {grant.namespace}: that needs a "
                f"ReferenceGrant there, from {grant.from_kind} in the service's namespace; "
                "referenceGrants: true creates it",
            )


def name_findings(parts: Routing) -> Iterator[Finding]:
    """One error about names that become label values, which end at 63 characters."""
    service, gateway = parts.service, parts.gateway
    derived = []
    if parts.args.picks_endpoints:
        derived.append(("endpoint picker", names.endpoint_picker(service)))
    if gateway is not None:
        derived.append(("Gateway", gateway.name))
    at: Location = ("metadata", "name")
    for what, name in derived:
        if len(name) > names.DNS_LABEL_LIMIT:
            yield error(
                NAME_TOO_LONG,
                at,
                f'the name of the {what} "{name}" has {len(name)} characters, of at most '
                f"{names.DNS_LABEL_LIMIT}; shorten the service's by "
                f"{len(name) - names.DNS_LABEL_LIMIT}",
            )
            return


Check = Callable[[Routing], Iterable[Finding]]

CHECKS: tuple[Check, ...] = (
    pool_findings,
    failure_mode_findings,
    gateway_findings,
    route_findings,
    external_route_findings,
    several_pools_findings,
    network_policy_findings,
    route_attachment_findings,
    grant_findings,
    name_findings,
)
