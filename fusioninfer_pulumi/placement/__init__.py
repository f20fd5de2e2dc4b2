"""Chooses the node pools of the roles of several services together.

Pure: services and an inventory in, services with node selectors and an explanation out. Only
`cluster` reads a cluster, when it is called.
"""

from fusioninfer_pulumi.placement.cluster import read_inventory, read_placement
from fusioninfer_pulumi.placement.placing import place
from fusioninfer_pulumi.placement.result import Placement

__all__ = ["Placement", "place", "read_inventory", "read_placement"]
