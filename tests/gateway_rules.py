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


def path_match(value: str, kind: str | None = None) -> Spec:
    path = {"value": value} if kind is None else {"value": value, "type": kind}
    return rule(matches=[{"path": path}])


def rewrite(path: Spec, *matches: Spec) -> Spec:
    fields = {"matches": list(matches)} if matches else {}
    return rule(filters=[{"type": "URLRewrite", "urlRewrite": {"path": path}}], **fields)


def mirror(**fields: Any) -> Spec:
    mirror = {"backendRef": SERVICE, **fields}
    return rule(filters=[{"type": "RequestMirror", "requestMirror": mirror}])


def cors(**cors: Any) -> Spec:
    return rule(filters=[{"type": "CORS", "cors": cors}])


def auth(**auth: Any) -> Spec:
    return rule(filters=[{"type": "ExternalAuth", "externalAuth": {"backendRef": SERVICE, **auth}}])


PERMANENT = {"type": "Cookie", "cookieConfig": {"lifetimeType": "Permanent"}}

#: Specs of HTTPRoutes that violate a rule of the Gateway API, with the field.
ROUTES_BY_SERVER: list[tuple[Spec, str]] = [
    (rule(timeouts={"request": "1s", "backendRequest": "2s"}), "rules[0].timeouts.backendRequest"),
    (mirror(backendRef={"name": "s"}), "rules[0].filters[0].requestMirror.backendRef.port"),
    *(
        (path_match(value), "rules[0].matches[0].path.value")
        for value in ("v1", "//v1", "/a/./b", "/a%2fb", "/a#b", "/a/..", "/a b", "/%zz")
    ),
    (path_match("v1", "Exact"), "rules[0].matches[0].path.value"),
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
    (rewrite(PREFIX, {"path": {"type": "Exact", "value": "/a"}}), "rules[0]"),
    (rewrite(PREFIX, {"path": {"value": "/a"}}, {"path": {"value": "/b"}}), "rules[0]"),
    (rule(filters=[REDIRECT, REWRITE]), "rules[0].filters"),
    (rule(filters=[HEADER, HEADER]), "rules[0].filters[1]"),
    (
        rule(backendRefs=[{**SERVICE, "filters": [HEADER, HEADER]}]),
        "rules[0].backendRefs[0].filters[1]",
    ),
    (rewrite({"type": "ReplaceFullPath"}), "rules[0].filters[0].urlRewrite.path.replaceFullPath"),
    (
        rewrite({**FULL, "replacePrefixMatch": "/"}, {"path": {"value": "/a"}}),
        "rules[0].filters[0].urlRewrite.path.replacePrefixMatch",
    ),
    (mirror(percent=5, fraction={"numerator": 1}), "rules[0].filters[0].requestMirror"),
    (
        mirror(fraction={"numerator": 3, "denominator": 2}),
        "rules[0].filters[0].requestMirror.fraction",
    ),
]

#: The same for fields of the experimental channel.
EXPERIMENTAL_BY_SERVER: list[tuple[Spec, str]] = [
    (cors(allowOrigins=["*", "https://a.example.com"]), "rules[0].filters[0].cors.allowOrigins"),
    (cors(allowMethods=["GET", "*"]), "rules[0].filters[0].cors.allowMethods"),
    (auth(protocol="GRPC", grpc={}, http={}), "rules[0].filters[0].externalAuth.http"),
    (auth(protocol="HTTP"), "rules[0].filters[0].externalAuth.http"),
    (rule(sessionPersistence=PERMANENT), "rules[0].sessionPersistence.absoluteTimeout"),
]

ACCEPTED_EXPERIMENTAL: list[Spec] = [
    cors(allowOrigins=["*"], allowMethods=["*"]),
    cors(allowOrigins=["https://a.example.com"], allowMethods=["GET", "POST"]),
    auth(protocol="HTTP", http={"path": "/check"}),
    auth(protocol="GRPC", grpc={}),
    rule(sessionPersistence={**PERMANENT, "absoluteTimeout": "1h"}),
    rule(sessionPersistence={"cookieConfig": {"lifetimeType": "Session"}}),
]

