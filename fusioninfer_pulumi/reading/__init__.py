"""Reads manifests, ours and those of other systems: the one reader of library and command line.

The only room that knows that there are dialects.
"""

from fusioninfer_pulumi.reading.inventory import load_inventory
from fusioninfer_pulumi.reading.read import load, loads

__all__ = ["load", "load_inventory", "loads"]
