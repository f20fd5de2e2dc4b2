"""Written by `make regenerate`."""

from fusioninfer_pulumi.api import *
from fusioninfer_pulumi.capacity_package import (
    Placement as Placement,
    place as place,
    read_inventory as read_inventory,
    read_placement as read_placement,
)
from fusioninfer_pulumi.checks.plan_service import (
    plan_service as plan_service,
    plan_services as plan_services,
)
from fusioninfer_pulumi.component.inference_service import InferenceService as InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import (
    Gateway as Gateway,
    HTTPRoute as HTTPRoute,
    InferencePool as InferencePool,
    LeaderWorkerSet as LeaderWorkerSet,
    PodGroup as PodGroup,
)
from fusioninfer_pulumi.component.serving_prerequisites import (
    ServingPrerequisites as ServingPrerequisites,
    ServingPrerequisitesArgs as ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.findings import (
    Finding as Finding,
    InvalidServiceError as InvalidServiceError,
    Severity as Severity,
)
from fusioninfer_pulumi.generated.dicts import (
    AlertsArgsDict as AlertsArgsDict,
    AutoscalingArgsDict as AutoscalingArgsDict,
    AutoscalingMetricArgsDict as AutoscalingMetricArgsDict,
    CacheArgsDict as CacheArgsDict,
    ClaimReferenceArgsDict as ClaimReferenceArgsDict,
    ClaimTierArgsDict as ClaimTierArgsDict,
    DashboardsArgsDict as DashboardsArgsDict,
    DeviceArgsDict as DeviceArgsDict,
    DeviceRequirementArgsDict as DeviceRequirementArgsDict,
    DisruptionBudgetArgsDict as DisruptionBudgetArgsDict,
    EmptyDirTierArgsDict as EmptyDirTierArgsDict,
    EndpointPickerArgsDict as EndpointPickerArgsDict,
    EngineArgsDict as EngineArgsDict,
    FetcherArgsDict as FetcherArgsDict,
    FileSystemTierArgsDict as FileSystemTierArgsDict,
    GangPolicyArgsDict as GangPolicyArgsDict,
    GatewayArgsDict as GatewayArgsDict,
    GatewayRefArgsDict as GatewayRefArgsDict,
    HttpRouteArgsDict as HttpRouteArgsDict,
    HttpRouteRefArgsDict as HttpRouteRefArgsDict,
    InferenceServiceArgsDict as InferenceServiceArgsDict,
    InventoryArgsDict as InventoryArgsDict,
    KedaArgsDict as KedaArgsDict,
    KedaFallbackArgsDict as KedaFallbackArgsDict,
    KvCacheOffloadingArgsDict as KvCacheOffloadingArgsDict,
    KvEventsArgsDict as KvEventsArgsDict,
    KvTransferArgsDict as KvTransferArgsDict,
    LoraAdapterArgsDict as LoraAdapterArgsDict,
    LoraArgsDict as LoraArgsDict,
    ModelArgsDict as ModelArgsDict,
    ModelRewriteArgsDict as ModelRewriteArgsDict,
    ModelTargetArgsDict as ModelTargetArgsDict,
    MonitoringArgsDict as MonitoringArgsDict,
    MultinodeArgsDict as MultinodeArgsDict,
    NetworkConfigArgsDict as NetworkConfigArgsDict,
    NetworkPolicyArgsDict as NetworkPolicyArgsDict,
    NetworkTopologyArgsDict as NetworkTopologyArgsDict,
    NetworkTopologyRuleArgsDict as NetworkTopologyRuleArgsDict,
    NodePoolArgsDict as NodePoolArgsDict,
    ParallelismArgsDict as ParallelismArgsDict,
    PickerTlsArgsDict as PickerTlsArgsDict,
    PoolArgsDict as PoolArgsDict,
    PrefillDecodeRatioArgsDict as PrefillDecodeRatioArgsDict,
    RdmaArgsDict as RdmaArgsDict,
    ResourceClaimArgsDict as ResourceClaimArgsDict,
    RoleArgsDict as RoleArgsDict,
    RolePlacementArgsDict as RolePlacementArgsDict,
    RoleRolloutArgsDict as RoleRolloutArgsDict,
    RolloutArgsDict as RolloutArgsDict,
    S3ArgsDict as S3ArgsDict,
    SchedulingStrategyArgsDict as SchedulingStrategyArgsDict,
    SecondaryTierArgsDict as SecondaryTierArgsDict,
    SecretKeyArgsDict as SecretKeyArgsDict,
    ServiceLevelArgsDict as ServiceLevelArgsDict,
    ServiceLevelsArgsDict as ServiceLevelsArgsDict,
    ServicePlacementArgsDict as ServicePlacementArgsDict,
    SessionArgsDict as SessionArgsDict,
    SidecarArgsDict as SidecarArgsDict,
    SplitArgsDict as SplitArgsDict,
    StartupArgsDict as StartupArgsDict,
    StorageArgsDict as StorageArgsDict,
    SubGroupPolicyArgsDict as SubGroupPolicyArgsDict,
    TaintArgsDict as TaintArgsDict,
    TokenSecretArgsDict as TokenSecretArgsDict,
    TopologySpreadArgsDict as TopologySpreadArgsDict,
    TracingArgsDict as TracingArgsDict,
    WaitArgsDict as WaitArgsDict,
    WarmUpJobArgsDict as WarmUpJobArgsDict,
)
from fusioninfer_pulumi.loading import (
    load as load,
    load_inventory as load_inventory,
    loads as loads,
)
from fusioninfer_pulumi.plan.service_objects import render as render
from fusioninfer_pulumi.plan.service_plan import ServicePlan as ServicePlan
from fusioninfer_pulumi.presets.model_service import model_service as model_service

__version__: str
