"""Rules of the API server about a NetworkPolicy's peers that its schema cannot say."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.router import NetworkPolicyArgs
from fusioninfer_pulumi.findings import Finding, Location, error, shown
from fusioninfer_pulumi.pods.validation.metadata import label_selector

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def policy_findings(at: Location, policy: NetworkPolicyArgs) -> Iterator[Finding]:
    """Checks the peers (`pkg/apis/networking/validation`, `ValidateNetworkPolicyPeer`)."""
    for field, peers in (("gateway", policy.gateway), ("metrics", policy.metrics or [])):
        for index, peer in enumerate(peers):
            yield from _peer((*at, field, index), peer)


def _peer(at: Location, peer: Mapping[str, Any]) -> Iterator[Finding]:
    selectors = [key for key in ("podSelector", "namespaceSelector") if peer.get(key) is not None]
    for key in selectors:
        yield from label_selector((*at, key), peer[key])
    block = peer.get("ipBlock")
    if block is not None and selectors:
        message = f"excludes {selectors[0]}; write two peers"
        yield error("ip-block-beside-selector", (*at, "ipBlock"), message)
    if isinstance(block, Mapping):
        yield from _block((*at, "ipBlock"), block)


def _block(at: Location, block: Mapping[str, Any]) -> Iterator[Finding]:
    whole, found = _network((*at, "cidr"), block.get("cidr"))
    yield from found
    excepted = block.get("except")
    for index, part in enumerate(excepted if isinstance(excepted, list) else ()):
        here = (*at, "except", index)
        inner, found = _network(here, part)
        yield from found
        if whole is not None and inner is not None and not _inside(inner, whole):
            message = f"must be a part of cidr ({block['cidr']}), got {shown(part)}"
            yield error("ip-block-not-within", here, message)


def _network(at: Location, value: Any) -> tuple[_Network | None, list[Finding]]:
    if not isinstance(value, str):
        return None, []  # the schema's to say
    try:
        return ipaddress.ip_network(_plain(value), strict=False), []
    except ValueError:
        message = f"must be a network such as 10.0.0.0/8, got {shown(value)}"
        return None, [error("invalid-network", at, message)]


def _plain(value: str) -> str:
    """A network without leading zeros, which the API server takes and Python does not."""
    address, _, length = value.partition("/")
    if not length.isdecimal():
        raise ValueError(value)
    if "." in address and ":" not in address:
        address = ".".join(part.lstrip("0") or "0" for part in address.split("."))
    return f"{address}/{int(length)}"


def _inside(inner: _Network, whole: _Network) -> bool:
    return (
        inner.version == whole.version
        and inner.network_address in whole
        and inner.prefixlen > whole.prefixlen
    )
