"""Written by `make regenerate`."""

from fusioninfer_pulumi.api import *
from fusioninfer_pulumi.capacity_package import Placement as Placement
from fusioninfer_pulumi.capacity_package import place as place
from fusioninfer_pulumi.capacity_package import read_inventory as read_inventory
from fusioninfer_pulumi.capacity_package import read_placement as read_placement
from fusioninfer_pulumi.checks.stages import plan_service as plan_service
from fusioninfer_pulumi.checks.stages import plan_services as plan_services
from fusioninfer_pulumi.component.inference_service import InferenceService as InferenceService
from fusioninfer_pulumi.component.kubernetes_objects import Gateway as Gateway
from fusioninfer_pulumi.component.kubernetes_objects import HTTPRoute as HTTPRoute
from fusioninfer_pulumi.component.kubernetes_objects import InferencePool as InferencePool
from fusioninfer_pulumi.component.kubernetes_objects import LeaderWorkerSet as LeaderWorkerSet
from fusioninfer_pulumi.component.kubernetes_objects import PodGroup as PodGroup
from fusioninfer_pulumi.component.serving_prerequisites import (
    ServingPrerequisites as ServingPrerequisites,
)
from fusioninfer_pulumi.component.serving_prerequisites import (
    ServingPrerequisitesArgs as ServingPrerequisitesArgs,
)
from fusioninfer_pulumi.findings import Finding as Finding
from fusioninfer_pulumi.findings import InvalidServiceError as InvalidServiceError
from fusioninfer_pulumi.findings import Severity as Severity
from fusioninfer_pulumi.generated.dicts import AlertsArgsDict as AlertsArgsDict
from fusioninfer_pulumi.generated.dicts import AutoscalingArgsDict as AutoscalingArgsDict
from fusioninfer_pulumi.generated.dicts import (
    AutoscalingMetricArgsDict as AutoscalingMetricArgsDict,
)
from fusioninfer_pulumi.generated.dicts import CacheArgsDict as CacheArgsDict
from fusioninfer_pulumi.generated.dicts import ClaimReferenceArgsDict as ClaimReferenceArgsDict
from fusioninfer_pulumi.generated.dicts import ClaimTierArgsDict as ClaimTierArgsDict
from fusioninfer_pulumi.generated.dicts import DashboardsArgsDict as DashboardsArgsDict
from fusioninfer_pulumi.generated.dicts import DeviceArgsDict as DeviceArgsDict
from fusioninfer_pulumi.generated.dicts import (
    DeviceRequirementArgsDict as DeviceRequirementArgsDict,
)
from fusioninfer_pulumi.generated.dicts import DisruptionBudgetArgsDict as DisruptionBudgetArgsDict
from fusioninfer_pulumi.generated.dicts import EmptyDirTierArgsDict as EmptyDirTierArgsDict
from fusioninfer_pulumi.generated.dicts import EndpointPickerArgsDict as EndpointPickerArgsDict
from fusioninfer_pulumi.generated.dicts import EngineArgsDict as EngineArgsDict
from fusioninfer_pulumi.generated.dicts import FetcherArgsDict as FetcherArgsDict
from fusioninfer_pulumi.generated.dicts import FileSystemTierArgsDict as FileSystemTierArgsDict
from fusioninfer_pulumi.generated.dicts import GangPolicyArgsDict as GangPolicyArgsDict
from fusioninfer_pulumi.generated.dicts import GatewayArgsDict as GatewayArgsDict
from fusioninfer_pulumi.generated.dicts import GatewayRefArgsDict as GatewayRefArgsDict
from fusioninfer_pulumi.generated.dicts import HttpRouteArgsDict as HttpRouteArgsDict
from fusioninfer_pulumi.generated.dicts import HttpRouteRefArgsDict as HttpRouteRefArgsDict
from fusioninfer_pulumi.generated.dicts import InferenceServiceArgsDict as InferenceServiceArgsDict
from fusioninfer_pulumi.generated.dicts import InventoryArgsDict as InventoryArgsDict
from fusioninfer_pulumi.generated.dicts import KedaArgsDict as KedaArgsDict
from fusioninfer_pulumi.generated.dicts import KedaFallbackArgsDict as KedaFallbackArgsDict
from fusioninfer_pulumi.generated.dicts import (
    KvCacheOffloadingArgsDict as KvCacheOffloadingArgsDict,
)
from fusioninfer_pulumi.generated.dicts import KvEventsArgsDict as KvEventsArgsDict
from fusioninfer_pulumi.generated.dicts import KvTransferArgsDict as KvTransferArgsDict
from fusioninfer_pulumi.generated.dicts import LoraAdapterArgsDict as LoraAdapterArgsDict
from fusioninfer_pulumi.generated.dicts import LoraArgsDict as LoraArgsDict
from fusioninfer_pulumi.generated.dicts import ModelArgsDict as ModelArgsDict
from fusioninfer_pulumi.generated.dicts import ModelRewriteArgsDict as ModelRewriteArgsDict
from fusioninfer_pulumi.generated.dicts import ModelTargetArgsDict as ModelTargetArgsDict
from fusioninfer_pulumi.generated.dicts import MonitoringArgsDict as MonitoringArgsDict
from fusioninfer_pulumi.generated.dicts import MultinodeArgsDict as MultinodeArgsDict
from fusioninfer_pulumi.generated.dicts import NetworkConfigArgsDict as NetworkConfigArgsDict
from fusioninfer_pulumi.generated.dicts import NetworkPolicyArgsDict as NetworkPolicyArgsDict
from fusioninfer_pulumi.generated.dicts import NetworkTopologyArgsDict as NetworkTopologyArgsDict
from fusioninfer_pulumi.generated.dicts import (
    NetworkTopologyRuleArgsDict as NetworkTopologyRuleArgsDict,
)
from fusioninfer_pulumi.generated.dicts import NodePoolArgsDict as NodePoolArgsDict
from fusioninfer_pulumi.generated.dicts import ParallelismArgsDict as ParallelismArgsDict
from fusioninfer_pulumi.generated.dicts import PickerTlsArgsDict as PickerTlsArgsDict
from fusioninfer_pulumi.generated.dicts import PoolArgsDict as PoolArgsDict
from fusioninfer_pulumi.generated.dicts import (
    PrefillDecodeRatioArgsDict as PrefillDecodeRatioArgsDict,
)
from fusioninfer_pulumi.generated.dicts import RdmaArgsDict as RdmaArgsDict
from fusioninfer_pulumi.generated.dicts import ResourceClaimArgsDict as ResourceClaimArgsDict
from fusioninfer_pulumi.generated.dicts import RoleArgsDict as RoleArgsDict
from fusioninfer_pulumi.generated.dicts import RolePlacementArgsDict as RolePlacementArgsDict
from fusioninfer_pulumi.generated.dicts import RoleRolloutArgsDict as RoleRolloutArgsDict
from fusioninfer_pulumi.generated.dicts import RolloutArgsDict as RolloutArgsDict
from fusioninfer_pulumi.generated.dicts import S3ArgsDict as S3ArgsDict
from fusioninfer_pulumi.generated.dicts import (
    SchedulingStrategyArgsDict as SchedulingStrategyArgsDict,
)
from fusioninfer_pulumi.generated.dicts import SecondaryTierArgsDict as SecondaryTierArgsDict
from fusioninfer_pulumi.generated.dicts import SecretKeyArgsDict as SecretKeyArgsDict
from fusioninfer_pulumi.generated.dicts import ServiceLevelArgsDict as ServiceLevelArgsDict
from fusioninfer_pulumi.generated.dicts import ServiceLevelsArgsDict as ServiceLevelsArgsDict
from fusioninfer_pulumi.generated.dicts import ServicePlacementArgsDict as ServicePlacementArgsDict
from fusioninfer_pulumi.generated.dicts import SessionArgsDict as SessionArgsDict
from fusioninfer_pulumi.generated.dicts import SidecarArgsDict as SidecarArgsDict
from fusioninfer_pulumi.generated.dicts import SplitArgsDict as SplitArgsDict
from fusioninfer_pulumi.generated.dicts import StartupArgsDict as StartupArgsDict
from fusioninfer_pulumi.generated.dicts import StorageArgsDict as StorageArgsDict
from fusioninfer_pulumi.generated.dicts import SubGroupPolicyArgsDict as SubGroupPolicyArgsDict
from fusioninfer_pulumi.generated.dicts import TaintArgsDict as TaintArgsDict
from fusioninfer_pulumi.generated.dicts import TokenSecretArgsDict as TokenSecretArgsDict
from fusioninfer_pulumi.generated.dicts import TopologySpreadArgsDict as TopologySpreadArgsDict
from fusioninfer_pulumi.generated.dicts import TracingArgsDict as TracingArgsDict
from fusioninfer_pulumi.generated.dicts import WaitArgsDict as WaitArgsDict
from fusioninfer_pulumi.generated.dicts import WarmUpJobArgsDict as WarmUpJobArgsDict
from fusioninfer_pulumi.loading import load as load
from fusioninfer_pulumi.loading import load_inventory as load_inventory
from fusioninfer_pulumi.loading import loads as loads
from fusioninfer_pulumi.plan.service_objects import render as render
from fusioninfer_pulumi.plan.service_plan import ServicePlan as ServicePlan
from fusioninfer_pulumi.presets.model_service import model_service as model_service

__version__: str
