"""Checks of routes, Gateways, NetworkPolicies and endpoint pickers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.api.service_shape import is_disaggregated, list_serving_roles
from fusioninfer_pulumi.endpoint_pickers.picker_config import (
    LOAD_SCORERS,
    OWNED_FLAGS,
    SCORERS,
    STRATEGIES,
    ConfigNotYamlError,
    EppSettings,
    build_pairing_plugins,
    can_read_metrics,
    find_load_scorers,
    parse_epp_config,
)
from fusioninfer_pulumi.endpoint_pickers.picker_families import (
    EPP_CONFIG_KIND,
    FAMILIES,
    EppFamily,
    find_closest_image,
    find_family,
)
from fusioninfer_pulumi.findings import (
    DOCS_URL,
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    quote_value,
    warning,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.routing.epp import EppPlan
from fusioninfer_pulumi.routing.gateway_implementations import IMPLEMENTATIONS, SeveralPools
from fusioninfer_pulumi.routing.pool import is_pool
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.rules.common import (
    ENGINE_WITHOUT_METRICS,
    FIELD_REQUIRED,
    FIELDS_EXCLUDE_EACH_OTHER,
    OUT_OF_RANGE,
    RELEASE_WITHOUT_FEATURE,
    SET_BY_LIBRARY,
    UNKNOWN_VALUE,
)

ROUTE_WITHOUT_GATEWAY = Rule("route-without-gateway")
SERVING_PORTS_DIFFER = Rule("serving-ports-differ")
SEVERAL_POOLS_UNSUPPORTED = Rule("several-pools-unsupported")
REFERENCE_GRANT_MISSING = Rule("reference-grant-missing")
ROLE_WITHOUT_REQUESTS = Rule("role-without-requests")
DISAGGREGATION_ROLE_MISSING = Rule("disaggregation-role-missing")
ROUTE_MISSING = Rule("route-missing")
NETWORK_POLICY = Rule("network-policy")


def check_http_route(routing: Routing) -> Iterator[Finding]:
    """Warn about a missing route, or a route that attaches to no Gateway."""
    router, route, field = routing.router, routing.route, (*routing.location, "httproute")
    if route is None:
        if not router.is_routed_externally:
            effect = "reaches the pool" if router.has_endpoint_picker else "uses a gateway"
            message = (
                "neither a route nor a Gateway is set: no HTTPRoute is created, and no request "
                f"{effect}; set httproute, gateway.refs or gateway: {{}}"
            )
            yield warning(ROUTE_MISSING, field, message)
        return
    if not route.parent_refs and not route.use_default_gateways:
        message = (
            "the route names no Gateway and receives no requests; set parentRefs, gateway.refs or "
            "gateway: {}"
        )
        yield warning(ROUTE_WITHOUT_GATEWAY, (*field, "parentRefs"), message)


def check_network_policies(routing: Routing) -> Iterator[Finding]:
    """Check that NetworkPolicies allow the gateway's proxies and Prometheus.

    A policy that cannot be created, because the location of the gateway's proxies is unknown, is an
    error: without it every pod may send requests.
    """
    field, args = (*routing.location, "networkPolicy"), routing.router.network_policy
    plan = routing.network_policy
    if plan is None:
        # Without `networkPolicy`, policies are created only for gateways with `build_peers`.
        has_default = args is None and routing.implementation.build_peers is not None
        if has_default or (args is not None and args.enabled):
            refs = ", gateway.refs" if has_default else ""
            message = (
                "the location of the gateway's proxies is unknown; set networkPolicy."
                f"gatewayNamespace, networkPolicy.gateway{refs}, or networkPolicy.enabled: false "
                "to create no NetworkPolicies"
            )
            yield error(NETWORK_POLICY, field, message)
    elif routing.spec.monitoring is not None and not plan.metrics:
        message = (
            "blocks Prometheus, which monitoring needs; set metrics to the NetworkPolicyPeers "
            "that read metrics, or enabled: false to create no NetworkPolicies"
        )
        yield error(NETWORK_POLICY, field, message)


def check_implementation(routing: Routing) -> Iterator[Finding]:
    """Warn about an unknown implementation, but only if its name looks misspelled."""
    gateway = routing.router.gateway
    if gateway is None or gateway.implementation in (None, *IMPLEMENTATIONS):
        return
    # With a lower cutoff, `envoy-gateway` and `kgateway` would count as misspelled.
    closest = closest_name(str(gateway.implementation), IMPLEMENTATIONS, cutoff=0.9)
    if closest is not None:
        message = f"is unknown, so the library adds no objects for it; did you mean {closest}?"
        yield warning(UNKNOWN_VALUE, (*routing.location, "gateway", "implementation"), message)


def check_several_pools(routing: Routing) -> Iterator[Finding]:
    """Check whether the Gateway's implementation supports `split` and rules with several pools."""
    route, implementation = routing.route, routing.implementation
    template = _SEVERAL_POOLS_MESSAGES.get(implementation.several_pools)
    if route is None or template is None:
        return
    message = template.format(name=implementation.name)
    is_rejected = implementation.several_pools is SeveralPools.NO
    # A `split` that no rule uses (`has_split`) is an error if rejected, but no reason to warn.
    if route.split and (is_rejected or route.has_split):
        make_finding = error if is_rejected else warning
        yield make_finding(
            SEVERAL_POOLS_UNSUPPORTED, (*routing.location, "httproute", "split"), message
        )
    for index, rule in enumerate(route.rules):
        # Backends in `corrected` are replaced by the service's pool.
        if sum(is_pool(ref) for ref in rule.backends) + len(rule.corrected) > 1:
            field = (*routing.location, "httproute", "rules", index, "backendRefs")
            yield warning(SEVERAL_POOLS_UNSUPPORTED, field, message)