#: Unusual specs of HTTPRoutes that the API server accepts.
ACCEPTED_ROUTES: list[Spec] = [
    {"parentRefs": [{"name": "g", "sectionName": "a"}, {"name": "g", "sectionName": "b"},
                    {"name": "h"}, {"name": "h", "namespace": "other"}]},
    {"rules": [{"name": "a"}, {"name": "b"}, {}, {}]},
    rule(backendRefs=[POOL, SERVICE]),
    rule(filters=[REDIRECT]),
    rule(timeouts={"request": "0s", "backendRequest": "10s"}),
    rule(timeouts={"request": "1m", "backendRequest": "60s"}),
    rule(filters=[HEADER, REWRITE]),
    rewrite(PREFIX),
    rewrite(PREFIX, {"path": {"value": "/a"}}),
    rewrite(PREFIX, {"headers": [{"name": "a", "value": "b"}]}),
    rewrite(FULL, {"path": {"type": "Exact", "value": "/a"}}),
    mirror(percent=5),
    mirror(fraction={"numerator": 3, "denominator": 3}),
    path_match("^v1.*$", "RegularExpression"),
    path_match("/a/b~c%20d;e=f,g:h@i!$&'()*+"),
    path_match("/a..b/.c"),
]  # fmt: skip

HTTP = {"name": "http", "port": 80, "protocol": "HTTP"}
CERTIFICATE = {"certificateRefs": [{"name": "c"}]}
HTTPS = {"name": "https", "port": 443, "protocol": "HTTPS", "tls": CERTIFICATE}


def gateway(*listeners: Spec, **fields: Any) -> Spec:
    return {"gatewayClassName": "eg", "listeners": list(listeners), **fields}


def gateway_at(*addresses: Spec) -> Spec:
    return gateway(HTTP, addresses=list(addresses))


#: Specs of Gateways that violate a rule of the Gateway API, with the field.
GATEWAYS_BY_SERVER: list[tuple[Spec, str]] = [
    (gateway({**HTTPS, "tls": {}}), "listeners[0].tls.certificateRefs"),
    (gateway(HTTP, {**HTTP, "name": "again"}), "listeners[1]"),
    (gateway(HTTP, infrastructure={"labels": {"a b": "c"}}), "infrastructure.labels[a b]"),
    (gateway({**HTTP, "tls": CERTIFICATE}), "listeners"),
    (gateway({**HTTPS, "tls": {"mode": "Passthrough"}}), "listeners"),
    (
        gateway({"name": "a", "port": 1, "protocol": "TCP", "hostname": "a.example.com"}),
        "listeners[0].hostname",
    ),
    (gateway_at({"value": "1.2.3"}), "addresses[0].value"),
    (gateway_at({"type": "Hostname", "value": "A b"}), "addresses[0].value"),
    (
        gateway_at({"value": "1.2.3.4"}, {"type": "IPAddress", "value": "1.2.3.4"}),
        "addresses[1].value",
    ),
]

ACCEPTED_GATEWAYS: list[Spec] = [
    gateway(HTTP, HTTPS),
    gateway({**HTTP, "hostname": "a.example.com"}, {**HTTP, "name": "b"}),
    gateway({**HTTPS, "tls": {"options": {"example.com/a": "b"}}}),
    gateway({**HTTPS, "protocol": "TLS", "tls": {"mode": "Passthrough"}}),
    gateway({"name": "a", "port": 1, "protocol": "TCP"}),
    gateway_at({"value": "1.2.3.4"}, {"value": "::1"}, {"type": "Hostname", "value": "a.b"}),
    gateway(HTTP, infrastructure={"labels": {"example.com/a": "b"}, "annotations": {"a": "b"}}),
]  # fmt: skip
