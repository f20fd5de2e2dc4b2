"""Where KServe looks for an object that a service names without a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.kserve.backends import Backends

#: The namespace of KServe's own (POD_NAMESPACE of its controller, as its manifests install it).
SYSTEM = "kserve"
#: ConfigMaps of schedulers that are shared have such names.
SHARED = "config-scheduler-"

Objects = Mapping[tuple[Any, Any], Given]


@dataclass(frozen=True)
class Around:
    """What a service may name of the input that it stands in.

    Attributes:
        maps: ConfigMaps by namespace and name.
        backends: What KServe makes for those services of the input that have a router.
    """

    maps: Objects
    backends: Backends


def config_of(configs: Objects, namespace: Any, name: Any) -> Given | None:
    """An LLMInferenceServiceConfig: of the service's namespace, else of KServe's own."""
    return configs.get((namespace, name)) or configs.get((SYSTEM, name))


def map_namespaces(namespace: Any, name: str) -> tuple[Any, ...]:
    """Namespaces in which a scheduler's ConfigMap is looked for, in this order."""
    return (namespace, SYSTEM) if name.startswith(SHARED) else (namespace,)


def map_of(maps: Objects, namespace: Any, name: Any) -> Given | None:
    """A scheduler's ConfigMap."""
    places = map_namespaces(namespace, str(name))
    return next((maps[place, name] for place in places if (place, name) in maps), None)
