"""Metadata of a service's objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A Kubernetes object, or a part of one.
Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class ServiceMeta:
    """Metadata that all objects of a service share.

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


def metadata(
    plan: ServiceMeta, name: str, more_labels: Mapping[str, str] | None = None
) -> Manifest:
    """Returns the `metadata` of one object; its own labels win over the service's."""
    built: Manifest = {
        "name": name,
        "namespace": plan.namespace,
        "labels": {**plan.labels, **(more_labels or {})},
    }
    if plan.annotations:
        built["annotations"] = dict(plan.annotations)
    return built
