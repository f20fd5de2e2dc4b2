"""Reads from live Gateways, pools and routes why no request gets through; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.routing.router import RouterPlan

Look = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """What a gateway's controller refuses.

    Attributes:
        reason: `GatewayNotReady`, `RouteNotAccepted` or `PoolNotAccepted`.
        message: The object, and the controller's words.
    """

    reason: str
    message: str


def refusal(router: RouterPlan, seen: Mapping[str, Look | None]) -> Refusal | None:
    """Tells whether a gateway's controller refuses one of a router's objects.

    Args:
        router: The service's router.
        seen: Live objects by Kubernetes name; absent or without a status where nobody has said
            anything yet, which is no refusal.

    Returns:
        The first refusal that speaks of an object as it is now, None where there is none.
    """
    named = [
        ("GatewayNotReady", "Gateway", router.gateway),
        ("RouteNotAccepted", "HTTPRoute", router.route),
        ("PoolNotAccepted", "InferencePool", router.pool if router.route else None),
    ]
    for reason, kind, planned in named:
        look = seen.get(planned.name) if planned is not None else None
        for parent, condition in _refused(look or {}):
            at = f" by Gateway {parent}" if parent else ""
            told = f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
            return Refusal(
                reason,
                f"{kind} {planned.name if planned else ''}: {condition['type']} is False{at}"
                + (f", {told}" if told else ""),
            )
    return None


def _refused(look: Look) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Gateway (empty for the object's own conditions) and condition of each refusal."""
    generation = (look.get("metadata") or {}).get("generation")
    status = look.get("status") or {}
    groups = [("", status.get("conditions") or ())]
    for parent in status.get("parents") or ():
        name = str((parent.get("parentRef") or {}).get("name") or "")
        groups.append((name, parent.get("conditions") or ()))
    for name, conditions in groups:
        for condition in conditions:
            if condition.get("type") not in ("Accepted", "Programmed", "ResolvedRefs"):
                continue
            observed = condition.get("observedGeneration")
            old = generation and observed is not None and int(observed) < int(generation)
            if condition.get("status") == "False" and not old:
                yield name, condition
