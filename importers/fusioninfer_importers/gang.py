"""The gang of systems whose pods are placed by the cluster's scheduler, each by itself."""

from __future__ import annotations

from fusioninfer_pulumi.plugins.importers import Location

VOLCANO = "volcano"
GANG_MODE: Location = ("spec", "schedulingStrategy", "gangPolicy", "mode")
PLACED_ALONE = (
    "not set: pods are placed one by one, as the other system does; schedulerName: volcano places "
    "them together"
)
