"""What users write: one file for each concept, with its models and the rules of its own fields.

Knows of Kubernetes only the pod template, and nothing of Pulumi or of plans.
"""

from __future__ import annotations

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    MetricSource,
    PrefillDecodeRatioArgs,
)
from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs, UnhealthyPods
from fusioninfer_pulumi.api.health import StartupArgs
from fusioninfer_pulumi.api.inventory import (
    DeviceArgs,
    InventoryArgs,
    NodePoolArgs,
    TaintArgs,
    TaintEffect,
)
from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.api.kv_transfer import (
    KvEventsArgs,
    KvRole,
    KvTransferArgs,
    SidecarArgs,
    SidecarConnector,
)
from fusioninfer_pulumi.api.monitoring import MonitoringArgs, TokenSecretArgs
from fusioninfer_pulumi.api.placement import (
    DeviceRequirementArgs,
    RolePlacementArgs,
    ServicePlacementArgs,
)
from fusioninfer_pulumi.api.role import (
    ComponentType,
    Launcher,
    MultinodeArgs,
    NetworkConfigArgs,
    RestartPolicy,
    RoleArgs,
    StartupPolicy,
    Strategy,
    SubdomainPolicy,
    SubGroupPolicyArgs,
    SubGroupPolicyType,
)
from fusioninfer_pulumi.api.rollout import (
    RoleOrder,
    RoleRolloutArgs,
    RolloutArgs,
    RolloutStrategy,
    WaitArgs,
    WaitLevel,
)
from fusioninfer_pulumi.api.route import GatewayArgs, GatewayRefArgs, HttpRouteArgs
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs,
    FailureMode,
    MetricsMode,
    NetworkPolicyArgs,
    PickerTlsArgs,
    PoolArgs,
)
from fusioninfer_pulumi.api.scheduling import GangMode, GangPolicyArgs, SchedulingStrategyArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology_spread import TopologySpreadArgs, WhenUnsatisfiable
from fusioninfer_pulumi.api.tracing import TracingArgs

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
    "GangMode",
    "GangPolicyArgs",
    "GatewayArgs",
    "GatewayRefArgs",
    "HttpRouteArgs",
    "InferenceServiceArgs",
    "InventoryArgs",
    "KvCacheOffloadingArgs",
    "KvEventsArgs",
    "KvRole",
    "KvTransferArgs",
    "Launcher",
    "MetricSource",
    "MetricsMode",
    "MonitoringArgs",
    "MultinodeArgs",
    "NetworkConfigArgs",
    "NetworkPolicyArgs",
    "NodePoolArgs",
    "PickerTlsArgs",
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
]
