"""Rules of the Gateway API between fields, as far as people get them wrong.

Its definitions (1.4.1) say 56 of them in CEL. No CEL library for Python is light enough to evaluate
them at every start (docs/architecture.md), and the API server knows them all: `checks.server`.
All values have the right types: their schemas are checked before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.rules import LISTENER_WITHOUT_CERTIFICATE
from fusioninfer_pulumi.api.types import label_key_finding
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube import durations
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
)

REDIRECT_WITH_BACKENDS = Rule(
    "redirect-with-backends",
    "error",
    "A rule that redirects has no `backendRefs`.",
    remedy="Remove one of the two.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
FILTER_TYPE_MISMATCH = Rule(
    "filter-type-mismatch",
    "error",
    "A filter has the field of its `type`.",
    remedy="Correct `type` or the field.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
PREFIX_REPLACED_WITHOUT_PREFIX = Rule(
    "prefix-replaced-without-prefix",
    "error",
    "A rule that replaces a prefix has one match, of a PathPrefix.",
    remedy="Match by one PathPrefix.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
LISTENER_TLS_MISMATCH = Rule(
    "listener-tls-mismatch",
    "error",
    "The TLS mode of a listener fits its protocol.",
    remedy="Correct `tls.mode`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)

Manifest = Mapping[str, Any]

_FILTERS = {
    "RequestHeaderModifier": "requestHeaderModifier",
    "ResponseHeaderModifier": "responseHeaderModifier",
    "RequestMirror": "requestMirror",
    "RequestRedirect": "requestRedirect",
    "URLRewrite": "urlRewrite",
    "ExtensionRef": "extensionRef",
    "CORS": "cors",
    "ExternalAuth": "externalAuth",
}
_PATH = re.compile(r"(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+")
_NOT_IN_PATHS = re.compile(r"//|/\./|/\.\./|%2f|%2F|#|/\.\.?$")


def route_rule_findings(at: Location, route: Manifest) -> Iterator[Finding]:
    """Checks the spec of an HTTPRoute."""
    for index, rule in enumerate(route.get("rules") or ()):
        yield from _rule((*at, "rules", index), rule)


def _rule(at: Location, rule: Manifest) -> Iterator[Finding]:
    matches = rule.get("matches") or ()
    for index, match in enumerate(matches):
        if match.get("path"):
            yield from _path((*at, "matches", index, "path"), match["path"])
    filters, backends = rule.get("filters") or (), rule.get("backendRefs") or ()
    yield from _filters((*at, "filters"), filters, matches)
    if backends and any(filter_.get("requestRedirect") is not None for filter_ in filters):
        message = "cannot be beside a requestRedirect, which answers by itself; remove one of them"
        yield error(REDIRECT_WITH_BACKENDS, (*at, "backendRefs"), message)
    for index, backend in enumerate(backends):
        here = (*at, "backendRefs", index)
        yield from _filters((*here, "filters"), backend.get("filters") or (), matches)
    timeouts = rule.get("timeouts") or {}
    whole = durations.seconds(timeouts.get("request") or "")
    part = durations.seconds(timeouts.get("backendRequest") or "")
    if whole and part is not None and part > whole:
        yield error(
            OUT_OF_RANGE,
            (*at, "timeouts", "backendRequest"),
            f"must be at most timeouts.request ({timeouts['request']}), got "
            f"{timeouts['backendRequest']}",
        )


def _path(at: Location, path: Manifest) -> Iterator[Finding]:
    value = path.get("value")
    if value is None or path.get("type") == "RegularExpression":
        return
    if not value.startswith("/") or _NOT_IN_PATHS.search(value) or not _PATH.fullmatch(value):
        yield error(
            INVALID_FORMAT,
            (*at, "value"),
            "must be an absolute path such as /v1/models, without //, /./ or #, got "
            f"{shown(value)}",
        )


def backend_findings(at: Location, backend: Manifest) -> Iterator[Finding]:
    """Checks a backend of a route or mirror, once it is known that it is not the pool."""
    service = not backend.get("group") and backend.get("kind") in (None, "Service")
    if service and backend.get("port") is None:
        yield error(FIELD_REQUIRED, (*at, "port"), "is required for a Service")


def _filters(
    at: Location, filters: Sequence[Manifest], matches: Sequence[Manifest]
) -> Iterator[Finding]:
    for index, written in enumerate(filters):
        here = (*at, index)
        wanted = _FILTERS.get(written["type"])
        for field in _FILTERS.values():
            if (field == wanted) != (written.get(field) is not None):
                word = "is required for" if field == wanted else "does not belong to"
                message = f"{word} a filter of {written['type']}"
                yield error(FILTER_TYPE_MISMATCH, (*here, field), message)
        mirror = written.get("requestMirror")
        if mirror is not None:
            backend = mirror.get("backendRef") or {}
            yield from backend_findings((*here, "requestMirror", "backendRef"), backend)
        for name in ("requestRedirect", "urlRewrite"):
            path = (written.get(name) or {}).get("path")
            if path is not None:
                yield from _prefix((*here, name, "path"), path, matches)


def _prefix(at: Location, path: Manifest, matches: Sequence[Manifest]) -> Iterator[Finding]:
    if path.get("replacePrefixMatch") is None:
        return
    # By default a rule matches the prefix /, and so does a match without a path.
    prefixes = [
        ((match.get("path") or {}).get("type") or "PathPrefix") == "PathPrefix"
        for match in matches or ({},)
    ]
    if prefixes != [True]:
        yield error(
            PREFIX_REPLACED_WITHOUT_PREFIX,
            at,
            "replaces a prefix: the rule needs exactly one match, of a PathPrefix",
        )


def gateway_rule_findings(at: Location, gateway: Manifest) -> Iterator[Finding]:
    """Checks the spec of a Gateway."""
    yield from listener_rule_findings((*at, "listeners"), gateway.get("listeners") or ())
    infrastructure = gateway.get("infrastructure") or {}
    for field in ("labels", "annotations"):
        for key in infrastructure.get(field) or ():
            problem = label_key_finding((*at, "infrastructure", field, key), key)
            if problem is not None:
                yield problem


def listener_rule_findings(at: Location, listeners: Sequence[Manifest]) -> Iterator[Finding]:
    """Checks the listeners of a Gateway."""
    seen: set[tuple[Any, ...]] = set()
    for index, listener in enumerate(listeners):
        here, protocol, tls = (*at, index), listener["protocol"], listener.get("tls")
        if protocol in ("HTTP", "TCP", "UDP") and tls is not None:
            message = f"does not belong to a listener of {protocol}; remove it, or say HTTPS"
            yield error(LISTENER_TLS_MISMATCH, (*here, "tls"), message)
        elif tls is not None:
            yield from _tls((*here, "tls"), tls, protocol)
        host = listener.get("hostname")
        if is_output(host):
            continue
        key = (listener["port"], protocol, host)
        if key in seen:
            message = f"port {listener['port']}, {protocol} and host name are those of another"
            yield error(DUPLICATE_NAME, here, message)
        seen.add(key)


def _tls(at: Location, tls: Manifest, protocol: str) -> Iterator[Finding]:
    mode = tls.get("mode") or "Terminate"
    if protocol == "HTTPS" and mode != "Terminate":
        message = f"must be Terminate for HTTPS, got {mode}"
        yield error(LISTENER_TLS_MISMATCH, (*at, "mode"), message)
    if mode == "Terminate" and not tls.get("certificateRefs") and not tls.get("options"):
        message = "must name a Secret with the certificate that TLS is terminated with"
        yield error(LISTENER_WITHOUT_CERTIFICATE, (*at, "certificateRefs"), message)
