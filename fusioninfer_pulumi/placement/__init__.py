"""Joint placement: which node pool each role of several services runs on.

Pure: services and an inventory in, services with node selectors and an explanation out. Only
`cluster` reads a cluster, when it is called.
"""

from fusioninfer_pulumi.placement.cluster import read_inventory, read_placement
from fusioninfer_pulumi.placement.joint import place
from fusioninfer_pulumi.placement.records import Placement

__all__ = ["Placement", "place", "read_inventory", "read_placement"]
