"""HTTPRoutes and Gateways that only the API server rejects, and unusual ones that it accepts.

`tests/api` compares them with the schemas, `e2e` with the API server.
"""

from __future__ import annotations

from typing import Any

Spec = dict[str, Any]

POOL = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "p"}
SERVICE = {"name": "s", "port": 80}
HEADER = {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": ["x"]}}
REDIRECT = {"type": "RequestRedirect", "requestRedirect": {"hostname": "a.example.com"}}
REWRITE = {"type": "URLRewrite", "urlRewrite": {"hostname": "a.example.com"}}
PREFIX = {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}
FULL = {"type": "ReplaceFullPath", "replaceFullPath": "/a"}


def rule(**fields: Any) -> Spec:
    return {"rules": [fields]}


def at(value: str, kind: str | None = None) -> Spec:
    path = {"value": value} if kind is None else {"value": value, "type": kind}
    return rule(matches=[{"path": path}])


def rewritten(path: Spec, *matches: Spec) -> Spec:
    fields = {"matches": list(matches)} if matches else {}
    return rule(filters=[{"type": "URLRewrite", "urlRewrite": {"path": path}}], **fields)


def mirrored(**fields: Any) -> Spec:
    mirror = {"backendRef": SERVICE, **fields}
    return rule(filters=[{"type": "RequestMirror", "requestMirror": mirror}])


def shared(**cors: Any) -> Spec:
    return rule(filters=[{"type": "CORS", "cors": cors}])


def authorized(**auth: Any) -> Spec:
    return rule(filters=[{"type": "ExternalAuth", "externalAuth": {"backendRef": SERVICE, **auth}}])


PERMANENT = {"type": "Cookie", "cookieConfig": {"lifetimeType": "Permanent"}}

#: Specs of HTTPRoutes that break a rule of the Gateway API, with the field.
ROUTES_BY_SERVER: list[tuple[Spec, str]] = [
    (
        rule(timeouts={"request": "1s", "backendRequest": "2s"}),
        "rules[0].timeouts.backendRequest",
    ),
    (mirrored(backendRef={"name": "s"}), "rules[0].filters[0].requestMirror.backendRef.port"),
    *(
        (at(value), "rules[0].matches[0].path.value")
        for value in ("v1", "//v1", "/a/./b", "/a%2fb", "/a#b", "/a/..", "/a b", "/%zz")
    ),
    (at("v1", "Exact"), "rules[0].matches[0].path.value"),
    ({"parentRefs": [{"name": "g"}, {"name": "g"}]}, "parentRefs[1]"),
    ({"parentRefs": [{"name": "g"}, {"name": "g", "sectionName": "a"}]}, "parentRefs[1]"),
    (
        {
            "rules": [
                {"matches": [{"path": {"value": f"/{a}/{b}"}} for b in range(60)]} for a in range(3)
            ]
        },
        "rules",
    ),
    (rule(backendRefs=[SERVICE], filters=[REDIRECT]), "rules[0]"),
    (rule(filters=[{"type": "URLRewrite"}]), "rules[0].filters[0]"),
    (
        rule(
            filters=[
                {
                    **HEADER,
                    "type": "ResponseHeaderModifier",
                    "responseHeaderModifier": {"remove": ["x"]},
                }
            ]
        ),
        "rules[0].filters[0]",
    ),
    (rewritten(PREFIX, {"path": {"type": "Exact", "value": "/a"}}), "rules[0]"),
    (rewritten(PREFIX, {"path": {"value": "/a"}}, {"path": {"value": "/b"}}), "rules[0]"),
    (rule(filters=[REDIRECT, REWRITE]), "rules[0].filters"),
    (rule(filters=[HEADER, HEADER]), "rules[0].filters[1]"),
    (
        rule(backendRefs=[{**SERVICE, "filters": [HEADER, HEADER]}]),
        "rules[0].backendRefs[0].filters[1]",
    ),
    (rewritten({"type": "ReplaceFullPath"}), "rules[0].filters[0].urlRewrite.path.replaceFullPath"),
    (
        rewritten({**FULL, "replacePrefixMatch": "/"}, {"path": {"value": "/a"}}),
        "rules[0].filters[0].urlRewrite.path.replacePrefixMatch",
    ),
    (mirrored(percent=5, fraction={"numerator": 1}), "rules[0].filters[0].requestMirror"),
    (
        mirrored(fraction={"numerator": 3, "denominator": 2}),
        "rules[0].filters[0].requestMirror.fraction",
    ),
]

#: The same of fields that only the experimental channel has.
EXPERIMENTAL_BY_SERVER: list[tuple[Spec, str]] = [
    (shared(allowOrigins=["*", "https://a.example.com"]), "rules[0].filters[0].cors.allowOrigins"),
    (shared(allowMethods=["GET", "*"]), "rules[0].filters[0].cors.allowMethods"),
    (authorized(protocol="GRPC", grpc={}, http={}), "rules[0].filters[0].externalAuth.http"),
    (authorized(protocol="HTTP"), "rules[0].filters[0].externalAuth.http"),
    (rule(sessionPersistence=PERMANENT), "rules[0].sessionPersistence.absoluteTimeout"),
]

TAKEN_EXPERIMENTAL: list[Spec] = [
    shared(allowOrigins=["*"], allowMethods=["*"]),
    shared(allowOrigins=["https://a.example.com"], allowMethods=["GET", "POST"]),
    authorized(protocol="HTTP", http={"path": "/check"}),
    authorized(protocol="GRPC", grpc={}),
    rule(sessionPersistence={**PERMANENT, "absoluteTimeout": "1h"}),
    rule(sessionPersistence={"cookieConfig": {"lifetimeType": "Session"}}),
]

#: Specs of HTTPRoutes that are taken.
TAKEN_ROUTES: list[Spec] = [
    {"parentRefs": [{"name": "g", "sectionName": "a"}, {"name": "g", "sectionName": "b"},
                    {"name": "h"}, {"name": "h", "namespace": "other"}]},
    {"rules": [{"name": "a"}, {"name": "b"}, {}, {}]},
    rule(backendRefs=[POOL, SERVICE]),
    rule(filters=[REDIRECT]),
    rule(timeouts={"request": "0s", "backendRequest": "10s"}),
    rule(timeouts={"request": "1m", "backendRequest": "60s"}),
    rule(filters=[HEADER, REWRITE]),
    rewritten(PREFIX),
    rewritten(PREFIX, {"path": {"value": "/a"}}),
    rewritten(PREFIX, {"headers": [{"name": "a", "value": "b"}]}),
    rewritten(FULL, {"path": {"type": "Exact", "value": "/a"}}),
    mirrored(percent=5),
    mirrored(fraction={"numerator": 3, "denominator": 3}),
    at("^v1.*$", "RegularExpression"),
    at("/a/b~c%20d;e=f,g:h@i!$&'()*+"),
    at("/a..b/.c"),
]  # fmt: skip

HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}
CERTIFICATE = {"certificateRefs": [{"name": "c"}]}
HTTPS = {"name": "https", "port": 443, "protocol": "HTTPS", "tls": CERTIFICATE}


