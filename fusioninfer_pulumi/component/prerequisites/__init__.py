"""Tells at preview whether a cluster has what its services need: a table, a check, a reader."""

from fusioninfer_pulumi.component.prerequisites.component import (
    TOKEN,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)

__all__ = ["TOKEN", "ServingPrerequisites", "ServingPrerequisitesArgs"]
