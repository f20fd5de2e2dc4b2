"""Rules of the Gateway API between fields: what the CEL rules of its definitions (1.4.1) refuse.

No CEL library for Python is light enough to evaluate them at every start (docs/architecture.md):
those that an input can break are written here.

| Rule | Fields |
|---|---|
| `gateway-parent-ambiguous` | `parentRefs` to one Gateway have different sections or ports |
| `route-matches-too-many` | `rules`: 128 matches in all |
| `duplicate-rule-name` | `rules[].name` |
| `timeout-above-request` | `timeouts.backendRequest` |
| `redirect-with-backends` | `filters` with a `requestRedirect` beside `backendRefs` |
| `backend-without-port` | a Service in `backendRefs` or `requestMirror` |
| `filter-type-mismatch` | the field of a filter is that of its `type` |
| `filter-repeated`, `redirect-with-rewrite` | filters that a rule takes once |
| `path-modifier-mismatch` | `requestRedirect.path`, `urlRewrite.path` |
| `prefix-replaced-without-prefix` | the same, of a rule whose match is no prefix |
| `mirror-share-ambiguous`, `mirror-share-above-one` | `requestMirror` |
| `wildcard-beside-others` | `cors.allowOrigins`, `cors.allowMethods` |
| `auth-protocol-mismatch` | the field of `externalAuth` is that of its `protocol` |
| `session-without-end` | `sessionPersistence` with a cookie that is kept |
| `invalid-route-path` | `matches[].path.value` |
| `listener-tls-mismatch`, `listener-hostname-mismatch` | `protocol` of a listener |
| `listener-without-certificate` | `tls` that is terminated |
| `duplicate-listener` | port, protocol and host name of a listener |
| `invalid-gateway-address`, `duplicate-gateway-address` | `addresses` |
| `invalid-label-key` | `infrastructure` |

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

ROUTE_MATCHES_TOO_MANY = Rule(
    "route-matches-too-many",
    "error",
    "A route has at most 128 matches.",
    remedy="Split the route.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
DUPLICATE_RULE_NAME = Rule(
    "duplicate-rule-name",
    "error",
    "Rules of a route have different names.",
    remedy="Rename one of them.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
GATEWAY_PARENT_AMBIGUOUS = Rule(
    "gateway-parent-ambiguous",
    "error",
    "References to one Gateway differ in section or port.",
    remedy="Give each a `sectionName` or a `port`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
REDIRECT_WITH_BACKENDS = Rule(
    "redirect-with-backends",
    "error",
    "A rule that redirects has no `backendRefs`.",
    remedy="Remove one of the two.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
TIMEOUT_ABOVE_REQUEST = Rule(
    "timeout-above-request",
    "error",
    "`timeouts.backendRequest` is at most `timeouts.request`.",
    remedy="Lower it, or raise the other.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
INVALID_ROUTE_PATH = Rule(
    "invalid-route-path",
    "error",
    "The path of a match is absolute and plain.",
    remedy="Write, for example, `/v1/models`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
BACKEND_WITHOUT_PORT = Rule(
    "backend-without-port",
    "error",
    "A backend that is a Service has a port.",
    remedy="Add `port`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
REDIRECT_WITH_REWRITE = Rule(
    "redirect-with-rewrite",
    "error",
    "A rule either redirects or rewrites.",
    remedy="Remove one of the filters.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
FILTER_REPEATED = Rule(
    "filter-repeated",
    "error",
    "A rule has each type of filter once, where the Gateway API says so.",
    remedy="Write them as one filter.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
FILTER_TYPE_MISMATCH = Rule(
    "filter-type-mismatch",
    "error",
    "A filter has the field of its `type`.",
    remedy="Correct `type` or the field.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
MIRROR_SHARE_AMBIGUOUS = Rule(
    "mirror-share-ambiguous",
    "error",
    "A mirror takes a percent or a fraction.",
    remedy="Remove one of them.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
MIRROR_SHARE_ABOVE_ONE = Rule(
    "mirror-share-above-one",
    "error",
    "The fraction of a mirror is at most 1.",
    remedy="Lower the numerator.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
WILDCARD_BESIDE_OTHERS = Rule(
    "wildcard-beside-others",
    "error",
    "Lists of `cors` hold * alone, or no *.",
    remedy="Remove one of them.",
    source="Gateway API 1.4.1, HTTPCORSFilter",
)
AUTH_PROTOCOL_MISMATCH = Rule(
    "auth-protocol-mismatch",
    "error",
    "The field of an `externalAuth` is that of its protocol.",
    remedy="Use `grpc` with GRPC, `http` with HTTP.",
    source="Gateway API 1.4.1, HTTPExternalAuthFilter",
)
SESSION_WITHOUT_END = Rule(
    "session-without-end",
    "error",
    "A session with a permanent cookie has an `absoluteTimeout`.",
    remedy="Add it.",
    source="Gateway API 1.4.1, SessionPersistence",
)
PATH_MODIFIER_MISMATCH = Rule(
    "path-modifier-mismatch",
    "error",
    "A path modifier has the field of its `type`.",
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
INVALID_GATEWAY_ADDRESS = Rule(
    "invalid-gateway-address",
    "error",
    "The address of a Gateway has the form of its type.",
    remedy="Correct it.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
DUPLICATE_GATEWAY_ADDRESS = Rule(
    "duplicate-gateway-address",
    "error",
    "A Gateway has each address once.",
    remedy="Remove the second one.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
LISTENER_HOSTNAME_MISMATCH = Rule(
    "listener-hostname-mismatch",
    "error",
    "Listeners of TCP and UDP have no host name.",
    remedy="Remove it.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
LISTENER_TLS_MISMATCH = Rule(
    "listener-tls-mismatch",
    "error",
    "The TLS mode of a listener fits its protocol.",
    remedy="Correct `tls.mode`.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)
DUPLICATE_LISTENER = Rule(
    "duplicate-listener",
    "error",
    "Listeners differ in port, protocol or host name.",
    remedy="Change one of them.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)

Manifest = Mapping[str, Any]

_MOST_MATCHES = 128
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
_ONCE = ("RequestHeaderModifier", "ResponseHeaderModifier", "RequestRedirect", "URLRewrite")
_REPLACED = {"ReplaceFullPath": "replaceFullPath", "ReplacePrefixMatch": "replacePrefixMatch"}
_PATH = re.compile(r"(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+")
_NOT_IN_PATHS = re.compile(r"//|/\./|/\.\./|%2f|%2F|#|/\.\.?$")
_HOST = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def route_rule_findings(at: Location, route: Manifest) -> Iterator[Finding]:
    """Checks the spec of an HTTPRoute."""
    yield from parent_findings((*at, "parentRefs"), route.get("parentRefs") or ())
    rules = route.get("rules") or ()
    # A rule without matches has one by default, of all paths.
    matches = sum(len(rule.get("matches") or (None,)) for rule in rules)
    if matches > _MOST_MATCHES:
        message = f"have {matches} matches, of at most {_MOST_MATCHES}"
        yield error(ROUTE_MATCHES_TOO_MANY, (*at, "rules"), message)
    names: set[str] = set()
    for index, rule in enumerate(rules):
        here = (*at, "rules", index)
        if rule.get("name") in names:
            message = f"{shown(rule['name'])} names two rules"
            yield error(DUPLICATE_RULE_NAME, (*here, "name"), message)
        names |= {rule["name"]} if rule.get("name") else set()
        yield from _rule(here, rule)


def parent_findings(at: Location, parents: Sequence[Manifest]) -> Iterator[Finding]:
    """Checks the Gateways that a route attaches to."""
    seen: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}
    for index, parent in enumerate(parents):
        if is_output(parent.get("namespace")):
            continue
        whose = tuple(parent.get(key) or None for key in ("group", "kind", "namespace", "name"))
        part = (parent.get("sectionName") or None, parent.get("port") or None)
        before = seen.setdefault(whose, [])
        differs = all(
            part != other and [key is None for key in part] == [key is None for key in other]
            for other in before
        )
        if not differs:
            yield error(
                GATEWAY_PARENT_AMBIGUOUS,
                (*at, index),
                f"names {shown(parent.get('name'))} again; give each a sectionName or a port of "
                "its own",
            )
        before.append(part)


def _rule(at: Location, rule: Manifest) -> Iterator[Finding]:
    matches = rule.get("matches") or ()
    for index, match in enumerate(matches):
        if match.get("path"):
            yield from _path((*at, "matches", index, "path"), match["path"])
    filters, backends = rule.get("filters") or (), rule.get("backendRefs") or ()
    yield from _filters((*at, "filters"), filters, matches)
    if backends and any(each.get("requestRedirect") is not None for each in filters):
        message = "cannot be beside a requestRedirect, which answers by itself; remove one of them"
        yield error(REDIRECT_WITH_BACKENDS, (*at, "backendRefs"), message)
    for index, backend in enumerate(backends):
        here = (*at, "backendRefs", index)
        yield from _filters((*here, "filters"), backend.get("filters") or (), matches)
    yield from _session((*at, "sessionPersistence"), rule.get("sessionPersistence") or {})
    timeouts = rule.get("timeouts") or {}
    whole = durations.seconds(timeouts.get("request") or "")
    part = durations.seconds(timeouts.get("backendRequest") or "")
    if whole and part is not None and part > whole:
        yield error(
            TIMEOUT_ABOVE_REQUEST,
            (*at, "timeouts", "backendRequest"),
            f"must be at most timeouts.request ({timeouts['request']}), got "
            f"{timeouts['backendRequest']}",
        )


def _path(at: Location, path: Manifest) -> Iterator[Finding]:
    value = path.get("value") or "/"
    if path.get("type") == "RegularExpression":
        return
    if not value.startswith("/") or _NOT_IN_PATHS.search(value) or not _PATH.fullmatch(value):
        yield error(
            INVALID_ROUTE_PATH,
            (*at, "value"),
            "must be an absolute path such as /v1/models, without //, /./ or #, got "
            f"{shown(value)}",
        )


def backend_findings(at: Location, backend: Manifest) -> Iterator[Finding]:
    """Checks a backend of a route or mirror, once it is known that it is not the pool."""
    service = not backend.get("group") and backend.get("kind") in (None, "Service")
    if service and backend.get("port") is None:
        yield error(BACKEND_WITHOUT_PORT, (*at, "port"), "is required for a Service")


def _filters(
    at: Location, filters: Sequence[Manifest], matches: Sequence[Manifest]
) -> Iterator[Finding]:
    kinds = [each["type"] for each in filters]
    if "RequestRedirect" in kinds and "URLRewrite" in kinds:
        message = "takes RequestRedirect or URLRewrite, not both; remove one of them"
        yield error(REDIRECT_WITH_REWRITE, at, message)
    for index, each in enumerate(filters):
        here = (*at, index)
        if each["type"] in _ONCE and each["type"] in kinds[:index]:
            yield error(FILTER_REPEATED, here, f"repeats {each['type']}; write them as one")
        yield from _filter(here, each)
        for name in ("requestRedirect", "urlRewrite"):
            path = (each.get(name) or {}).get("path")
            if path is not None:
                yield from _modifier((*here, name, "path"), path, matches)


def _filter(at: Location, each: Manifest) -> Iterator[Finding]:
    wanted = _FILTERS.get(each["type"])
    for field in _FILTERS.values():
        if (field == wanted) != (each.get(field) is not None):
            word = "is required for" if field == wanted else "does not belong to"
            yield error(FILTER_TYPE_MISMATCH, (*at, field), f"{word} a filter of {each['type']}")
    yield from _cors((*at, "cors"), each.get("cors") or {})
    if each.get("externalAuth") is not None:
        yield from _auth((*at, "externalAuth"), each["externalAuth"])
    mirror = each.get("requestMirror")
    if mirror is None:
        return
    at = (*at, "requestMirror")
    yield from backend_findings((*at, "backendRef"), mirror.get("backendRef") or {})
    share = mirror.get("fraction")
    if share is None:
        return
    if mirror.get("percent") is not None:
        yield error(MIRROR_SHARE_AMBIGUOUS, at, "takes percent or fraction, not both")
    if share["numerator"] > (share.get("denominator") or 100):
        yield error(MIRROR_SHARE_ABOVE_ONE, (*at, "fraction"), "is above 1")


def _cors(at: Location, cors: Manifest) -> Iterator[Finding]:
    for field in ("allowOrigins", "allowMethods"):
        values = cors.get(field) or ()
        if "*" in values and len(values) > 1:
            message = "takes * alone or a list without it; remove one of them"
            yield error(WILDCARD_BESIDE_OTHERS, (*at, field), message)


def _auth(at: Location, auth: Manifest) -> Iterator[Finding]:
    protocol = auth.get("protocol")
    for kind, field in (("GRPC", "grpc"), ("HTTP", "http")):
        if (protocol == kind) != (auth.get(field) is not None):
            word = "is required for" if protocol == kind else "does not belong to"
            message = f"{word} protocol {protocol}"
            yield error(AUTH_PROTOCOL_MISMATCH, (*at, field), message)


def _session(at: Location, session: Manifest) -> Iterator[Finding]:
    cookie = session.get("cookieConfig") or {}
    if cookie.get("lifetimeType") == "Permanent" and session.get("absoluteTimeout") is None:
        message = "is required with a cookie of lifetimeType Permanent"
        yield error(SESSION_WITHOUT_END, (*at, "absoluteTimeout"), message)


def _modifier(at: Location, path: Manifest, matches: Sequence[Manifest]) -> Iterator[Finding]:
    for kind, field in _REPLACED.items():
        if (path["type"] == kind) != (path.get(field) is not None):
            word = "is required for" if path["type"] == kind else "does not belong to"
            message = f"{word} a path of {path['type']}"
            yield error(PATH_MODIFIER_MISMATCH, (*at, field), message)
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
    seen: set[tuple[str, str]] = set()
    for index, address in enumerate(gateway.get("addresses") or ()):
        kind, value = address.get("type") or "IPAddress", address.get("value")
        here = (*at, "addresses", index, "value")
        if value is None or kind not in ("IPAddress", "Hostname"):
            continue
        if not _is_address(kind, value):
            yield error(INVALID_GATEWAY_ADDRESS, here, f"must be an {kind}, got {shown(value)}")
        if (kind, value) in seen:
            yield error(DUPLICATE_GATEWAY_ADDRESS, here, f"{shown(value)} is given twice")
        seen.add((kind, value))
    infrastructure = gateway.get("infrastructure") or {}
    for field in ("labels", "annotations"):
        for key in infrastructure.get(field) or ():
            found = label_key_finding((*at, "infrastructure", field, key), key)
            if found is not None:
                yield found


def _is_address(kind: str, value: str) -> bool:
    if kind == "Hostname":
        return value == "" or _HOST.fullmatch(value) is not None
    import ipaddress  # noqa: PLC0415  # start-up time: few Gateways have addresses

    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def listener_rule_findings(at: Location, listeners: Sequence[Manifest]) -> Iterator[Finding]:
    """Checks the listeners of a Gateway."""
    seen: set[tuple[Any, ...]] = set()
    for index, listener in enumerate(listeners):
        here, protocol, tls = (*at, index), listener["protocol"], listener.get("tls")
        host = listener.get("hostname")
        if protocol in ("TCP", "UDP") and host:
            message = f"does not belong to a listener of {protocol}; remove it"
            yield error(LISTENER_HOSTNAME_MISMATCH, (*here, "hostname"), message)
        if protocol in ("HTTP", "TCP", "UDP") and tls is not None:
            message = f"does not belong to a listener of {protocol}; remove it, or say HTTPS"
            yield error(LISTENER_TLS_MISMATCH, (*here, "tls"), message)
        elif tls is not None:
            yield from _tls((*here, "tls"), tls, protocol)
        if is_output(host):
            continue
        key = (listener["port"], protocol, host)
        if key in seen:
            message = f"port {listener['port']}, {protocol} and host name are those of another"
            yield error(DUPLICATE_LISTENER, here, message)
        seen.add(key)


def _tls(at: Location, tls: Manifest, protocol: str) -> Iterator[Finding]:
    mode = tls.get("mode") or "Terminate"
    if protocol == "HTTPS" and mode != "Terminate":
        message = f"must be Terminate for HTTPS, got {mode}"
        yield error(LISTENER_TLS_MISMATCH, (*at, "mode"), message)
    if mode == "Terminate" and not tls.get("certificateRefs") and not tls.get("options"):
        message = "must name a Secret with the certificate that TLS is terminated with"
        yield error(LISTENER_WITHOUT_CERTIFICATE, (*at, "certificateRefs"), message)
