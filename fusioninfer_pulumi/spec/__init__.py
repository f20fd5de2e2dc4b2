"""What a user may write: pydantic models and the only validator.

Knows no Kubernetes kind but the pod template, and neither Pulumi nor a plan.
"""

from fusioninfer_pulumi.spec.autoscaling import (
    AutoscalingArgs,
    AutoscalingEngine,
    AutoscalingMetricArgs,
    MetricSource,
    PrefillDecodeRatioArgs,
)
from fusioninfer_pulumi.spec.day_two import (
    DisruptionBudgetArgs,
    MonitoringArgs,
    StartupArgs,
    TokenSecretArgs,
    TopologySpreadArgs,
    TracingArgs,
    UnhealthyPods,
    WhenUnsatisfiable,
)
from fusioninfer_pulumi.spec.inventory import (
    DeviceArgs,
    InventoryArgs,
    NodePoolArgs,
    TaintArgs,
    TaintEffect,
)
from fusioninfer_pulumi.spec.kv_cache_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.spec.kv_transfer import (
    KvEventsArgs,
    KvRole,
    KvTransferArgs,
    SidecarArgs,
    SidecarConnector,
)
from fusioninfer_pulumi.spec.placement import (
    DeviceRequirementArgs,
    RolePlacementArgs,
    ServicePlacementArgs,
)
from fusioninfer_pulumi.spec.role import (
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
from fusioninfer_pulumi.spec.rollout import (
    RoleOrder,
    RoleRolloutArgs,
    RolloutArgs,
    RolloutStrategy,
    WaitArgs,
    WaitLevel,
)
from fusioninfer_pulumi.spec.router import (
    EndpointPickerArgs,
    FailureMode,
    GatewayArgs,
    GatewayRefArgs,
    HttpRouteArgs,
    MetricsMode,
    NetworkPolicyArgs,
    PickerTlsArgs,
    PoolArgs,
)
from fusioninfer_pulumi.spec.scheduling import GangMode, GangPolicyArgs, SchedulingStrategyArgs
from fusioninfer_pulumi.spec.service import InferenceServiceArgs

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
