"""Converts a ModelRoute to HTTPRoute rules of the services that it routes to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kthena.models import (
    ModelMatch,
    ModelRouteSpec,
    RouteRule,
    StringMatch,
    TargetModel,
)
from fusioninfer_importers.kthena.servers import SCORERS, Server, read_engine_commands
from fusioninfer_importers.kthena.serving import DECODER, PREFILLER
from fusioninfer_importers.objects import MODEL_HEADER, make_pool_ref
from fusioninfer_importers.rules import DOCUMENT_UNUSED, REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import Rule, SourceDocument, SourceField

BODY_BASED_ROUTING_NEEDED = Rule("body-based-routing-needed")
RULE_ORDER_DIFFERS = Rule("rule-order-differs")

#: An anchored or open end of a pattern: `$` or `.*`, unless a backslash escapes it.
_ENDS = re.compile(r"(?<!\\)(?:\\\\)*(?:\$|\.\*)\Z")
#: A target of a rule, the ModelServer that it names, and its field.
Target = tuple[TargetModel, Server, SourceField]


def build_matches(
    report: ConversionReport, spec: ModelRouteSpec, match: ModelMatch, field: SourceField
) -> Iterator[dict[str, Any]]:
    """Yield an HTTPRoute match for each model that a rule matches."""
    names = list_models(spec)
    model = match.body.model if match.body is not None else None
    if model is not None:
        report.consume(field / "body" / "model")
        if model not in names:
            report.invalid(
                field / "body" / "model", f"must be one of the route's models ({', '.join(names)})"
            )
        names = [model]
    headers = []
    for name, condition in (match.headers or {}).items():
        header = _build_header_match(report, condition, field / "headers" / name)
        if header is not None:
            kind, value = header
            headers.append({"name": name, "type": kind, "value": value})
    path = _build_path_match(report, match.uri, field / "uri") if match.uri is not None else None
    for name in names:
        model_header = {"name": MODEL_HEADER, "value": name}
        yield {"path": path, "headers": [model_header, *headers]}


def _build_header_match(
    report: ConversionReport, match: StringMatch, field: SourceField
) -> tuple[str, str] | None:
    """Return type and value of a header match."""
    condition = _read_condition(report, match, field)
    if condition is None:
        return None
    kind, value = condition
    if kind == "exact":
        return "Exact", value
    return "RegularExpression", anchor(value) if kind == "regex" else f"{re.escape(value)}.*"


def _build_path_match(
    report: ConversionReport, match: StringMatch, field: SourceField
) -> dict[str, str] | None:
    condition = _read_condition(report, match, field)
    if condition is None:
        return None
    kind, value = condition
    if kind == "exact":
        return {"type": "Exact", "value": value}
    if kind == "regex":
        return {"type": "RegularExpression", "value": anchor(value)}
    if value.endswith("/"):
        return {"type": "PathPrefix", "value": value}
    # PathPrefix matches whole segments; in Kthena the prefix /v1 also matches /v1beta.
    return {"type": "RegularExpression", "value": f"{re.escape(value)}.*"}


def anchor(pattern: str) -> str:
    """Return a regular expression that matches a whole text if `pattern` matches a part of it.

    Kthena searches (kthena-router/datastore, matchString); Envoy and gateways built on it match
    the whole text. An end that is already anchored gets no `.*`.
    """
    # An anchor in one alternative does not hold for the others.
    has_alternatives = "|" in pattern
    is_start_anchored = not has_alternatives and pattern.startswith(("^", ".*"))
    is_end_anchored = not has_alternatives and _ENDS.search(pattern) is not None
    if is_start_anchored and is_end_anchored:
        return pattern
    return f"{'' if is_start_anchored else '.*'}(?:{pattern}){'' if is_end_anchored else '.*'}"


def _read_condition(
    report: ConversionReport, match: StringMatch, field: SourceField
) -> tuple[str, str] | None:
    conditions = [(kind, value) for kind, value in match if value is not None]
    report.consume(field)
    if len(conditions) != 1:
        report.invalid(field, "needs one of exact, prefix or regex")
        return None
    kind, value = conditions[0]
    if kind == "prefix":
        report.translated(field, "the regular expression dialect depends on the gateway")
    elif kind == "regex":
        report.translated(
            field,
            f"converted to {anchor(str(value))}, because gateways match the whole text and "
            "Kthena any part of it; the dialect depends on the gateway",
        )
    return kind, str(value)


def list_models(spec: ModelRouteSpec) -> list[str]:
    """Return the model names by which requests choose a route."""
    return [name for name in (spec.model_name, *(spec.lora_adapters or ())) if name]


def match_models(spec: ModelRouteSpec, match: ModelMatch) -> list[str]:
    """Return the models of a route that a rule matches."""
    model = match.body.model if match.body is not None else None
    return list_models(spec) if model is None else [model]


@dataclass(frozen=True)
class SharedTarget:
    """A target of a rule that another target's service has in its route.

    Attributes:
        server: The target.
        main_server: The target whose service has the rule.
        field: The field that names the target.
    """

    server: Server
    main_server: Server
    field: SourceField


def set_routed_by(shared: Sequence[SharedTarget]) -> None:
    """Set `routedBy` in services that have no route rule of their own."""
    for share in shared:
        if not _has_rules(share.server):
            builder = share.server.serving.builder
            name = share.main_server.serving.builder.main.name
            builder.derive((*share.server.router, "httproute", "routedBy"), name, share.field)


def convert_route(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelRouteSpec,
    servers: Mapping[tuple[Any, Any], Server],
) -> list[SharedTarget]:
    """Convert a ModelRoute; return the targets whose rules are in other services' routes."""
    field = document.at("spec")
    if not spec.model_name and not spec.lora_adapters:
        report.invalid(field / "modelName", "is required without loraAdapters")
    else:
        report.warning(
            BODY_BASED_ROUTING_NEEDED,
            field / ("modelName" if spec.model_name else "loraAdapters"),
            f"matched by the header {MODEL_HEADER}, which the gateway must set from the request "
            "body (body-based routing)",
        )
    report.consume(field / "modelName", field / "loraAdapters")
    if spec.rate_limit is not None:
        report.unsupported(
            field / "rateLimit",
            "is not supported by HTTPRoute; use a rate limit policy of your gateway",
        )
    used: dict[int, Server] = {}
    matched: set[str] = set()
    shared: list[SharedTarget] = []
    for index, rule in enumerate(spec.rules):
        targets = _convert_rule(report, document, spec, rule, field / "rules" / index, servers)
        used |= {id(server): server for _, server, _ in targets}
        shared += _find_shared_targets(report, targets)
        if targets:
            matched |= {*match_models(spec, rule.model_match or ModelMatch())}
    unused = [adapter for adapter in spec.lora_adapters or () if adapter not in matched]
    if unused:
        message = f"no rule with a target in this input matches {', '.join(unused)}; ignored"
        report.left_out(field / "loraAdapters", message)
    for server in used.values():
        if _has_rules(server):
            _copy_parent_refs(report, spec, field / "parentRefs", server)
        _rewrite_model_name(report, spec, field / "modelName", server)
        roles = {role["componentType"] for role in server.serving.builder.roles}
        if spec.lora_adapters and not {PREFILLER, DECODER} <= roles:
            # Kthena's router prefers pods that have the adapter loaded.
            builder = server.serving.builder
            builder.derive((*server.router, "strategy"), "lora-affinity", field / "loraAdapters")
            scorers = {**SCORERS, "lora": 1}
            builder.derive((*server.router, "scorers"), scorers, field / "loraAdapters")
    if spec.parent_refs is None:
        report.consume(field / "parentRefs")
    if not spec.rules:
        report.warning(DOCUMENT_UNUSED, field, "has no rules; ignored")
    elif not used:
        report.left_out(field, "refers to no service of this input; ignored")
    _check_order(report, spec.rules, field / "rules")
    return shared


