"""The URL of the service for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.routing.routing_plan import Routing

_DEFAULT_PORTS = {"http": 80, "https": 443}


def hosts_overlap(first: Any, second: Any) -> bool:
    """Return whether two host names, each possibly a wildcard, can match the same host."""
    if is_output(first) or is_output(second):
        return True
    if first.startswith("*."):
        # `*.a.com` overlaps with `b.a.com`, `*.b.a.com` and `*.com`.
        suffix = first[1:]
        return bool(second.endswith(suffix)) or (
            second.startswith("*.") and suffix.endswith(second[1:])
        )
    return hosts_overlap(second, first) if second.startswith("*.") else bool(first == second)


class Endpoint(NamedTuple):
    """The URL to which clients send requests.

    Attributes:
        host: Host name, which may be an Output; None if only the live Gateway's status will have an
            address.
        port: Port, or None if it is the scheme's default port.
    """

    scheme: str
    host: Any | None
    port: int | None

    def format_url(self, host: str) -> str:
        """Return the URL with this host name or address."""
        literal = f"[{host}]" if ":" in host else host
        return f"{self.scheme}://{literal}" + ("" if self.port is None else f":{self.port}")

    def format_gateway_url(self, status: Mapping[str, Any] | None) -> str:
        """Return the URL with the first address in a Gateway's status, empty while it has none."""
        addresses = (status or {}).get("addresses") or ()
        return self.format_url(str(addresses[0]["value"])) if addresses else ""


def find_endpoint(routing: Routing) -> Endpoint | None:
    """Return the endpoint of a service, or None without a route or without a host.

    The host is the first of: the route's first host name that a known listener accepts; the route's
    first host name; a listener's host name; the address of the service's own Gateway. Wildcards are
    ignored. The endpoint uses TLS if any listener for its host does. If no listener is known, it
    uses TLS if the port is 443.
    """
    if routing.route is None:
        return None
    hosts = routing.route.hostnames or ()
    exact_hosts = [host for host in hosts if not _is_wildcard(host)]
    candidates = [
        (listener, parent)
        for parent in routing.parents
        for listener in parent.listeners or ()
        if listener["protocol"] in ("HTTP", "HTTPS")
        and parent.section in (None, listener["name"])
        and parent.port in (None, listener["port"])
        and (
            not (hosts and listener.get("hostname"))
            or any(hosts_overlap(listener["hostname"], host) for host in hosts)
        )
    ]
    candidates.sort(key=lambda candidate: candidate[0]["protocol"] != "HTTPS")
    for host in exact_hosts:
        for listener, _ in candidates:
            if not listener.get("hostname") or hosts_overlap(listener["hostname"], host):
                return _build_endpoint(listener["protocol"], listener["port"], host)
    if exact_hosts:
        # No known listener accepts these names, but the parent references may have a port.
        ports = {parent.port for parent in routing.parents}
        port = ports.pop() if len(ports) == 1 else None
        protocol = "HTTPS" if port == _DEFAULT_PORTS["https"] else "HTTP"
        return _build_endpoint(protocol, port, exact_hosts[0])
    for listener, _ in candidates:
        hostname = listener.get("hostname")
        if hostname and not _is_wildcard(hostname):
            return _build_endpoint(listener["protocol"], listener["port"], hostname)
    if routing.gateway is not None:
        for listener, parent in candidates:
            if parent.name == routing.gateway.name:
                return _build_endpoint(listener["protocol"], listener["port"], None)
    return None


def _build_endpoint(protocol: str, port: int | None, host: Any) -> Endpoint:
    scheme = protocol.lower()
    return Endpoint(scheme, host, None if port == _DEFAULT_PORTS[scheme] else port)


def _is_wildcard(host: Any) -> bool:
    return not is_output(host) and str(host).startswith("*.")
