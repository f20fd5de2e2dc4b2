"""What every object of a service has in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