def listening(*listeners: Spec, **fields: Any) -> Spec:
    return {"gatewayClassName": "eg", "listeners": list(listeners), **fields}


def addressed(*addresses: Spec) -> Spec:
    return listening(HTTP, addresses=list(addresses))


#: The same for Gateways.
GATEWAYS_BY_SERVER: list[tuple[Spec, str]] = [
    (listening({**HTTPS, "tls": {}}), "listeners[0].tls.certificateRefs"),
    (listening(HTTP, {**HTTP, "name": "again"}), "listeners[1]"),
    (
        listening(HTTP, infrastructure={"labels": {"a b": "c"}}),
        "infrastructure.labels[a b]",
    ),
    (listening({**HTTP, "tls": CERTIFICATE}), "listeners"),
    (listening({**HTTPS, "tls": {"mode": "Passthrough"}}), "listeners"),
    (
        listening({"name": "a", "port": 1, "protocol": "TCP", "hostname": "a.example.com"}),
        "listeners[0].hostname",
    ),
    (addressed({"value": "1.2.3"}), "addresses[0].value"),
    (addressed({"type": "Hostname", "value": "A b"}), "addresses[0].value"),
    (
        addressed({"value": "1.2.3.4"}, {"type": "IPAddress", "value": "1.2.3.4"}),
        "addresses[1].value",
    ),
]

TAKEN_GATEWAYS: list[Spec] = [
    listening(HTTP, HTTPS),
    listening({**HTTP, "hostname": "a.example.com"}, {**HTTP, "name": "b"}),
    listening({**HTTPS, "tls": {"options": {"example.com/a": "b"}}}),
    listening({**HTTPS, "protocol": "TLS", "tls": {"mode": "Passthrough"}}),
    listening({"name": "a", "port": 1, "protocol": "TCP"}),
    addressed({"value": "1.2.3.4"}, {"value": "::1"}, {"type": "Hostname", "value": "a.b"}),
    listening(HTTP, infrastructure={"labels": {"example.com/a": "b"}, "annotations": {"a": "b"}}),
]  # fmt: skip
