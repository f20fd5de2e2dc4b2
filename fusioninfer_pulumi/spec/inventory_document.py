"""One inventory as it was given: validated, or with all its problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fusioninfer_pulumi.findings import Finding, error, shown
from fusioninfer_pulumi.spec.inventory import INVENTORY_KIND, InventoryArgs, InventoryManifest
from fusioninfer_pulumi.spec.messages import findings_of
from fusioninfer_pulumi.spec.service import API_VERSION


def examine_inventory(raw: Any) -> tuple[InventoryArgs | None, list[Finding]]:
    """Validates an inventory.

    Args:
        raw: A `NodePoolInventory`, its fields alone, or a list of pools alone.

    Returns:
        The inventory, None when it was refused, and why.
    """
    if isinstance(raw, (list, tuple)):
        raw = {"pools": list(raw)}
    if not isinstance(raw, Mapping):
        return None, [error("", f"must be a mapping, got {shown(raw)}")]
    manifest = any(key in raw for key in ("kind", "apiVersion", "spec"))
    if manifest:
        wrong = [
            error(key, f"must be {wanted}, got {shown(raw.get(key))}")
            for key, wanted in (("apiVersion", API_VERSION), ("kind", INVENTORY_KIND))
            if raw.get(key) != wanted
        ]
        if wrong:
            return None, wrong
    model = InventoryManifest if manifest else InventoryArgs
    try:
        read = model.model_validate(raw)
    except ValidationError as problem:
        return None, findings_of(problem, model)
    return (read.spec if isinstance(read, InventoryManifest) else read), []
