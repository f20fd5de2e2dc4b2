"""Pulumi components that put large language models on Kubernetes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusioninfer_pulumi.component import InferenceService, LeaderWorkerSet, PodGroup
    from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity
    from fusioninfer_pulumi.manifests.render import render
    from fusioninfer_pulumi.plan import ServicePlan, plan_service, plan_services
    from fusioninfer_pulumi.spec import (
        ComponentType,
        GangMode,
        GangPolicyArgs,
        InferenceServiceArgs,
        Launcher,
        MultinodeArgs,
        NetworkConfigArgs,
        RestartPolicy,
        RoleArgs,
        RoleOrder,
        RoleRolloutArgs,
        RolloutArgs,
        RolloutStrategy,
        SchedulingStrategyArgs,
        StartupPolicy,
        Strategy,
        SubdomainPolicy,
        SubGroupPolicyArgs,
        SubGroupPolicyType,
        WaitArgs,
        WaitLevel,
    )
    from fusioninfer_pulumi.spec.load import load, loads

__version__ = "0.1.0"

__all__ = [
    "ComponentType",
    "Finding",
    "GangMode",
    "GangPolicyArgs",
    "InferenceService",
    "InferenceServiceArgs",
    "InvalidServiceError",
    "Launcher",
    "LeaderWorkerSet",
    "MultinodeArgs",
    "NetworkConfigArgs",
    "PodGroup",
    "RestartPolicy",
    "RoleArgs",
    "RoleOrder",
    "RoleRolloutArgs",
    "RolloutArgs",
    "RolloutStrategy",
    "SchedulingStrategyArgs",
    "ServicePlan",
    "Severity",
    "StartupPolicy",
    "Strategy",
    "SubGroupPolicyArgs",
    "SubGroupPolicyType",
    "SubdomainPolicy",
    "WaitArgs",
    "WaitLevel",
    "load",
    "loads",
    "plan_service",
    "plan_services",
    "render",
]

# A name is loaded on first use: the command line reads manifests without Pulumi, and sets the
# process up before pydantic is imported. Every other public name comes from `spec`.
_ROOMS = {
    "component": ("InferenceService", "LeaderWorkerSet", "PodGroup"),
    "findings": ("Finding", "InvalidServiceError", "Severity"),
    "manifests": ("render",),
    "plan": ("ServicePlan", "plan_service", "plan_services"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = next((room for room, names in _ROOMS.items() if name in names), "spec")
    value = getattr(importlib.import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
