"""Pulumi components that put large language models on Kubernetes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusioninfer_pulumi.api import (
        AutoscalingArgs,
        AutoscalingEngine,
        AutoscalingMetricArgs,
        ComponentType,
        DeviceArgs,
        DeviceRequirementArgs,
        DisruptionBudgetArgs,
        EndpointPickerArgs,
        FailureMode,
        GangMode,
        GangPolicyArgs,
        GatewayArgs,
        GatewayRefArgs,
        HttpRouteArgs,
        InferenceServiceArgs,
        InventoryArgs,
        KvCacheOffloadingArgs,
        KvEventsArgs,
        KvRole,
        KvTransferArgs,
        Launcher,
        MetricsMode,
        MetricSource,
        MonitoringArgs,
        MultinodeArgs,
        NetworkConfigArgs,
        NetworkPolicyArgs,
        NodePoolArgs,
        PickerTlsArgs,
        PoolArgs,
        PrefillDecodeRatioArgs,
        RestartPolicy,
        RoleArgs,
        RoleOrder,
        RolePlacementArgs,
        RoleRolloutArgs,
        RolloutArgs,
        RolloutStrategy,
        SchedulingStrategyArgs,
        ServicePlacementArgs,
        SidecarArgs,
        SidecarConnector,
        StartupArgs,
        StartupPolicy,
        Strategy,
        SubdomainPolicy,
        SubGroupPolicyArgs,
        SubGroupPolicyType,
        TaintArgs,
        TaintEffect,
        TokenSecretArgs,
        TopologySpreadArgs,
        TracingArgs,
        UnhealthyPods,
        WaitArgs,
        WaitLevel,
        WhenUnsatisfiable,
    )
    from fusioninfer_pulumi.component import (
        Gateway,
        HTTPRoute,
        InferencePool,
        InferenceService,
        LeaderWorkerSet,
        PodGroup,
    )
    from fusioninfer_pulumi.component.prerequisites import (
        ServingPrerequisites,
        ServingPrerequisitesArgs,
    )
    from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity
    from fusioninfer_pulumi.loading import load, load_inventory, loads
    from fusioninfer_pulumi.objects import render
    from fusioninfer_pulumi.placement import Placement, place, read_inventory, read_placement
    from fusioninfer_pulumi.planning import plan_service, plan_services
    from fusioninfer_pulumi.service_plan import ServicePlan

__version__ = "0.1.0"

__all__ = [
    "AutoscalingArgs",
    "AutoscalingEngine",
    "AutoscalingMetricArgs",
    "ComponentType",
    "DeviceArgs",
    "DeviceRequirementArgs",
    "DisruptionBudgetArgs",
    "EndpointPickerArgs",
    "FailureMode",
    "Finding",
    "GangMode",
    "GangPolicyArgs",
    "Gateway",
    "GatewayArgs",
    "GatewayRefArgs",
    "HTTPRoute",
    "HttpRouteArgs",
    "InferencePool",
    "InferenceService",
    "InferenceServiceArgs",
    "InvalidServiceError",
    "InventoryArgs",
    "KvCacheOffloadingArgs",
    "KvEventsArgs",
    "KvRole",
    "KvTransferArgs",
    "Launcher",
    "LeaderWorkerSet",
    "MetricSource",
    "MetricsMode",
    "MonitoringArgs",
    "MultinodeArgs",
    "NetworkConfigArgs",
    "NetworkPolicyArgs",
    "NodePoolArgs",
    "PickerTlsArgs",
    "Placement",
    "PodGroup",
    "PoolArgs",
    "PrefillDecodeRatioArgs",
    "RestartPolicy",
    "RoleArgs",
    "RoleOrder",
    "RolePlacementArgs",
    "RoleRolloutArgs",
    "RolloutArgs",
    "RolloutStrategy",
    "SchedulingStrategyArgs",
    "ServicePlacementArgs",
    "ServicePlan",
    "ServingPrerequisites",
    "ServingPrerequisitesArgs",
    "Severity",
    "SidecarArgs",
    "SidecarConnector",
    "StartupArgs",
    "StartupPolicy",
    "Strategy",
    "SubGroupPolicyArgs",
    "SubGroupPolicyType",
    "SubdomainPolicy",
    "TaintArgs",
    "TaintEffect",
    "TokenSecretArgs",
    "TopologySpreadArgs",
    "TracingArgs",
    "UnhealthyPods",
    "WaitArgs",
    "WaitLevel",
    "WhenUnsatisfiable",
    "load",
    "load_inventory",
    "loads",
    "place",
    "plan_service",
    "plan_services",
    "read_inventory",
    "read_placement",
    "render",
]

# A name is loaded on first use: the command line reads manifests without Pulumi, and sets the
# process up before pydantic is imported. Every other public name comes from `api`.
_PACKAGES = {
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
    "objects": ("render",),
    "placement": ("Placement", "place", "read_inventory", "read_placement"),
    "loading": ("load", "load_inventory", "loads"),
    "planning": ("plan_service", "plan_services"),
    "service_plan": ("ServicePlan",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = next((package for package, names in _PACKAGES.items() if name in names), "api")
    value = getattr(importlib.import_module(f"{__name__}.{package}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
