"""What the objects of a router share."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.metadata import ServiceMeta, metadata
from fusioninfer_pulumi.routing.records import RouterPlan

Manifest = dict[str, Any]


def router_metadata(plan: ServiceMeta, router: RouterPlan, name: str) -> Manifest:
    """Metadata of one object of a router."""
    return metadata(
        plan,
        name,
        {
            labels.SERVICE: plan.service,
            labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
            labels.ROLE_NAME: router.name,
        },
    )


def picker_labels(router: RouterPlan) -> dict[str, str]:
    """Labels by which the picker's pods, and no others, are found.

    They are no subset of what any serving pod carries, and the pods' other labels fit no selector
    of serving pods: see `labels.APP`.
    """
    return {
        labels.APP: router.picker.name,
        labels.COMPONENT_TYPE: ComponentType.ROUTER.value,
    }
