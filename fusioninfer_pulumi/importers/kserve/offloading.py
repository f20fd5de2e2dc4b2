"""KServe's kvCacheOffloading as ours, which has its words."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import Path
from fusioninfer_pulumi.importers.kserve.merging import Node, carry
from fusioninfer_pulumi.importers.kserve.presets import MAIN


def carry_offloading(carrier: Carrier, target: Path, workload: Node) -> None:
    """Carries the offloading of a workload's KV cache over.

    Args:
        carrier: The service.
        target: The role.
        workload: The block that describes it.
    """
    given = workload.get("kvCacheOffloading")
    if given is None:
        return
    ours = (*target, "kvCacheOffloading")
    carrier.origin(ours, given.at)
    for key in ("cpu", "evictionPolicy"):
        field = given.get(key)
        if field is not None:
            _text(carrier, (*ours, key), field)
    secondary = given.get("secondary")
    for index, tier in enumerate(secondary.items if secondary is not None else ()):
        here: Path = (*ours, "secondary", index, "fileSystem")
        carrier.origin(here, tier.at / "fileSystem")
        size = tier.get("fileSystem", "emptyDir", "size")
        claim = tier.get("fileSystem", "pvc")
        if size is not None:
            _text(carrier, (*here, "emptyDir", "size"), size)
        if claim is not None:
            carry(carrier, (*here, "pvc"), claim)
        if size is None and claim is None:
            carry(carrier, here, tier.get("fileSystem") or Node(tier.at, {}))
    if _starts_itself(workload.get("template")):
        carrier.book.note(
            given.at,
            "KServe tells only its presets' command about it; here the container's own is told too",
        )


def _text(carrier: Carrier, target: Path, field: Node) -> None:
    """Carries a quantity over, which is a text with us."""
    if isinstance(field.content, str):
        carry(carrier, target, field)
    else:
        carrier.derive(target, str(field.content), field.at)


def _starts_itself(pod: Node | None) -> bool:
    containers = pod.get("containers") if pod is not None else None
    return containers is not None and any(
        each.text("name") == MAIN and each.get("command") is not None for each in containers.items
    )
