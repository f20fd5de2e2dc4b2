"""Pulumi components that put large language models on Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity
from fusioninfer_pulumi.manifests import render
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
    SchedulingStrategyArgs,
    StartupPolicy,
    Strategy,
    SubdomainPolicy,
    SubGroupPolicyArgs,
    SubGroupPolicyType,
    load,
    loads,
)

if TYPE_CHECKING:
    from fusioninfer_pulumi.component import InferenceService, LeaderWorkerSet, PodGroup

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
    "SchedulingStrategyArgs",
    "ServicePlan",
    "Severity",
    "StartupPolicy",
    "Strategy",
    "SubGroupPolicyArgs",
    "SubGroupPolicyType",
    "SubdomainPolicy",
    "load",
    "loads",
    "plan_service",
    "plan_services",
    "render",
]

# The command line reads manifests without Pulumi: what needs it is loaded on first use.
_LAZY = frozenset({"InferenceService", "LeaderWorkerSet", "PodGroup"})


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from fusioninfer_pulumi import component  # noqa: PLC0415

        return getattr(component, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
