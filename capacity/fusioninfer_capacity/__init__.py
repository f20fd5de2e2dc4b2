"""The capacity package for fusioninfer-pulumi.

`fit` estimates whether a model fits its accelerators, `size` proposes layouts, `placement` chooses
node pools. `plugin` offers all three to the core.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusioninfer_capacity.placement.cluster import (
        read_inventory as read_inventory,
        read_placement as read_placement,
    )
    from fusioninfer_capacity.placement.placing import place as place
    from fusioninfer_capacity.placement.result import Placement as Placement

__all__ = ["Placement", "place", "read_inventory", "read_placement"]

# Loaded on first use, because checks of memory need none of them.
_MODULES = {
    "Placement": "placement.result",
    "place": "placement.placing",
    "read_inventory": "placement.cluster",
    "read_placement": "placement.cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
