"""A router's `httproute` and `gateway`: fields of the Gateway API, passed on as they are.

Only what is read or completed here is checked; the API server checks the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import mismatch
from fusioninfer_pulumi.api.types import (
    AnnotationMap,
    LeafText,
    Name,
    Namespace,
    PassedText,
    Port,
    known_json_findings,
    namespace_finding,
)
from fusioninfer_pulumi.findings import Finding, Location, error, shown, similar
from fusioninfer_pulumi.kube.durations import is_for_routes
from fusioninfer_pulumi.kube.outputs import is_output

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fusioninfer_pulumi.api import dicts


class SplitArgs(SpecModel):
    """A share of the requests for another service of the namespace, such as a canary."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.SplitArgsDict]) -> None: ...

    service: Name
    """Name of the service; its router says `routedBy`."""

    weight: Annotated[int, Field(ge=0, le=100)]
    """Percent of the requests that go to its pool; what is left of 100 stays here."""


class HttpRouteRefArgs(SpecModel):
    """An HTTPRoute that is made elsewhere."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.HttpRouteRefArgsDict]) -> None: ...

    name: str = Field(min_length=1)
    """Its name."""

    namespace: Namespace | None = None
    """Its namespace, by default the service's; may be an Output."""


class HttpRouteArgs(SpecModel):
    """The spec of the service's HTTPRoute, kept whole; or whose route leads to the service."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.HttpRouteArgsDict]) -> None: ...

    parent_refs: list[dict[str, Any]] | None = None
    """Gateways that the route attaches to; by default those of `gateway`."""

    hostnames: list[LeafText] | None = None
    """Host names that the route answers to; each may be an Output."""

    rules: list[dict[str, Any]] | None = None
    """Rules; one without `backendRefs` leads to the service's pool, and so does the default."""

    use_default_gateways: str | None = None
    """Attaches the route to the cluster's default Gateways (Gateway API 1.4, experimental)."""

    split: Annotated[list[SplitArgs], Field(min_length=1)] | None = None
    """Shares of other services in the requests of the rules without `backendRefs`; by default none.
    Not every gateway takes several pools in one rule (docs/routing.md)."""

    routed_by: Name | None = None
    """The service whose route leads to this one's pool; none is made here then."""

    refs: Annotated[list[HttpRouteRefArgs], Field(min_length=1)] | None = None
    """HTTPRoutes made elsewhere that lead to this one's pool; none is made here then."""

    @property
    def elsewhere(self) -> str | None:
        """The field that says whose route leads to the pool, where none is made here."""
        if self.routed_by is not None:
            return "routedBy"
        return None if self.refs is None else "refs"


class GatewayRefArgs(SpecModel):
    """A Gateway that exists already."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.GatewayRefArgsDict]) -> None: ...

    name: str = Field(min_length=1)
    """Its name."""

    namespace: Namespace | None = None
    """Its namespace, by default the service's; may be an Output."""

    section_name: str | None = None
    """The one listener to attach to, by default all that take the route."""

    port: Port | None = None
    """The listeners' port to attach to, by default any."""

    listeners: list[dict[str, Any]] | None = None
    """The Gateway's listeners as far as they are known: with them the attachment is checked and
    the endpoint has the right scheme and port. They are not written anywhere."""


class GatewayArgs(SpecModel):
    """Gateways that exist (`refs`), or the spec of one that belongs to the service."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.GatewayArgsDict]) -> None: ...

    implementation: str | None = Field(default=None, min_length=1)
    """The gateway software: `envoy-ai-gateway`, `agentgateway`, `istio`, `nginx-gateway-fabric`
    or `gke`. What it needs beside the route is then generated; class names do not tell.
    Alone, beside `parentRefs` or `routedBy`, it creates no Gateway."""

    refs: Annotated[list[GatewayRefArgs], Field(min_length=1)] | None = None
    """Existing Gateways; without it a Gateway is created."""

    gateway_class_name: PassedText | None = None
    """GatewayClass of the created Gateway; by default that of `implementation`, else `eg`. May be
    an Output."""

    listeners: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    """Its listeners; by default HTTP on port 80."""

    addresses: list[dict[str, Any]] | None = None
    """Its addresses."""

    infrastructure: dict[str, Any] | None = None
    """Labels, annotations and parameters of what the implementation creates for it."""

    allowed_listeners: dict[str, Any] | None = None
    """Which ListenerSets may add listeners to it."""

    tls: dict[str, Any] | None = None
    """TLS of the Gateway as a whole."""

    default_scope: str | None = None
    """Whether it is a default Gateway (Gateway API 1.4, experimental)."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the Gateway object; values may be Outputs."""


