"""The objects of a router, one module per concern."""

from fusioninfer_pulumi.manifests.routing.objects import routing

__all__ = ["routing"]
