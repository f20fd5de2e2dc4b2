"""Rules of a router's `httproute` and `gateway`: what the Gateway API would refuse or ignore.

Only what is read or completed here is checked; the API server is the judge of the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import PydanticCustomError

from fusioninfer_pulumi.api.base import namespace_text
from fusioninfer_pulumi.api.pod_template import wanted
from fusioninfer_pulumi.api.problem import Problem
from fusioninfer_pulumi.api.router import (
    GatewayArgs,
    GatewayRefArgs,
    HttpRouteArgs,
    SplitArgs,
    leaf_problems,
)
from fusioninfer_pulumi.findings import Location, shown, similar
from fusioninfer_pulumi.kube.durations import is_for_routes
from fusioninfer_pulumi.kube.outputs import is_output

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


def httproute_problems(at: Location, route: HttpRouteArgs) -> Iterator[Problem]:
    """Checks the spec of an HTTPRoute.

    Args:
        at: Where it stands.
        route: The spec.

    Yields:
        Every problem.
    """
    for index, parent in enumerate(route.parent_refs or ()):
        here = (*at, "parentRefs", index)
        yield from leaf_problems(here, parent, ("namespace",))
        yield from _keys(here, parent, _PARENT_KEYS)
        yield from _reference(here, parent)
    for index, host in enumerate(route.hostnames or ()):
        if not is_output(host):
            yield from _host((*at, "hostnames", index), host)
    for index, rule in enumerate(route.rules or ()):
        yield from _rule((*at, "rules", index), rule)
    yield from _split((*at, "split"), route.split or ())
    yield from _elsewhere(at, route)


def _elsewhere(at: Location, route: HttpRouteArgs) -> Iterator[Problem]:
    said = route.elsewhere
    if said is None:
        return
    for field in sorted(route.model_fields_set):
        alias = HttpRouteArgs.model_fields[field].alias or field
        if alias != said and getattr(route, field) is not None:
            yield Problem(
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
            yield Problem((*at, "refs", index, "name"), f'"{ref.name}" is named twice', ref.name)


def _split(at: Location, shares: Sequence[SplitArgs]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, share in enumerate(shares):
        first = seen.setdefault(share.service, index)
        if first != index:
            yield Problem(
                (*at, index, "service"), f'"{share.service}" has a share already', share.service
            )
    total = sum(share.weight for share in shares)
    if total > 100:
        yield Problem(at, f"gives away {total} percent of the requests, of at most 100")


def gateway_problems(at: Location, gateway: GatewayArgs) -> Iterator[Problem]:
    """Checks the spec of a managed Gateway, or the references to existing ones.

    Args:
        at: Where it stands.
        gateway: The spec.

    Yields:
        Every problem.
    """
    if gateway.refs is not None:
        for field in _OWN:
            if field in gateway.model_fields_set and getattr(gateway, field):
                alias = GatewayArgs.model_fields[field].alias or field
                yield Problem(
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
        yield from leaf_problems((*at, alias), getattr(gateway, name), ("annotations",))


def _ref(at: Location, ref: GatewayRefArgs) -> Iterator[Problem]:
    yield from _listeners((*at, "listeners"), ref.listeners or ())


def _listeners(at: Location, listeners: Sequence[Mapping[str, Any]]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, listener in enumerate(listeners):
        here = (*at, index)
        yield from leaf_problems(here, listener, ("hostname",))
        yield from _keys(here, listener, _LISTENER_KEYS)
        yield from _named(here, listener)
        name = listener.get("name")
        if isinstance(name, str):
            first = seen.setdefault(name, index)
            if first != index:
                yield Problem((*here, "name"), f'"{name}" names two listeners', name)
        yield from _port((*here, "port"), listener.get("port"))
        if not isinstance(listener.get("protocol"), str):
            yield Problem((*here, "protocol"), wanted(listener.get("protocol"), "a string"))
        host = listener.get("hostname")
        if host is not None and not is_output(host):
            yield from _host((*here, "hostname"), host)
        yield from _tls((*here, "tls"), listener.get("tls"))
        yield from _allowed_routes((*here, "allowedRoutes"), listener.get("allowedRoutes"))


def _tls(at: Location, tls: Any) -> Iterator[Problem]:
    yield from _mapping(at, tls)
    if isinstance(tls, Mapping):
        for here, item in _mappings((*at, "certificateRefs"), tls.get("certificateRefs")):
            yield from (item,) if isinstance(item, Problem) else _reference(here, item)


def _allowed_routes(at: Location, allowed: Any) -> Iterator[Problem]:
    yield from _mapping(at, allowed)
    if isinstance(allowed, Mapping):
        yield from _mapping((*at, "namespaces"), allowed.get("namespaces"))
        for _, item in _mappings((*at, "kinds"), allowed.get("kinds")):
            if isinstance(item, Problem):
                yield item


def _rule(at: Location, rule: Mapping[str, Any]) -> Iterator[Problem]:
    yield from leaf_problems(at, rule, ("namespace",))
    yield from _keys(at, rule, _RULE_KEYS)
    timeouts = rule.get("timeouts")
    yield from _mapping((*at, "timeouts"), timeouts)
    if isinstance(timeouts, Mapping):
        yield from _keys((*at, "timeouts"), timeouts, _TIMEOUTS)
        for key, value in timeouts.items():
            if not isinstance(value, str) or not is_for_routes(value):
                yield Problem(
                    (*at, "timeouts", str(key)),
                    f"must be a duration such as 0s, 90s or 1h30m, got {shown(value)}",
                    value,
                )
    for key in ("backendRefs", "filters", "matches"):
        for here, item in _mappings((*at, key), rule.get(key)):
            if isinstance(item, Problem):
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
                    yield Problem(mirrored, wanted(backend, "a mapping"), backend)


def _mappings(at: Location, listed: Any) -> Iterator[tuple[Location, Mapping[str, Any] | Problem]]:
    """The items of a list that has to hold mappings; what is none comes as a problem."""
    if listed is not None and not isinstance(listed, list):
        yield at, Problem(at, wanted(listed, "a list"), listed)
        return
    for index, item in enumerate(listed or ()):
        here = (*at, index)
        wrong = not isinstance(item, Mapping)
        yield here, Problem(here, wanted(item, "a mapping"), item) if wrong else item


def _host(at: Location, host: Any) -> Iterator[Problem]:
    if not isinstance(host, str) or len(host) > 253 or _HOST.fullmatch(host) is None:
        yield Problem(
            at,
            "must be a host name such as api.example.com or *.example.com, without scheme and "
            f"port, got {shown(host)}",
            host,
        )


def _named(at: Location, item: Mapping[str, Any]) -> Iterator[Problem]:
    name = item.get("name")
    # An Output was reported with its place already.
    if not is_output(name) and (not isinstance(name, str) or not name):
        yield Problem((*at, "name"), wanted(name, "a name"), name)


def _reference(at: Location, item: Mapping[str, Any]) -> Iterator[Problem]:
    """Checks what names an object: a Gateway, a backend, a certificate."""
    yield from _named(at, item)
    for key in ("group", "kind", "sectionName"):
        if key in item and not isinstance(item[key], str) and not is_output(item[key]):
            yield Problem((*at, key), f"must be a string, got {shown(item[key])}", item[key])
    if "namespace" in item:
        try:
            namespace_text(item["namespace"])
        except PydanticCustomError as problem:
            yield Problem((*at, "namespace"), problem.message(), item["namespace"])
    if "port" in item:
        yield from _port((*at, "port"), item["port"])


def _port(at: Location, port: Any) -> Iterator[Problem]:
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536:
        yield Problem(at, wanted(port, "an integer from 1 to 65535"), port)


def _mapping(at: Location, value: Any) -> Iterator[Problem]:
    if value is not None and not isinstance(value, Mapping):
        yield Problem(at, wanted(value, "a mapping"), value)


def _keys(at: Location, item: Mapping[str, Any], known: Sequence[str]) -> Iterator[Problem]:
    for key in item:
        if not isinstance(key, str) or key in known:
            continue
        hint = similar(key, known)
        told = f"did you mean {hint}?" if hint else f"allowed: {', '.join(sorted(known))}"
        yield Problem((*at, key), f"unknown key{',' if hint else ';'} {told}")
