"""KServe's scaling block as autoscaling of a role."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import Path
from fusioninfer_pulumi.importers.kserve.merging import Node, carry
from fusioninfer_pulumi.importers.kserve.stopping import stopped_by

_NEAREST = "state autoscaling with engine HPA or KEDA and its metrics"
_TRIGGER = ("serverAddress", "query", "threshold")


def carry_scaling(carrier: Carrier, target: Path, workload: Node) -> None:
    """Carries the scaling of a workload over; only KEDA's Prometheus triggers say what to follow.

    Args:
        carrier: The service.
        target: The role.
        workload: The block that describes it.
    """
    scaling, book = workload.get("scaling"), carrier.book
    if scaling is None:
        return
    if workload.get("replicas") is not None:
        book.refuse(
            scaling.at,
            "replicas and scaling are mutually exclusive; use scaling for autoscaled deployments "
            "or replicas for static deployments",
        )
        return
    if stopped_by(carrier.main) is not None:
        book.note(scaling.at, "left out while the service is stopped: a parked role has no scaler")
        # The sets keep their names when the service goes on.
        carrier.imply(("spec", "layout"), "PerRole", scaling.at)
        return
    _carry_triggers(carrier, target, scaling)


def _carry_triggers(carrier: Carrier, target: Path, scaling: Node) -> None:
    book = carrier.book
    metrics, address = _metrics(book, scaling)
    if not metrics or address is None:
        book.lost(scaling.at, f"KServe's variant autoscaler is not here; {_NEAREST}")
        return
    wva = scaling.get("wva")
    if wva is not None:
        book.lost(wva.at, f"KServe's variant autoscaler is not here; {_NEAREST}")
    ours = (*target, "autoscaling")
    for key in ("minReplicas", "maxReplicas"):
        field = scaling.get(key)
        if field is not None:
            carry(carrier, (*ours, key), field)
    keda = scaling.get("keda")
    assert keda is not None, "it has triggers"
    carrier.imply((*ours, "engine"), "KEDA", keda.at)
    carrier.derive((*ours, "prometheus"), address.content, address.at)
    lowest = scaling.get("minReplicas")
    if lowest is not None:
        # What the role starts with, before anybody scales it.
        carrier.imply((*target, "replicas"), lowest.content, lowest.at)
    for index, trigger in enumerate(metrics):
        for key, its in (("query", "query"), ("target", "threshold")):
            node = trigger.get("metadata", its)
            if node is not None:
                carry(carrier, (*ours, "metrics", index, key), node)
    # Sets of one replica each have no scale subresource that a role could be scaled by.
    carrier.imply(("spec", "layout"), "PerRole", scaling.at)
    for key, field in keda.content.items():
        if key != "triggers":
            book.lost(field.at, "autoscaling with KEDA has bounds, queries and their targets")


def _metrics(book: Book, scaling: Node) -> tuple[list[Node], Node | None]:
    """The triggers that we have too, and the Prometheus of them all."""
    found: list[Node] = []
    address: Node | None = None
    triggers = scaling.get("keda", "triggers")
    for trigger in triggers.items if triggers is not None else ():
        where = trigger.get("metadata", "serverAddress")
        if trigger.text("type") != "prometheus" or where is None:
            book.lost(trigger.at, "only triggers of type prometheus with a serverAddress are known")
            continue
        if address is not None and where.content != address.content:
            book.lost(trigger.at, f"all queries go to one Prometheus, here {address.content}")
            continue
        address = where
        found.append(trigger)
        book.read(where.at, trigger.at / "type")
        _rest(book, trigger)
    return found, address


def _rest(book: Book, trigger: Node) -> None:
    metadata: dict[str, Any] = trigger.content["metadata"].content
    for key, field in metadata.items():
        if key not in _TRIGGER:
            book.lost(field.at, "a metric has a query and a target")
    for key, field in trigger.content.items():
        if key not in ("type", "metadata"):
            book.lost(field.at, "a metric has a query and a target")
