"""Pulumi components that put large language models on Kubernetes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusioninfer_pulumi.api import *  # noqa: F403  # the models: `api` is the list of them
    from fusioninfer_pulumi.capacity import Placement as Placement
    from fusioninfer_pulumi.capacity import place as place
    from fusioninfer_pulumi.capacity import read_inventory as read_inventory
    from fusioninfer_pulumi.capacity import read_placement as read_placement
    from fusioninfer_pulumi.checks.stages import plan_service as plan_service
    from fusioninfer_pulumi.checks.stages import plan_services as plan_services
    from fusioninfer_pulumi.component import Gateway as Gateway
    from fusioninfer_pulumi.component import HTTPRoute as HTTPRoute
    from fusioninfer_pulumi.component import InferencePool as InferencePool
    from fusioninfer_pulumi.component import InferenceService as InferenceService
    from fusioninfer_pulumi.component import LeaderWorkerSet as LeaderWorkerSet
    from fusioninfer_pulumi.component import PodGroup as PodGroup
    from fusioninfer_pulumi.component.prerequisites import (
        ServingPrerequisites as ServingPrerequisites,
    )
    from fusioninfer_pulumi.component.prerequisites import (
        ServingPrerequisitesArgs as ServingPrerequisitesArgs,
    )
    from fusioninfer_pulumi.findings import Finding as Finding
    from fusioninfer_pulumi.findings import InvalidServiceError as InvalidServiceError
    from fusioninfer_pulumi.findings import Severity as Severity
    from fusioninfer_pulumi.generated.dicts import *  # noqa: F403  # their dictionaries
    from fusioninfer_pulumi.loading import load as load
    from fusioninfer_pulumi.loading import load_inventory as load_inventory
    from fusioninfer_pulumi.loading import loads as loads
    from fusioninfer_pulumi.plan.objects import render as render
    from fusioninfer_pulumi.plan.service_plan import ServicePlan as ServicePlan
    from fusioninfer_pulumi.presets.model_service import model_service as model_service

#: The one place of the version, of the packages beside this one, too.
__version__ = "0.3.0.dev0"

# A name is loaded on first use: the command line reads manifests without Pulumi, and sets the
# process up before pydantic is imported. Every other public name comes from `api`.
_PACKAGES = {
    "capacity": ("Placement", "place", "read_inventory", "read_placement"),
    "component": (
        "Gateway",
        "HTTPRoute",
        "InferencePool",
        "InferenceService",
        "LeaderWorkerSet",
        "PodGroup",
    ),
    "component.prerequisites": ("ServingPrerequisites", "ServingPrerequisitesArgs"),
    "findings": ("Finding", "InvalidServiceError", "Severity"),
    "plan.objects": ("render",),
    "loading": ("load", "load_inventory", "loads"),
    "checks.stages": ("plan_service", "plan_services"),
    "plan.service_plan": ("ServicePlan",),
    "presets.model_service": ("model_service",),
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _public_names()
    package = next((package for package, names in _PACKAGES.items() if name in names), None)
    if package is None:
        package = "generated.dicts" if name.endswith("ArgsDict") else "api"
        if name.startswith("_") or name not in _public_names():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{package}"), name)
    globals()[name] = value
    return value


def _public_names() -> list[str]:
    """Every name that programs may use, sorted."""
    models = importlib.import_module(f"{__name__}.api").model_names()
    dicts = [f"{name}Dict" for name in models if name.endswith("Args")]
    listed = [name for names in _PACKAGES.values() for name in names]
    return sorted([*models, *dicts, *listed])


def __dir__() -> list[str]:
    return sorted({*globals(), *_public_names()})