#: Messages about rules with several pools; `{name}` is the Gateway's implementation.
_SEVERAL_POOLS_MESSAGES = {
    SeveralPools.UNKNOWN: "a rule with several InferencePools works with agentgateway (1.0) and "
    "NGINX Gateway Fabric (2.3), but not with Istio up to 1.30 and Envoy AI Gateway up to 1.1; "
    "check that your gateway supports it",
    SeveralPools.NO: "{name} allows one InferencePool in a rule; give the other service its own "
    "route, by a header or a host name",
    SeveralPools.ONE_EPP: "{name} up to 1.30 asks only the endpoint picker of one pool for a rule "
    "with several InferencePools: all requests fail if that pool has no ready pod (istio#61594); "
    "use agentgateway or NGINX Gateway Fabric",
    SeveralPools.UNTESTED: "a rule with several InferencePools is untested with {name}",
}


def check_pool(routing: Routing) -> Iterator[Finding]:
    """Report serving roles that are not in the pool, and ports that differ within the pool."""
    location, spec_roles, pool_roles = routing.location, routing.spec.roles, routing.backend_roles
    epp_choice, pool = routing.epp_choice, routing.router.pool
    if not routing.router.has_endpoint_picker:
        return
    field = (*location, "strategy" if epp_choice.strategy is not None else "endpointPickerConfig")
    pool_role_names = {role.name for role in pool_roles}
    idle_roles = [
        role for role in list_serving_roles(spec_roles) if role.name not in pool_role_names
    ]
    if epp_choice.strategy is Strategy.PD_DISAGGREGATION:
        yield from _check_disaggregation(field, spec_roles)
    elif idle_roles:
        idle_text = ", ".join(f"{role.name} ({role.component_type.value})" for role in idle_roles)
        serving = ", ".join(role.name for role in pool_roles)
        explanation = "add a decoder, because prefill pods only process prompts"
        if is_disaggregated(spec_roles):
            explanation = f"use {Strategy.PD_DISAGGREGATION.value} to pair prefill with decode"
        message = f"no requests go to {idle_text}, all to {serving}; {explanation}"
        yield warning(ROLE_WITHOUT_REQUESTS, field, message)
    if len({role.pods.ports for role in pool_roles}) > 1:
        ports = ", ".join(f"{role.name} {role.pods.ports_text}" for role in pool_roles)
        has_one_port = all(role.pods.command.port_count == 1 for role in pool_roles)
        expected = "one port" if has_one_port else "the same ports"
        message = f"roles of one pool must serve on {expected}, got {ports}; change the ports"
        yield error(SERVING_PORTS_DIFFER, location, message)
    target_ports = None if pool is None else pool.target_ports
    for role in pool_roles:
        if target_ports is not None and role.pods.port not in target_ports:
            message = (
                f'must contain {role.pods.port}, the port of role "{role.name}"; add it, or set '
                "the role's port"
            )
            yield error(SERVING_PORTS_DIFFER, (*location, "pool", "targetPorts"), message)


def _check_disaggregation(field: Location, spec_roles: Sequence[RoleArgs]) -> Iterator[Finding]:
    types = {role.component_type for role in list_serving_roles(spec_roles)}
    needed_types = (ComponentType.PREFILLER, ComponentType.DECODER)
    missing = [needed.value for needed in needed_types if needed not in types]
    workers = [role.name for role in spec_roles if role.component_type is ComponentType.WORKER]
    if missing:
        message = (
            f"{Strategy.PD_DISAGGREGATION.value} requires a prefiller and a decoder; add a "
            f"{' and a '.join(missing)}"
        )
        yield error(DISAGGREGATION_ROLE_MISSING, field, message)
    elif workers:
        names = ", ".join(workers)
        message = f"no requests go to {names} (worker); remove it, or change its componentType"
        yield warning(ROLE_WITHOUT_REQUESTS, field, message)