def _convert_rule(
    report: ConversionReport,
    document: SourceDocument,
    spec: ModelRouteSpec,
    rule: RouteRule,
    field: SourceField,
    servers: Mapping[tuple[Any, Any], Server],
) -> list[Target]:
    conditions = list(
        build_matches(report, spec, rule.model_match or ModelMatch(), field / "modelMatch")
    )
    targets = _find_targets(report, document, rule, field / "targetModels", servers)
    report.consume(field / "name")
    if targets:
        _add_rule(_find_main_server(targets), rule, conditions, field, targets)
    else:
        report.left_out(field, "refers to no service of this input; ignored")
    if len(targets) == 1 and any(target.weight is not None for target in rule.target_models):
        report.left_out(field / "targetModels", "has no effect with a single target; ignored")
    return targets


def _find_main_server(targets: Sequence[Target]) -> Server:
    """Return the target whose service has the rule: the first with the largest weight."""
    return max(targets, key=lambda target: _get_weight(target[0]))[1]


def _find_shared_targets(
    report: ConversionReport, targets: Sequence[Target]
) -> Iterator[SharedTarget]:
    """Yield a rule's targets other than the main one; their retries must equal the main one's."""
    for _, server, target_field in targets:
        main = _find_main_server(targets)
        if server is main:
            continue
        policy = server.spec.traffic_policy
        main_policy = main.spec.traffic_policy
        if policy is not None and policy.retry != (main_policy and main_policy.retry):
            report.unsupported(
                server.document.at("spec", "trafficPolicy", "retry"),
                f"differs from the retries of {main.document.name}, whose rule also routes to this "
                "ModelServer; set both to the same",
            )
        yield SharedTarget(server, main, target_field)


