"""Loads manifests, ours and those of other systems, for the library and the command line.

The only package that knows the importers.
"""

from __future__ import annotations

from fusioninfer_pulumi.loading.load import load, load_inventory, loads

__all__ = ["load", "load_inventory", "loads"]