_PARENT_KEYS = ("group", "kind", "namespace", "name", "sectionName", "port")
_RULE_KEYS = (
    "name",
    "matches",
    "filters",
    "backendRefs",
    "timeouts",
    "retry",
    "sessionPersistence",
)
_BACKEND_KEYS = ("group", "kind", "namespace", "name", "port", "weight", "filters")
_TIMEOUTS = ("request", "backendRequest")
_LISTENER_KEYS = ("name", "hostname", "port", "protocol", "tls", "allowedRoutes")
#: Fields of a Gateway's own spec: a Gateway that exists is not described by us.
_OWN = (
    "gateway_class_name",
    "listeners",
    "addresses",
    "infrastructure",
    "allowed_listeners",
    "tls",
    "default_scope",
    "annotations",
)

# gateway.networking.k8s.io_httproutes.yaml: Hostname.
_HOST = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def httproute_findings(at: Location, route: HttpRouteArgs) -> Iterator[Finding]:
    """Checks the spec of an HTTPRoute, each field of which is valid."""
    for index, parent in enumerate(route.parent_refs or ()):
        here = (*at, "parentRefs", index)
        yield from known_json_findings(here, parent, ("namespace",))
        yield from _keys(here, parent, _PARENT_KEYS)
        yield from _reference(here, parent)
    for index, host in enumerate(route.hostnames or ()):
        if not is_output(host):
            yield from _host((*at, "hostnames", index), host)
    for index, rule in enumerate(route.rules or ()):
        yield from _rule((*at, "rules", index), rule)
    yield from _split((*at, "split"), route.split or ())
    yield from _elsewhere(at, route)


def _elsewhere(at: Location, route: HttpRouteArgs) -> Iterator[Finding]:
    said = route.elsewhere
    if said is None:
        return
    for field in sorted(route.model_fields_set):
        alias = HttpRouteArgs.model_fields[field].alias or field
        if alias != said and getattr(route, field) is not None:
            yield error(
                "field-of-external-route",
                (*at, alias),
                f"belongs to a route, and none is made here: another one leads to the pool "
                f"({said}); give one or the other",
            )
    seen: dict[tuple[str, str], int] = {}
    for index, ref in enumerate(route.refs or ()):
        if is_output(ref.namespace):
            continue
        first = seen.setdefault((ref.name, str(ref.namespace)), index)
        if first != index:
            yield error(
                "duplicate-route-reference",
                (*at, "refs", index, "name"),
                f'"{ref.name}" is named twice',
            )


