"""A ModelRoute: rules of the HTTPRoutes of the services that it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.model_arguments import served_names
from fusioninfer_pulumi.importers.backends import pool_backend
from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.given import At, Given
from fusioninfer_pulumi.importers.kthena.conditions import MODEL_HEADER, asked_models
from fusioninfer_pulumi.importers.kthena.conditions import matches as matched
from fusioninfer_pulumi.importers.kthena.roles import DECODER, PREFILLER
from fusioninfer_pulumi.importers.kthena.routing_models import (
    ModelMatch,
    ModelRouteSpec,
    Rule,
    StringMatch,
    TargetModel,
)
from fusioninfer_pulumi.importers.kthena.servers import Server, commands
from fusioninfer_pulumi.kube import durations


@dataclass(frozen=True)
class Shared:
    """A target whose requests come by the route of another service.

    Attributes:
        server: The target.
        by: The ModelServer whose service makes the route.
        at: Where the target is named.
    """

    server: Server
    by: Server
    at: At


Target = tuple[TargetModel, Server, At]


def carry_shared(shared: Sequence[Shared]) -> None:
    """Says of services that have no rule of their own whose route leads to them.

    Args:
        shared: The targets of all ModelRoutes.
    """
    for each in shared:
        if not _has_rules(each.server):
            carrier, by = each.server.serving.carrier, each.by.serving.carrier.main.name
            carrier.derive((*each.server.router, "httproute", "routedBy"), by, each.at)


def carry_route(
    book: Book, document: Given, spec: ModelRouteSpec, servers: Mapping[tuple[Any, Any], Server]
) -> list[Shared]:
    """Carries a ModelRoute over, rule by rule.

    Args:
        book: The book of the documents.
        document: The ModelRoute.
        spec: Its spec.
        servers: The ModelServers that lead to a service, by namespace and name.

    Returns:
        The targets that other services' routes lead to.
    """
    at = document.at("spec")
    if not spec.model_name and not spec.lora_adapters:
        book.refuse(at / "modelName", "is required without loraAdapters")
    else:
        book.warn(
            at / ("modelName" if spec.model_name else "loraAdapters"),
            f"is matched by the header {MODEL_HEADER}: the gateway must set it from the request's "
            "body (body-based routing)",
        )
    book.read(at / "modelName", at / "loraAdapters")
    if spec.rate_limit is not None:
        book.lost(at / "rateLimit", "HTTPRoutes limit no tokens; use your gateway's own policy")
    used: list[Server] = []
    asked: set[str] = set()
    shared: list[Shared] = []
    for index, rule in enumerate(spec.rules):
        found = _rule(book, document, spec, rule, at / "rules" / index, servers)
        used += [server for _, server, _ in found]
        shared += _shared(book, found)
        asked |= set(asked_models(spec, rule.model_match or ModelMatch()) if found else ())
    idle = [each for each in spec.lora_adapters or () if each not in asked]
    if idle:
        told = f"no rule that leads to a service asks for {', '.join(idle)}; left out"
        book.note(at / "loraAdapters", told)
    unique = {id(server): server for server in used}.values()
    for server in unique:
        if not any(server is each.server for each in shared) or _has_rules(server):
            _parents(book, spec, at / "parentRefs", server)
        _names(book, spec, at / "modelName", server)
        roles = {role["componentType"] for role in server.serving.carrier.roles}
        if spec.lora_adapters and not {PREFILLER, DECODER} <= roles:
            # Kthena's router prefers pods that have the adapter loaded.
            strategy = (*server.router, "strategy")
            server.serving.carrier.derive(strategy, "lora-affinity", at / "loraAdapters")
    if spec.parent_refs is None:
        book.read(at / "parentRefs")
    if not spec.rules:
        book.warn(at, "is left out: it has no rules")
    elif not unique:
        book.note(at, "is left out: it leads to no service")
    _order(book, spec.rules, at / "rules")
    return shared


def _rule(  # a rule is read where it stands
    book: Book,
    document: Given,
    spec: ModelRouteSpec,
    rule: Rule,
    at: At,
    servers: Mapping[tuple[Any, Any], Server],
) -> list[Target]:
    matches = list(matched(book, spec, rule.model_match or ModelMatch(), at / "modelMatch"))
    targets = _targets(book, document, rule, at / "targetModels", servers)
    book.read(at / "name")
    if not targets:
        book.note(at, "is left out: it leads to no service")
    if targets:
        _add(_main(targets), rule, matches, at, targets)
    if len(targets) == 1 and any(each.weight is not None for each in rule.target_models):
        book.note(at / "targetModels", "there is one target, which gets every request")
    return targets


def _main(targets: Sequence[Target]) -> Server:
    """The target whose service makes the route: the first of those with the largest weight."""
    return max(targets, key=lambda each: _weight(each[0]))[1]


def _shared(book: Book, targets: Sequence[Target]) -> Iterator[Shared]:
    """The other targets of a rule, which goes by the timeouts and retries of the main one."""
    for _, server, place in targets:
        main = _main(targets)
        if server is main:
            continue
        policy = server.spec.traffic_policy
        if policy is not None and policy != main.spec.traffic_policy:
            book.lost(
                server.document.at("spec", "trafficPolicy"),
                f"requests that {main.document.name} shares with it go by one rule, with the "
                f"policy of {main.document.name}; give both the same",
            )
        yield Shared(server, main, place)


def _has_rules(server: Server) -> bool:
    return bool(server.serving.carrier.held((*server.router, "httproute", "rules")))


def _weight(target: TargetModel) -> int:
    return 100 if target.weight is None else target.weight


def _targets(
    book: Book,
    document: Given,
    rule: Rule,
    at: At,
    servers: Mapping[tuple[Any, Any], Server],
) -> list[Target]:
    found: list[Target] = []
    nowhere = not any(map(_weight, rule.target_models))
    if nowhere:
        # Kthena's webhook refuses it, too (kthena-router/webhook/validator.go).
        book.refuse(at, "must have a weight above 0: no request would go anywhere")
    for index, target in enumerate(rule.target_models):
        place = at / index
        given = (target.model_server_name, target.external_model_provider_name)
        book.read(place / "modelServerName", place / "weight")
        if bool(given[0]) == bool(given[1]):
            book.refuse(place, "needs either modelServerName or externalModelProviderName")
        elif given[1]:
            book.lost(
                place / "externalModelProviderName",
                "routes of ours lead to pods of the service; write a backendRef into httproute",
            )
        elif (document.namespace, given[0]) not in servers:
            book.lost(
                place / "modelServerName",
                f"{given[0]} leads to no service of this input; read its documents together",
            )
        elif any(servers[document.namespace, given[0]] is each for _, each, _ in found):
            book.note(place, f"leads to {given[0]}, as another target of the rule; left out")
        elif nowhere:
            continue
        elif target.weight == 0:
            book.note(place / "weight", "is 0: no request goes there; left out")
        else:
            found.append((target, servers[document.namespace, given[0]], place))
    return found


def _add(
    server: Server,
    rule: Rule,
    matches: Sequence[Mapping[str, Any]],
    at: At,
    targets: Sequence[Target],
) -> None:
    carrier, policy = server.serving.carrier, server.spec.traffic_policy
    rules = (*server.router, "httproute", "rules")
    target = (*rules, len(carrier.held(rules) or ()))
    built: dict[str, Any] = {} if rule.name is None else {"name": rule.name}
    # A mapping without conditions stands for every request, as no match does.
    built["matches"] = [{key: item for key, item in each.items() if item} for each in matches]
    if len(targets) > 1:
        built["backendRefs"] = [
            {**pool_backend(each.serving.carrier.main.name), "weight": _weight(target)}
            for target, each, _ in targets
        ]
    place = server.document.at("spec", "trafficPolicy")
    if policy is not None and policy.timeout is not None:
        built["timeouts"] = {
            "request": "0s",
            "backendRequest": durations.for_routes(policy.timeout),
        }
    if policy is not None and policy.retry is not None:
        interval = policy.retry.retry_interval
        backoff = {} if interval is None else {"backoff": durations.for_routes(interval)}
        built["retry"] = {"attempts": policy.retry.attempts, **backoff}
    carrier.derive(target, built, at / "modelMatch")
    carrier.origin((*target, "name"), at / "name", whole=True)
    carrier.origin((*target, "backendRefs"), at / "targetModels")
    carrier.origin((*target, "timeouts"), place / "timeout")
    carrier.origin((*target, "retry"), place / "retry")


def _parents(book: Book, spec: ModelRouteSpec, at: At, server: Server) -> None:
    carrier, target = server.serving.carrier, (*server.router, "httproute", "parentRefs")
    held = carrier.held(target)
    carrier.origin((*server.router, "httproute"), at.document.at("spec"))
    if held is not None and held != (spec.parent_refs or []):
        book.lost(at, "a service has one HTTPRoute, and another ModelRoute gives other parentRefs")
    elif spec.parent_refs is not None:
        carrier.put(target, spec.parent_refs, at)
    else:
        carrier.origin(target, at, whole=True)


def _names(book: Book, spec: ModelRouteSpec, at: At, server: Server) -> None:
    """Requests keep the name that they ask for: nothing of ours rewrites bodies."""
    model, name = server.spec.model, spec.model_name
    if not name or model is None or name == model:
        return
    found = [command for role in server.serving.roles for command in commands(role)]
    if not any(name in (served_names(each) or ()) for each in found):
        book.lost(
            at,
            f"requests for {name} reach an engine that serves {model}, and nothing rewrites them; "
            f"give the engine --served-model-name {name}",
        )


def _order(book: Book, rules: Sequence[Rule], at: At) -> None:
    """Says where Kthena's order (the first that matches) is not the Gateway API's."""
    for later, rule in enumerate(rules):
        earlier = [i for i, each in enumerate(rules[:later]) if _weight_of(each) < _weight_of(rule)]
        if earlier:
            book.warn(
                at / later,
                f"comes after rules[{earlier[0]}], which is less specific: HTTPRoutes ask the more "
                "specific rule first, Kthena the first that matches",
            )


def _weight_of(rule: Rule) -> tuple[int, int, int]:
    """How specific a rule is, in the Gateway API's order: path, then number of headers."""
    match = rule.model_match or ModelMatch()
    uri = match.uri or StringMatch()
    return (int(uri.exact is not None), len(uri.exact or uri.prefix or uri.regex or ""),
            len(match.headers or {}))  # fmt: skip
