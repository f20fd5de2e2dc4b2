"""Written by `make regenerate`."""

from fusioninfer_pulumi.api.autoscaling import (
    AutoscalingArgs as AutoscalingArgs,
    AutoscalingEngine as AutoscalingEngine,
    AutoscalingMetricArgs as AutoscalingMetricArgs,
    AutoscalingTarget as AutoscalingTarget,
    KedaArgs as KedaArgs,
    KedaFallbackArgs as KedaFallbackArgs,
    MetricSource as MetricSource,
    PrefillDecodeRatioArgs as PrefillDecodeRatioArgs,
)
from fusioninfer_pulumi.api.availability import (
    DisruptionBudgetArgs as DisruptionBudgetArgs,
    StartupArgs as StartupArgs,
    TopologySpreadArgs as TopologySpreadArgs,
    UnhealthyPods as UnhealthyPods,
    WhenUnsatisfiable as WhenUnsatisfiable,
)
from fusioninfer_pulumi.api.engine import (
    Edition as Edition,
    EngineArgs as EngineArgs,
    EngineName as EngineName,
    ParallelismArgs as ParallelismArgs,
)
from fusioninfer_pulumi.api.inventory import (
    DeviceArgs as DeviceArgs,
    DeviceRequirementArgs as DeviceRequirementArgs,
    InventoryArgs as InventoryArgs,
    NodePoolArgs as NodePoolArgs,
    RolePlacementArgs as RolePlacementArgs,
    ServicePlacementArgs as ServicePlacementArgs,
    TaintArgs as TaintArgs,
    TaintEffect as TaintEffect,
)
from fusioninfer_pulumi.api.kv_cache import (
    ClaimReferenceArgs as ClaimReferenceArgs,
    ClaimTierArgs as ClaimTierArgs,
    EmptyDirTierArgs as EmptyDirTierArgs,
    EvictionPolicy as EvictionPolicy,
    FileSystemTierArgs as FileSystemTierArgs,
    KvCacheOffloadingArgs as KvCacheOffloadingArgs,
    KvEventsArgs as KvEventsArgs,
    KvRole as KvRole,
    KvTransferArgs as KvTransferArgs,
    RdmaArgs as RdmaArgs,
    SecondaryTierArgs as SecondaryTierArgs,
    SidecarArgs as SidecarArgs,
    SidecarConnector as SidecarConnector,
)
from fusioninfer_pulumi.api.model import (
    AccessMode as AccessMode,
    CacheArgs as CacheArgs,
    Fetch as Fetch,
    FetcherArgs as FetcherArgs,
    LoraAdapterArgs as LoraAdapterArgs,
    LoraArgs as LoraArgs,
    ModelArgs as ModelArgs,
    S3Args as S3Args,
    SecretKeyArgs as SecretKeyArgs,
    StorageArgs as StorageArgs,
    WarmUpJobArgs as WarmUpJobArgs,
)
from fusioninfer_pulumi.api.monitoring import (
    AlertsArgs as AlertsArgs,
    DashboardsArgs as DashboardsArgs,
    MonitoringArgs as MonitoringArgs,
    TokenSecretArgs as TokenSecretArgs,
    TracingArgs as TracingArgs,
)
from fusioninfer_pulumi.api.role import (
    ComponentType as ComponentType,
    Launcher as Launcher,
    MultinodeArgs as MultinodeArgs,
    NetworkConfigArgs as NetworkConfigArgs,
    PodEnvironment as PodEnvironment,
    ResourceClaimArgs as ResourceClaimArgs,
    RestartPolicy as RestartPolicy,
    RoleArgs as RoleArgs,
    StartupPolicy as StartupPolicy,
    Strategy as Strategy,
    SubdomainPolicy as SubdomainPolicy,
    SubGroupPolicyArgs as SubGroupPolicyArgs,
    SubGroupPolicyType as SubGroupPolicyType,
)
from fusioninfer_pulumi.api.rollout import (
    Layout as Layout,
    RoleOrder as RoleOrder,
    RoleRolloutArgs as RoleRolloutArgs,
    RolloutArgs as RolloutArgs,
    RolloutLevel as RolloutLevel,
    RolloutStrategy as RolloutStrategy,
    WaitArgs as WaitArgs,
    WaitLevel as WaitLevel,
)
from fusioninfer_pulumi.api.route import (
    GatewayArgs as GatewayArgs,
    GatewayRefArgs as GatewayRefArgs,
    HttpRouteArgs as HttpRouteArgs,
    HttpRouteRefArgs as HttpRouteRefArgs,
    ModelRewriteArgs as ModelRewriteArgs,
    ModelTargetArgs as ModelTargetArgs,
    SplitArgs as SplitArgs,
)
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs as EndpointPickerArgs,
    FailureMode as FailureMode,
    GroupPairing as GroupPairing,
    MetricsMode as MetricsMode,
    NetworkPolicyArgs as NetworkPolicyArgs,
    PickerTlsArgs as PickerTlsArgs,
    PoolArgs as PoolArgs,
    ServiceLevelArgs as ServiceLevelArgs,
    ServiceLevelsArgs as ServiceLevelsArgs,
    SessionArgs as SessionArgs,
)
from fusioninfer_pulumi.api.scheduling import (
    GangBackend as GangBackend,
    GangMode as GangMode,
    GangPolicyArgs as GangPolicyArgs,
    NetworkTopologyArgs as NetworkTopologyArgs,
    NetworkTopologyMode as NetworkTopologyMode,
    NetworkTopologyRuleArgs as NetworkTopologyRuleArgs,
    RequiredReplicas as RequiredReplicas,
    SchedulingStrategyArgs as SchedulingStrategyArgs,
)
from fusioninfer_pulumi.api.service import InferenceServiceArgs as InferenceServiceArgs
