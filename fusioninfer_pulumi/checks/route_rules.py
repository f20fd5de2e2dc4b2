"""Rules of a route that take no request, and listeners that exclude each other."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from fusioninfer_pulumi.api.rules import LISTENER_WITHOUT_CERTIFICATE
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown, warning
from fusioninfer_pulumi.routing.router import RouterParts
from fusioninfer_pulumi.rules.common import INVALID_FORMAT

BACKEND_WEIGHTS_ZERO = Rule(
    "backend-weights-zero",
    "warning",
    "A rule of a route gives a weight to one of its backends.",
    remedy="Give one of them a weight.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
RULE_NEVER_MATCHES = Rule(
    "rule-never-matches",
    "warning",
    "No earlier rule of a route takes the requests of a rule.",
    remedy="Remove it, or give it other matches.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
LISTENERS_CONFLICT = Rule(
    "listeners-conflict",
    "error",
    "Listeners of one port have one protocol.",
    remedy="Change the port of one of them.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)

_REGULAR = "RegularExpression"
#: Syntax that gateways accept (RE2, PCRE, Rust's) and Python does not, or not everywhere.
_FOREIGN = re.compile(r"\\[pPQEzZKhHRCXGu]|\\x\{|\(\?(?![:=!]|P<|<[=!])|[*+?}]\+|\[\[")
_EVERYTHING = {"path": {"type": "PathPrefix", "value": "/"}}
#: Protocols that end TLS. Listeners of one port may have them if their host names differ.
_ENDING_TLS = frozenset({"HTTPS", "TLS"})


def rule_findings(parts: RouterParts) -> Iterator[Finding]:
    """Checks the rules of a service's own route; `at` is the location of the router role."""
    at, route = parts.at, parts.route
    earlier: list[Mapping[str, Any]] = []
    for index, rule in enumerate(route.rules if route is not None else ()):
        field = (*at, "httproute", "rules", index)
        weights = [backend.get("weight", 1) for backend in rule.backends]
        if weights and all(weight == 0 for weight in weights):
            yield warning(
                BACKEND_WEIGHTS_ZERO,
                (*field, "backendRefs"),
                "all weights are 0: gateways answer each request of the rule with status 500; give "
                "one of them a weight",
            )
        yield from _expressions(field, rule.written.get("matches") or ())
        matches = normalised_matches(rule.matches)
        if all(match in earlier for match in matches):
            yield warning(
                RULE_NEVER_MATCHES,
                field,
                "takes what an earlier rule takes already, which gets all of the requests; remove "
                "it, or give it other matches",
            )
        earlier += matches


def normalised_matches(matches: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Conditions with the path that the Gateway API gives those without one."""
    return [{**_EVERYTHING, **match} for match in matches]


def _expressions(at: Location, matches: Sequence[Any]) -> Iterator[Finding]:
    for index, match in enumerate(matches):
        if not isinstance(match, Mapping):
            continue
        here = (*at, "matches", index)
        values: list[tuple[Location, Any]] = [((*here, "path"), match.get("path"))]
        for key in ("headers", "queryParams"):
            listed = match.get(key)
            items = listed if isinstance(listed, (list, tuple)) else ()
            values += [((*here, key, number), item) for number, item in enumerate(items)]
        for where, condition in values:
            if isinstance(condition, Mapping) and condition.get("type") == _REGULAR:
                value = condition.get("value")
                reason = _malformed(value) if isinstance(value, str) else None
                if reason is not None:
                    yield error(
                        INVALID_FORMAT,
                        (*where, "value"),
                        f"{shown(value)} is no regular expression: {reason}",
                    )


def _malformed(pattern: str) -> str | None:
    """Why no gateway can read a regular expression, None where one may."""
    if _FOREIGN.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as problem:
        return str(problem)
    return None


def listener_findings(parts: RouterParts) -> Iterator[Finding]:
    """Checks the listeners of a service's own Gateway; `at` is the location of the router role."""
    at, gateway, implementation = parts.at, parts.gateway, parts.implementation
    if gateway is None:
        return
    field = (*at, "gateway", "listeners")
    for (_, one), (index, other) in combinations(enumerate(gateway.listeners), 2):
        reason = _conflict(one, other)
        if reason is not None:
            yield error(
                LISTENERS_CONFLICT,
                (*field, index),
                f"conflicts with listener {one['name']}, also on port {one['port']}: {reason}",
            )
    classes = (gateway.spec["gatewayClassName"], implementation.gateway_class)
    # GKE takes certificates from an annotation, and cert-manager reads from one what to issue.
    otherwise = any(str(name).startswith("gke-") for name in classes) or any(
        "cert" in key for key in gateway.annotations
    )
    for index, listener in enumerate(gateway.listeners):
        # The content of `tls` is checked with the other rules of the Gateway API.
        if listener["protocol"] in _ENDING_TLS and listener.get("tls") is None and not otherwise:
            yield error(
                LISTENER_WITHOUT_CERTIFICATE,
                (*field, index, "tls"),
                f"protocol {listener['protocol']} needs a certificate; give certificateRefs: "
                "[{name: SECRET}]",
            )


def _conflict(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Why two listeners exclude each other; equal ones break a rule of the Gateway API."""
    protocols = {one["protocol"], other["protocol"]}
    if one["port"] != other["port"] or len(protocols) == 1 or protocols <= _ENDING_TLS:
        return None
    if "UDP" in protocols:
        return None
    return f"one port takes one protocol, got {' and '.join(sorted(protocols))}"
