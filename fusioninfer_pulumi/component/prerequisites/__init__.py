"""The ServingPrerequisites component: checks at preview what services need of a cluster."""

from fusioninfer_pulumi.component.prerequisites.component import (
    TOKEN,
    ServingPrerequisites,
    ServingPrerequisitesArgs,
)

__all__ = ["TOKEN", "ServingPrerequisites", "ServingPrerequisitesArgs"]
