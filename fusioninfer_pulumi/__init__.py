"""Pulumi components that serve large language models on Kubernetes."""

from __future__ import annotations

import importlib
from typing import Any

#: The version of this package and of the companion packages.
__version__ = "0.3.0.dev0"

# Names are imported on first use, because the command line does not need Pulumi and configures the
# process before it imports pydantic. Names that are not listed are in `api` or `generated.dicts`.
_NAMES_BY_MODULE = {
    "capacity_package": ("Placement", "place", "read_inventory", "read_placement"),
    "component.inference_service": ("InferenceService",),
    "component.kubernetes_objects": (
        "Gateway",
        "HTTPRoute",
        "InferencePool",
        "LeaderWorkerSet",
        "PodGroup",
    ),
    "component.serving_prerequisites": ("ServingPrerequisites", "ServingPrerequisitesArgs"),
    "findings": ("Finding", "InvalidServiceError", "Severity"),
    "plan.service_objects": ("render",),
    "loading": ("load", "load_inventory", "loads"),
    "checks.plan_service": ("plan_service", "plan_services"),
    "plan.service_plan": ("ServicePlan",),
    "presets.model_service": ("model_service",),
}


def module_of(name: str) -> str | None:
    """Return the submodule that a public name is imported from, or None for other names."""
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return module
    if name.startswith("_") or name not in _public_names():
        return None
    return "generated.dicts" if name.endswith("ArgsDict") else "api"


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _public_names()
    module = module_of(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def _public_names() -> list[str]:
    """Return all public names, sorted."""
    api_types = importlib.import_module(f"{__name__}.api").public_types()
    dicts = [f"{name}Dict" for name in api_types if name.endswith("Args")]
    listed_names = [name for names in _NAMES_BY_MODULE.values() for name in names]
    return sorted([*api_types, *dicts, *listed_names])


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})