def _has_rules(server: Server) -> bool:
    return bool(server.serving.builder.get((*server.router, "httproute", "rules")))


def _get_weight(target: TargetModel) -> int:
    return 100 if target.weight is None else target.weight


def _find_targets(
    report: ConversionReport,
    document: SourceDocument,
    rule: RouteRule,
    field: SourceField,
    servers: Mapping[tuple[Any, Any], Server],
) -> list[Target]:
    targets: list[Target] = []
    has_no_weight = not any(map(_get_weight, rule.target_models))
    if has_no_weight:
        # Kthena's webhook rejects it, too (kthena-router/webhook/validator.go).
        report.invalid(field, "needs at least one weight above 0")
    for index, target in enumerate(rule.target_models):
        subfield = field / index
        server_name, provider_name = target.model_server_name, target.external_model_provider_name
        report.consume(subfield / "modelServerName", subfield / "weight")
        if bool(server_name) == bool(provider_name):
            report.invalid(subfield, "needs either modelServerName or externalModelProviderName")
        elif provider_name:
            report.unsupported(
                subfield / "externalModelProviderName",
                "external models are not supported; route these requests with an HTTPRoute of "
                "your own, and remove this target",
            )
        elif (document.namespace, server_name) not in servers:
            report.unsupported(
                subfield / "modelServerName",
                f"no service of this input is selected by ModelServer {server_name}; pass the "
                "ModelServer and its ModelServing together with this route",
                REFERENCE_MISSING,
            )
        elif any(servers[document.namespace, server_name] is server for _, server, _ in targets):
            report.left_out(subfield, f"repeats the target {server_name}; ignored")
        elif has_no_weight:
            continue
        elif target.weight == 0:
            report.left_out(subfield / "weight", "is 0; the target is ignored")
        else:
            targets.append((target, servers[document.namespace, server_name], subfield))
    return targets


