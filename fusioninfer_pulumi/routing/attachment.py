"""Whether the listeners of Gateways allow the route, where they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, Rule, error, info
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.gateway import GROUP
from fusioninfer_pulumi.routing.route import ParentPlan

GATEWAY_LISTENERS_UNKNOWN = Rule(
    "gateway-listeners-unknown",
    "info",
    "A Gateway of another namespace allows routes of this one.",
    remedy="Check its `allowedRoutes.namespaces`, or give `gateway.refs[].listeners`.",
    source="https://gateway-api.sigs.k8s.io/guides/multiple-ns/",
)
LISTENER_NOT_FOUND = Rule(
    "listener-not-found",
    "error",
    "The Gateway has the listener that the route names.",
    remedy="Correct `sectionName` or `port`.",
)
LISTENERS_REFUSE_ROUTE = Rule(
    "listeners-refuse-route",
    "error",
    "A listener of the Gateway takes the route.",
    remedy="Change the listener's host name, namespaces or kinds, or the route.",
    source="https://gateway-api.sigs.k8s.io/reference/spec/",
)

_HTTP = ("HTTP", "HTTPS")


def attachment_findings(
    namespace: Any, hostnames: Sequence[Any], parents: Sequence[ParentPlan]
) -> Iterator[Finding]:
    """Checks each Gateway that a route of the given namespace and host names attaches to.

    An error where no listener allows the route. An `info` where the listeners are not known and
    the Gateway is in another namespace, whose routes listeners do not allow by default.
    """
    for parent in parents:
        if parent.listeners is None:
            if _crosses_namespaces(parent, namespace):
                yield info(
                    GATEWAY_LISTENERS_UNKNOWN,
                    parent.at,
                    f"Gateway {parent.name} is in namespace {parent.namespace}: its listeners must "
                    f"allow routes from namespace {namespace} (allowedRoutes.namespaces), which by "
                    "default they do not; with gateway.refs[].listeners this is checked",
                )
            continue
        listeners = referenced_listeners(parent)
        if not listeners:
            yield error(LISTENER_NOT_FOUND, parent.at, _no_listener(parent))
            continue
        refusals = [_refusal(parent, listener, namespace, hostnames) for listener in listeners]
        if all(refusals):
            reasons = "; ".join(
                f"{listener['name']}: {reason}"
                for listener, reason in zip(listeners, refusals, strict=True)
            )
            yield error(
                LISTENERS_REFUSE_ROUTE,
                parent.at,
                f"no listener of Gateway {parent.name} takes the route: {reasons}",
            )


def referenced_listeners(parent: ParentPlan) -> list[Mapping[str, Any]]:
    """The known listeners that a reference to a Gateway selects."""
    return [
        listener
        for listener in parent.listeners or ()
        if parent.section in (None, listener["name"]) and parent.port in (None, listener["port"])
    ]


def allows_route(
    parent: ParentPlan, listener: Mapping[str, Any], namespace: Any, hostnames: Sequence[Any]
) -> bool:
    """Whether a listener allows the route, as far as is known."""
    return _refusal(parent, listener, namespace, hostnames) is None


def hosts_overlap(one: Any, other: Any) -> bool:
    """Whether two host names, each possibly a wildcard, can match the same host."""
    if is_output(one) or is_output(other):
        return True
    if one.startswith("*."):
        suffix = one[1:]
        return bool(other.endswith(suffix)) or (
            other.startswith("*.") and suffix.endswith(other[1:])
        )
    return hosts_overlap(other, one) if other.startswith("*.") else bool(one == other)


def _refusal(
    parent: ParentPlan, listener: Mapping[str, Any], namespace: Any, hostnames: Sequence[Any]
) -> str | None:
    """Why a listener does not allow the route, None if it does."""
    if listener["protocol"] not in _HTTP:
        return f"protocol {listener['protocol']} takes no HTTPRoute"
    allowed = listener.get("allowedRoutes") or {}
    kinds = allowed.get("kinds")
    if kinds and not any(
        kind.get("kind") == "HTTPRoute" and kind.get("group", GROUP) == GROUP for kind in kinds
    ):
        return "allowedRoutes.kinds has no HTTPRoute"
    source = (allowed.get("namespaces") or {}).get("from", "Same")
    if source == "Same" and _crosses_namespaces(parent, namespace):
        return (
            f"it allows routes of its own namespace {parent.namespace} only, and the route is in "
            f"{namespace} (allowedRoutes.namespaces.from)"
        )
    host = listener.get("hostname")
    if host and hostnames and not any(hosts_overlap(host, each) for each in hostnames):
        return f"its hostname {host} matches none of the route's"
    return None


def _crosses_namespaces(parent: ParentPlan, namespace: Any) -> bool:
    """Whether a Gateway is surely in another namespace than the route."""
    known = not is_output(parent.namespace) and not is_output(namespace)
    return known and parent.namespace != namespace


def _no_listener(parent: ParentPlan) -> str:
    wanted = [
        text
        for text in (
            f"sectionName {parent.section}" if parent.section is not None else "",
            f"port {parent.port}" if parent.port is not None else "",
        )
        if text
    ]
    has = ", ".join(f"{each['name']} {each['port']}" for each in parent.listeners or ())
    return f"Gateway {parent.name} has no listener of {' and '.join(wanted)}; it has {has}"
