"""Whether a Gateway's listeners take the route, where they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, info
from fusioninfer_pulumi.kube.outputs import is_output, surely_equal
from fusioninfer_pulumi.routing.gateway import GROUP
from fusioninfer_pulumi.routing.route import ParentPlan

_HTTP = ("HTTP", "HTTPS")


def attachment_findings(
    namespace: Any, hostnames: Sequence[Any], parents: Sequence[ParentPlan]
) -> Iterator[Finding]:
    """Checks each Gateway that the route attaches to.

    Args:
        namespace: Namespace of the route; may be an Output.
        hostnames: The route's host names; each may be an Output.
        parents: The Gateways.

    Yields:
        An error where no listener takes the route; an `info` where that is not known and the
        Gateway's namespace is another one, which listeners keep out by default.
    """
    for parent in parents:
        if parent.listeners is None:
            if not surely_equal(parent.namespace, namespace) and not _unknown(parent, namespace):
                yield info(
                    "gateway-listeners-unknown",
                    parent.at,
                    f"Gateway {parent.name} is in namespace {parent.namespace}: its listeners must "
                    f"allow routes from namespace {namespace} (allowedRoutes.namespaces), which by "
                    "default they do not; with gateway.refs[].listeners this is checked",
                )
            continue
        meant = meant_listeners(parent)
        if not meant:
            yield error("listener-not-found", parent.at, _no_listener(parent))
            continue
        refusals = [_refusal(parent, listener, namespace, hostnames) for listener in meant]
        if all(refusals):
            told = "; ".join(
                f"{listener['name']}: {why}" for listener, why in zip(meant, refusals, strict=True)
            )
            yield error(
                "listeners-refuse-route",
                parent.at,
                f"no listener of Gateway {parent.name} takes the route: {told}",
            )


def meant_listeners(parent: ParentPlan) -> list[Mapping[str, Any]]:
    """The known listeners that a reference means."""
    return [
        listener
        for listener in parent.listeners or ()
        if parent.section in (None, listener["name"]) and parent.port in (None, listener["port"])
    ]


def takes(
    parent: ParentPlan, listener: Mapping[str, Any], namespace: Any, hostnames: Sequence[Any]
) -> bool:
    """Tells whether nothing is known that keeps a listener from taking the route."""
    return _refusal(parent, listener, namespace, hostnames) is None


def hosts_meet(one: Any, other: Any) -> bool:
    """Tells whether two host names, either with a wildcard, can mean the same host."""
    if is_output(one) or is_output(other):
        return True
    if one.startswith("*."):
        suffix = one[1:]
        return bool(other.endswith(suffix)) or (
            other.startswith("*.") and suffix.endswith(other[1:])
        )
    return hosts_meet(other, one) if other.startswith("*.") else bool(one == other)


def _refusal(
    parent: ParentPlan, listener: Mapping[str, Any], namespace: Any, hostnames: Sequence[Any]
) -> str | None:
    if listener["protocol"] not in _HTTP:
        return f"protocol {listener['protocol']} takes no HTTPRoute"
    allowed = listener.get("allowedRoutes") or {}
    kinds = allowed.get("kinds")
    if kinds and not any(
        kind.get("kind") == "HTTPRoute" and kind.get("group", GROUP) == GROUP for kind in kinds
    ):
        return "allowedRoutes.kinds has no HTTPRoute"
    source = (allowed.get("namespaces") or {}).get("from", "Same")
    if source == "None":
        return "allowedRoutes.namespaces.from is None"
    if (
        source == "Same"
        and not surely_equal(parent.namespace, namespace)
        and not _unknown(parent, namespace)
    ):
        return (
            f"it allows routes of its own namespace {parent.namespace} only, and the route is in "
            f"{namespace} (allowedRoutes.namespaces.from)"
        )
    host = listener.get("hostname")
    if host and hostnames and not any(hosts_meet(host, each) for each in hostnames):
        return f"its hostname {host} matches none of the route's"
    return None


def _unknown(parent: ParentPlan, namespace: Any) -> bool:
    return is_output(parent.namespace) or is_output(namespace)


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