def check_reference_grants(routing: Routing) -> Iterator[Finding]:
    """Warn about references to other namespaces, unless `referenceGrants` allows them."""
    if routing.router.reference_grants:
        return
    for grant in routing.grants:
        message = (
            f"{grant.to_kind} {grant.to_name} is in a different namespace from the "
            f"{grant.from_kind}: it requires a ReferenceGrant; referenceGrants: true creates it"
        )
        yield warning(REFERENCE_GRANT_MISSING, grant.location, message)


ROUTE_CHECKS: tuple[Callable[[Routing], Iterable[Finding]], ...] = (
    check_pool,
    check_http_route,
    check_implementation,
    check_several_pools,
    check_network_policies,
    check_reference_grants,
)

PICKER_CONFIG_INVALID = Rule("picker-config-invalid")
PLUGIN_NOT_REGISTERED = Rule("plugin-not-registered")
SCORERS_WITHOUT_LOAD = Rule("scorers-without-load")
_IMAGE: Location = ("endpointPicker", "image")


def _check_engine_metrics(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    """Check that the endpoint picker can read the metrics for its scorers and flow control."""
    scorers = [] if epp.settings is None else list(find_load_scorers(epp.settings))
    # With service levels, flow control counts requests instead of reading metrics.
    reads_load = routing.epp_choice.flow_control and epp.args.service_levels is None
    features = ["flow control"] if reads_load else []
    if scorers:
        features.append(f"scoring by {', '.join(scorers)}")
    if not features:
        return
    # Without metrics, scorers choose pods at random, and flow control queues every request.
    make_finding = error if reads_load else warning
    joined_features = " and ".join(features)
    exported_metrics = set()
    for role in routing.backend_roles:
        command = role.pods.command
        if command.engine is None:
            continue
        exported_metrics.add(command.engine.telemetry.load_metrics)
        reason = command.explain_missing_metrics()
        if reason is not None:
            message = (
                f"the endpoint picker's {joined_features} cannot work without metrics of role "
                f'"{role.name}": {reason}'
            )
            yield make_finding(ENGINE_WITHOUT_METRICS, ("roles", role.position), message)
    if epp.settings is None:
        return
    location = (*routing.location, *_IMAGE)
    for metrics in exported_metrics:
        problem = (
            f"cannot read {metrics.waiting} and {metrics.kv_cache}, so {joined_features} cannot "
            "work"
        )
        can_read = partial(can_read_metrics, metrics=metrics)
        yield from _check_feature(epp.family, location, problem, can_read, make_finding)


def _check_feature(
    family: EppFamily,
    location: Location,
    problem: str,
    is_supported: Callable[[EppFamily], bool],
    make_finding: Callable[[Rule, Location, str], Finding] = error,
) -> Iterator[Finding]:
    """Report a feature that the family does not have, and the closest image that has it.

    `problem` is a sentence without its subject, which is the family's name.
    """
    if not is_supported(family):
        message = f"{family.name} {problem}; use {find_closest_image(family, is_supported)}"
        yield make_finding(RELEASE_WITHOUT_FEATURE, location, message)


def _check_picker_config(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    if routing.epp_choice.strategy is None:
        is_custom = is_output(epp.image) or find_family(epp.image) is None
        for finding in check_config(epp.config, epp.family, is_custom=is_custom):
            yield finding.with_prefix(*routing.location, "endpointPickerConfig")


def check_config(text: str, family: EppFamily, *, is_custom: bool = False) -> Iterator[Finding]:
    """Check that a user's configuration is YAML, and that the picker knows its kind and plugins.

    The endpoint picker itself rejects other errors. If `is_custom` is True, the image may have
    plugins that its family does not have.
    """
    try:
        config = parse_epp_config(text)
    except ConfigNotYamlError as exc:
        yield error(PICKER_CONFIG_INVALID, (), str(exc))
        return
    if not isinstance(config, dict):
        actual = "an empty document" if config is None else quote_value(config)
        yield error(PICKER_CONFIG_INVALID, (), f"must be a mapping, got {actual}")
        return
    # Both keys are optional in every endpoint picker (tested).
    for key, allowed in (("kind", (EPP_CONFIG_KIND,)), ("apiVersion", family.api_versions)):
        if config.get(key, "") not in ("", *allowed):
            message = (
                f"must be {' or '.join(allowed)} for {family.name}, got {quote_value(config[key])}"
            )
            yield error(PICKER_CONFIG_INVALID, (key,), message)
    plugins = config.get("plugins")
    if not isinstance(plugins, list):
        return
    for index, plugin in enumerate(plugins):
        name = plugin.get("type") if isinstance(plugin, dict) else None
        if not isinstance(name, str) or family.has_plugin(name):
            continue
        families = [other.name for other in FAMILIES.values() if other.has_plugin(name)]
        message = f"{family.name} has no plugin {quote_value(name)} and would exit"
        if families:
            message += f"; available in {', '.join(families)}"
        # A type that no upstream release has may be a plugin of the user.
        make_finding = error if families and not is_custom else warning
        yield make_finding(PLUGIN_NOT_REGISTERED, ("plugins", index, "type"), message)


def _check_picker_settings(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    if epp.settings is not None:
        for finding in check_settings(epp.family, epp.settings):
            yield finding.with_prefix(*routing.location)


def _check_flow_control(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    location = (*routing.location, "endpointPicker")
    if epp.settings is not None and epp.args.service_levels and not routing.epp_choice.flow_control:
        message = "must not be false with serviceLevels, which queue requests; remove one of them"
        yield error(FIELDS_EXCLUDE_EACH_OTHER, (*location, "flowControl"), message)
    elif routing.epp_choice.flow_control:
        problem = "cannot queue requests: it answers 503 while no pod is ready"
        yield from _check_feature(
            epp.family, location, problem, lambda other: other.flow_control_metrics is not None
        )


def _check_picker_arguments(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    for index, argument in enumerate(epp.args.args or ()):
        name = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and name in OWNED_FLAGS:
            location = (*routing.location, "endpointPicker", "args", index)
            yield error(SET_BY_LIBRARY, location, f"--{name} is set by the library; remove it")


def check_settings(family: EppFamily, settings: EppSettings) -> Iterator[Finding]:
    """Check `settings` against a family's features; locations are relative to the router role."""
    yield from _check_scorers(family, settings)
    features = {"serviceLevels": settings.service_levels, "session IDs": settings.uses_sessions}
    for name, is_used in features.items():
        if is_used:
            yield from _check_feature(
                family,
                _IMAGE,
                f"does not support {name}",
                lambda other: other.objective_api is not None,
            )
    if settings.strategy is Strategy.PD_DISAGGREGATION and not family.supports_pd:
        problem = f"has no plugins for {settings.strategy.value}"
        yield from _check_feature(family, ("strategy",), problem, lambda other: other.supports_pd)
        return
    pairing_plugins = [plugin["type"] for plugin in build_pairing_plugins(settings.affinity)]
    yield from _check_feature(
        family,
        _IMAGE,
        "cannot keep prefill and decode of a request in one group",
        lambda other: all(map(other.has_plugin, pairing_plugins)),
    )


def _check_scorers(family: EppFamily, settings: EppSettings) -> Iterator[Finding]:
    if settings.scorers is None:
        return
    supported = [name for name, scorer in SCORERS.items() if family.has_plugin(scorer.plugin)]
    for name, weight in settings.scorers.items():
        location = ("scorers", name)
        if name not in SCORERS:
            message = f"unknown scorer; use {', '.join(supported)} ({family.name})"
            yield error(UNKNOWN_VALUE, location, message)
        elif name not in supported:
            message = (
                f"the endpoint picker ({family.name}) has no {SCORERS[name].plugin}; use "
                f"{', '.join(supported)}"
            )
            yield error(RELEASE_WITHOUT_FEATURE, location, message)
        elif family.integer_weights and weight != int(weight):
            message = f"must be a whole number for {family.name}, got {weight}; only ratios matter"
            yield error(OUT_OF_RANGE, location, message)
    scorer, *_ = STRATEGIES[settings.strategy]
    if scorer not in settings.scorers:
        message = (
            f"strategy {settings.strategy.value} uses scorer {scorer}, which is not in "
            f"{quote_value(list(settings.scorers))}; add it, or choose another strategy"
        )
        yield error(FIELD_REQUIRED, ("scorers",), message)
    if settings.scorers and not set(LOAD_SCORERS).intersection(settings.scorers):
        yield warning(
            SCORERS_WITHOUT_LOAD,
            ("scorers",),
            f"no scorer measures load ({', '.join(settings.scorers)}), so all requests with the "
            "same prompt or adapter may go to one pod; add kv-cache or queue "
            f"({DOCS_URL}/routing.md)",
        )


def _check_model_rewrites(routing: Routing, epp: EppPlan) -> Iterator[Finding]:
    if routing.router.model_rewrites:
        yield from _check_feature(
            epp.family,
            (*routing.location, "modelRewrites"),
            "ignores InferenceModelRewrites, so requests would keep their model names",
            lambda other: other.rewrite_api is not None,
        )


PICKER_CHECKS: tuple[Callable[[Routing, EppPlan], Iterable[Finding]], ...] = (
    _check_engine_metrics,
    _check_picker_settings,
    _check_flow_control,
    _check_picker_config,
    _check_picker_arguments,
    _check_model_rewrites,
)
