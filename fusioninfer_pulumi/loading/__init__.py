"""Loading of manifests, InferenceServices and those of other systems.

Only this package knows the importers.
"""

from __future__ import annotations

from fusioninfer_pulumi.loading.load import load, load_inventory, loads

__all__ = ["load", "load_inventory", "loads"]
