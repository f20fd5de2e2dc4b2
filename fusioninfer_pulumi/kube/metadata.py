"""What every object of a service has in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A Kubernetes object, or a part of one.
Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ServiceMeta:
    """What every object of a service has in its metadata.

    Attributes:
        service: Kubernetes name of the service.
        namespace: Namespace of every object; may be an Output.
        labels: The user's labels of every object.
        annotations: The user's annotations of every object.
    """

    service: str
    namespace: Any
    labels: Mapping[str, str]
    annotations: Mapping[str, Any]


def metadata(plan: ServiceMeta, name: str, own: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Name, namespace, labels and annotations of one object.

    Args:
        plan: The service, whose own labels and annotations go on every object.
        name: Name of the object.
        own: The object's own labels, which win.

    Returns:
        The metadata; the namespace is always written.
    """
    built: Manifest = {
        "name": name,
        "namespace": plan.namespace,
        "labels": {**plan.labels, **(own or {})},
    }
    if plan.annotations:
        built["annotations"] = dict(plan.annotations)
    return built