def _add_rule(
    server: Server,
    rule: RouteRule,
    matches: Sequence[Mapping[str, Any]],
    field: SourceField,
    targets: Sequence[Target],
) -> None:
    builder, policy = server.serving.builder, server.spec.traffic_policy
    rules = (*server.router, "httproute", "rules")
    target = (*rules, len(builder.get(rules) or ()))
    route_rule: dict[str, Any] = {} if rule.name is None else {"name": rule.name}
    # An empty match matches every request.
    route_rule["matches"] = [
        {key: item for key, item in match.items() if item} for match in matches
    ]
    if len(targets) > 1:
        route_rule["backendRefs"] = [
            {**make_pool_ref(backend.serving.builder.main.name), "weight": _get_weight(model)}
            for model, backend, _ in targets
        ]
    if policy is not None and policy.retry is not None:
        interval = policy.retry.retry_interval
        backoff = {} if interval is None else {"backoff": interval}
        route_rule["retry"] = {"attempts": policy.retry.attempts, **backoff}
    builder.derive(target, route_rule, field / "modelMatch")
    builder.set_origin((*target, "name"), field / "name", copied=True)
    builder.set_origin((*target, "backendRefs"), field / "targetModels")
    retry_field = server.document.at("spec", "trafficPolicy", "retry")
    builder.set_origin((*target, "retry"), retry_field)


def _copy_parent_refs(
    report: ConversionReport, spec: ModelRouteSpec, field: SourceField, server: Server
) -> None:
    builder, target = server.serving.builder, (*server.router, "httproute", "parentRefs")
    parents = builder.get(target)
    builder.set_origin((*server.router, "httproute"), field.document.at("spec"))
    if parents is not None and parents != (spec.parent_refs or []):
        report.unsupported(
            field,
            "conflicts with the parentRefs of another ModelRoute; a service has one HTTPRoute",
        )
    elif spec.parent_refs is not None:
        builder.copy(target, spec.parent_refs, field)
    else:
        builder.set_origin(target, field, copied=True)


def _rewrite_model_name(
    report: ConversionReport, spec: ModelRouteSpec, field: SourceField, server: Server
) -> None:
    """Rewrite a model name that the engine does not serve, as Kthena's router does.

    Unless a request names an adapter, the router replaces its model name with the server's model
    (kthena-router/router/router.go).
    """
    model, name = server.spec.model, spec.model_name
    if not name or model is None or name == model:
        return
    engines = [command for role in server.serving.roles for command in read_engine_commands(role)]
    if any(name in (command.served_names or ()) for command in engines):
        return
    builder, target = server.serving.builder, (*server.router, "modelRewrites")
    rewrites = builder.get(target) or []
    if any(name in rewrite["models"] for rewrite in rewrites):
        return
    rewrite = {"models": [name], "targets": [{"model": model}]}
    builder.derive((*target, len(rewrites)), rewrite, field)
    report.translated(
        field,
        f"the endpoint picker rewrites it to {model}, the model of the ModelServer; this needs "
        "llm-d's endpoint picker and CRD (0.10 by default)",
    )


def _check_order(report: ConversionReport, rules: Sequence[RouteRule], field: SourceField) -> None:
    """Warn of rules where Kthena's first match may not be HTTPRoute's most specific match."""
    for later, rule in enumerate(rules):
        earlier = [
            index
            for index, candidate in enumerate(rules[:later])
            if _compute_specificity(candidate) < _compute_specificity(rule)
        ]
        if earlier:
            report.warning(
                RULE_ORDER_DIFFERS,
                field / later,
                f"comes after the less specific rules[{earlier[0]}]; HTTPRoute prefers the more "
                "specific rule, Kthena the first match",
            )


def _compute_specificity(rule: RouteRule) -> tuple[int, int, int]:
    """Return the Gateway API's sort key: exact path, length of the path, number of headers."""
    match = rule.model_match or ModelMatch()
    uri = match.uri or StringMatch()
    return (int(uri.exact is not None), len(uri.exact or uri.prefix or uri.regex or ""),
            len(match.headers or {}))  # fmt: skip
