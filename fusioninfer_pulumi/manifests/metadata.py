"""Metadata of every object of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.plan.service_meta import ServiceMeta


def metadata(plan: ServiceMeta, name: str, own: Mapping[str, str]) -> dict[str, Any]:
    """Name, namespace, labels and annotations of one object.

    Args:
        plan: The service, whose own labels and annotations go on every object.
        name: Name of the object.
        own: The object's labels, which win.

    Returns:
        The metadata; the namespace is always written.
    """
    built: dict[str, Any] = {
        "name": name,
        "namespace": plan.namespace,
        "labels": {**plan.labels, **own},
    }
    if plan.annotations:
        built["annotations"] = dict(plan.annotations)
    return built
