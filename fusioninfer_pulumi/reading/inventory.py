"""Reads inventories of node pools."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, error
from fusioninfer_pulumi.reading.read import file_text
from fusioninfer_pulumi.spec.inventory import INVENTORY_KIND, InventoryArgs, NodePoolArgs
from fusioninfer_pulumi.spec.inventory_document import examine_inventory
from fusioninfer_pulumi.spec.yaml_text import UnreadableError, documents

Inventory = (
    str | os.PathLike[str] | InventoryArgs | Mapping[str, Any] | Sequence[NodePoolArgs | Any]
)


def load_inventory(source: Inventory) -> InventoryArgs:
    """Reads the node pools of a cluster.

    Args:
        source: Path of a YAML or JSON file with one `NodePoolInventory`, or its fields
            (`pools` and `poolLabel`) alone, or a list of pools alone; or any of the three as
            plain data; or what was read already.

    Returns:
        The inventory.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        InvalidServiceError: The inventory was refused; all problems are listed.
    """
    if isinstance(source, InventoryArgs):
        return source
    raw, title = source, ""
    if isinstance(source, (str, os.PathLike)):
        title = str(source)
        raw = _only_document(file_text(Path(source)), title)
    read, problems = examine_inventory(raw)
    if read is None:
        raise InvalidServiceError(problems, title)
    return read


def _only_document(text: str, title: str) -> Any:
    try:
        read = list(documents(text))
    except UnreadableError as problem:
        raise InvalidServiceError([error("", str(problem))], title) from None
    if len(read) != 1:
        found = f"holds {len(read)} documents" if read else "is empty"
        raise InvalidServiceError([error("", f"{found}, wanted one {INVENTORY_KIND}")], title)
    return read[0]
