"""Whether the listeners of Gateways allow the route, where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.routing.gateway import GROUP
from fusioninfer_pulumi.routing.route import ParentPlan

_HTTP = ("HTTP", "HTTPS")


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
    return refusal(parent, listener, namespace, hostnames) is None


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


def refusal(
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
    if source == "Same" and crosses_namespaces(parent, namespace):
        return (
            f"it allows routes of its own namespace {parent.namespace} only, and the route is in "
            f"{namespace} (allowedRoutes.namespaces.from)"
        )
    host = listener.get("hostname")
    if host and hostnames and not any(hosts_overlap(host, hostname) for hostname in hostnames):
        return f"its hostname {host} matches none of the route's"
    return None


def crosses_namespaces(parent: ParentPlan, namespace: Any) -> bool:
    """Whether a Gateway is surely in another namespace than the route."""
    known = not is_output(parent.namespace) and not is_output(namespace)
    return known and parent.namespace != namespace