def _split(at: Location, shares: Sequence[SplitArgs]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, share in enumerate(shares):
        first = seen.setdefault(share.service, index)
        if first != index:
            yield error(
                "duplicate-split-service",
                (*at, index, "service"),
                f'"{share.service}" has a share already',
            )
    total = sum(share.weight for share in shares)
    if total > 100:
        yield error(
            "split-above-100-percent",
            at,
            f"gives away {total} percent of the requests, of at most 100",
        )


def gateway_findings(at: Location, gateway: GatewayArgs) -> Iterator[Finding]:
    """Checks the spec of a Gateway, or the references to existing ones."""
    if gateway.refs is not None:
        for field in _OWN:
            if field in gateway.model_fields_set and getattr(gateway, field):
                alias = GatewayArgs.model_fields[field].alias or field
                yield error(
                    "field-of-created-gateway",
                    (*at, alias),
                    "belongs to a Gateway that is created here, and refs name existing ones; "
                    "give one or the other",
                )
        for index, ref in enumerate(gateway.refs):
            yield from _ref((*at, "refs", index), ref)
        return
    yield from _listeners((*at, "listeners"), gateway.listeners or ())
    for name in ("addresses", "infrastructure", "allowed_listeners", "tls"):
        alias = GatewayArgs.model_fields[name].alias or name
        yield from known_json_findings((*at, alias), getattr(gateway, name), ("annotations",))


def _ref(at: Location, ref: GatewayRefArgs) -> Iterator[Finding]:
    yield from _listeners((*at, "listeners"), ref.listeners or ())


def _listeners(at: Location, listeners: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, listener in enumerate(listeners):
        here = (*at, index)
        yield from known_json_findings(here, listener, ("hostname",))
        yield from _keys(here, listener, _LISTENER_KEYS)
        yield from _named(here, listener)
        name = listener.get("name")
        if isinstance(name, str):
            first = seen.setdefault(name, index)
            if first != index:
                yield error(
                    "duplicate-listener-name", (*here, "name"), f'"{name}" names two listeners'
                )
        yield from _port((*here, "port"), listener.get("port"))
        if not isinstance(listener.get("protocol"), str):
            yield mismatch((*here, "protocol"), listener.get("protocol"), "a string")
        host = listener.get("hostname")
        if host is not None and not is_output(host):
            yield from _host((*here, "hostname"), host)
        yield from _tls((*here, "tls"), listener.get("tls"))
        yield from _allowed_routes((*here, "allowedRoutes"), listener.get("allowedRoutes"))


def _tls(at: Location, tls: Any) -> Iterator[Finding]:
    yield from _mapping(at, tls)
    if isinstance(tls, Mapping):
        for here, item in _mappings((*at, "certificateRefs"), tls.get("certificateRefs")):
            yield from (item,) if isinstance(item, Finding) else _reference(here, item)


def _allowed_routes(at: Location, allowed: Any) -> Iterator[Finding]:
    yield from _mapping(at, allowed)
    if isinstance(allowed, Mapping):
        yield from _mapping((*at, "namespaces"), allowed.get("namespaces"))
        for _, item in _mappings((*at, "kinds"), allowed.get("kinds")):
            if isinstance(item, Finding):
                yield item


def _rule(at: Location, rule: Mapping[str, Any]) -> Iterator[Finding]:
    yield from known_json_findings(at, rule, ("namespace",))
    yield from _keys(at, rule, _RULE_KEYS)
    timeouts = rule.get("timeouts")
    yield from _mapping((*at, "timeouts"), timeouts)
    if isinstance(timeouts, Mapping):
        yield from _keys((*at, "timeouts"), timeouts, _TIMEOUTS)
        for key, value in timeouts.items():
            if not isinstance(value, str) or not is_for_routes(value):
                yield error(
                    "invalid-duration",
                    (*at, "timeouts", str(key)),
                    f"must be a duration such as 0s, 90s or 1h30m, got {shown(value)}",
                )
    for key in ("backendRefs", "filters", "matches"):
        for here, item in _mappings((*at, key), rule.get(key)):
            if isinstance(item, Finding):
                yield item
            elif key == "backendRefs":
                yield from _keys(here, item, _BACKEND_KEYS)
                yield from _reference(here, item)
            elif isinstance(item.get("requestMirror"), Mapping):
                mirrored = (*here, "requestMirror", "backendRef")
                backend = item["requestMirror"].get("backendRef")
                if isinstance(backend, Mapping):
                    yield from _reference(mirrored, backend)
                else:
                    yield mismatch(mirrored, backend, "a mapping")


def _mappings(at: Location, listed: Any) -> Iterator[tuple[Location, Mapping[str, Any] | Finding]]:
    """The items of a list that has to hold mappings; what is none comes as a problem."""
    if listed is not None and not isinstance(listed, list):
        yield at, mismatch(at, listed, "a list")
        return
    for index, item in enumerate(listed or ()):
        here = (*at, index)
        wrong = not isinstance(item, Mapping)
        yield here, mismatch(here, item, "a mapping") if wrong else item


def _host(at: Location, host: Any) -> Iterator[Finding]:
    if not isinstance(host, str) or len(host) > 253 or _HOST.fullmatch(host) is None:
        yield error(
            "invalid-hostname",
            at,
            "must be a host name such as api.example.com or *.example.com, without scheme and "
            f"port, got {shown(host)}",
        )


def _named(at: Location, item: Mapping[str, Any]) -> Iterator[Finding]:
    name = item.get("name")
    # An Output was reported with its place already.
    if not is_output(name) and (not isinstance(name, str) or not name):
        yield mismatch((*at, "name"), name, "a name")


def _reference(at: Location, item: Mapping[str, Any]) -> Iterator[Finding]:
    """Checks what names an object: a Gateway, a backend, a certificate."""
    yield from _named(at, item)
    for key in ("group", "kind", "sectionName"):
        if key in item and not isinstance(item[key], str) and not is_output(item[key]):
            yield error("wrong-type", (*at, key), f"must be a string, got {shown(item[key])}")
    if "namespace" in item:
        found = namespace_finding((*at, "namespace"), item["namespace"])
        if found is not None:
            yield found
    if "port" in item:
        yield from _port((*at, "port"), item["port"])


def _port(at: Location, port: Any) -> Iterator[Finding]:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        yield mismatch(at, port, "an integer from 1 to 65535")


def _mapping(at: Location, value: Any) -> Iterator[Finding]:
    if value is not None and not isinstance(value, Mapping):
        yield mismatch(at, value, "a mapping")


def _keys(at: Location, item: Mapping[str, Any], known: Sequence[str]) -> Iterator[Finding]:
    for key in item:
        if not isinstance(key, str) or key in known:
            continue
        hint = similar(key, known)
        told = f"did you mean {hint}?" if hint else f"allowed: {', '.join(sorted(known))}"
        yield error("unknown-key", (*at, key), f"unknown key{',' if hint else ';'} {told}")
