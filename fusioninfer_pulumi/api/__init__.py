"""What users write: one file for each concept, with its models and the rules of its own fields.

Knows of Kubernetes only the pod template, and nothing of Pulumi or of plans. Every name here is
also one of `fusioninfer_pulumi`.
"""

from __future__ import annotations

from fusioninfer_pulumi.api.autoscaling import AutoscalingArgs as AutoscalingArgs
from fusioninfer_pulumi.api.autoscaling import AutoscalingEngine as AutoscalingEngine
from fusioninfer_pulumi.api.autoscaling import AutoscalingMetricArgs as AutoscalingMetricArgs
from fusioninfer_pulumi.api.autoscaling import AutoscalingTarget as AutoscalingTarget
from fusioninfer_pulumi.api.autoscaling import KedaArgs as KedaArgs
from fusioninfer_pulumi.api.autoscaling import KedaFallbackArgs as KedaFallbackArgs
from fusioninfer_pulumi.api.autoscaling import MetricSource as MetricSource
from fusioninfer_pulumi.api.autoscaling import PrefillDecodeRatioArgs as PrefillDecodeRatioArgs
from fusioninfer_pulumi.api.device_claims import ResourceClaimArgs as ResourceClaimArgs
from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs as DisruptionBudgetArgs
from fusioninfer_pulumi.api.disruption_budget import UnhealthyPods as UnhealthyPods
from fusioninfer_pulumi.api.engine import EngineArgs as EngineArgs
from fusioninfer_pulumi.api.engine import EngineName as EngineName
from fusioninfer_pulumi.api.health import StartupArgs as StartupArgs
from fusioninfer_pulumi.api.inventory import DeviceArgs as DeviceArgs
from fusioninfer_pulumi.api.inventory import InventoryArgs as InventoryArgs
from fusioninfer_pulumi.api.inventory import NodePoolArgs as NodePoolArgs
from fusioninfer_pulumi.api.inventory import TaintArgs as TaintArgs
from fusioninfer_pulumi.api.inventory import TaintEffect as TaintEffect
from fusioninfer_pulumi.api.kv_offloading import ClaimReferenceArgs as ClaimReferenceArgs
from fusioninfer_pulumi.api.kv_offloading import ClaimTierArgs as ClaimTierArgs
from fusioninfer_pulumi.api.kv_offloading import EmptyDirTierArgs as EmptyDirTierArgs
from fusioninfer_pulumi.api.kv_offloading import EvictionPolicy as EvictionPolicy
from fusioninfer_pulumi.api.kv_offloading import FileSystemTierArgs as FileSystemTierArgs
from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs as KvCacheOffloadingArgs
from fusioninfer_pulumi.api.kv_offloading import SecondaryTierArgs as SecondaryTierArgs
from fusioninfer_pulumi.api.kv_transfer import KvEventsArgs as KvEventsArgs
from fusioninfer_pulumi.api.kv_transfer import KvRole as KvRole
from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs as KvTransferArgs
from fusioninfer_pulumi.api.kv_transfer import RdmaArgs as RdmaArgs
from fusioninfer_pulumi.api.kv_transfer import SidecarArgs as SidecarArgs
from fusioninfer_pulumi.api.kv_transfer import SidecarConnector as SidecarConnector
from fusioninfer_pulumi.api.model import AccessMode as AccessMode
from fusioninfer_pulumi.api.model import CacheArgs as CacheArgs
from fusioninfer_pulumi.api.model import Fetch as Fetch
from fusioninfer_pulumi.api.model import FetcherArgs as FetcherArgs
from fusioninfer_pulumi.api.model import LoraAdapterArgs as LoraAdapterArgs
from fusioninfer_pulumi.api.model import LoraArgs as LoraArgs
from fusioninfer_pulumi.api.model import ModelArgs as ModelArgs
from fusioninfer_pulumi.api.model import S3Args as S3Args
from fusioninfer_pulumi.api.model import SecretKeyArgs as SecretKeyArgs
from fusioninfer_pulumi.api.model import StorageArgs as StorageArgs
from fusioninfer_pulumi.api.model import WarmUpJobArgs as WarmUpJobArgs
from fusioninfer_pulumi.api.model_rewrite import ModelRewriteArgs as ModelRewriteArgs
from fusioninfer_pulumi.api.model_rewrite import ModelTargetArgs as ModelTargetArgs
from fusioninfer_pulumi.api.monitoring import AlertsArgs as AlertsArgs
from fusioninfer_pulumi.api.monitoring import DashboardsArgs as DashboardsArgs
from fusioninfer_pulumi.api.monitoring import MonitoringArgs as MonitoringArgs
from fusioninfer_pulumi.api.monitoring import TokenSecretArgs as TokenSecretArgs
from fusioninfer_pulumi.api.parallelism import ParallelismArgs as ParallelismArgs
from fusioninfer_pulumi.api.placement import DeviceRequirementArgs as DeviceRequirementArgs
from fusioninfer_pulumi.api.placement import RolePlacementArgs as RolePlacementArgs
from fusioninfer_pulumi.api.placement import ServicePlacementArgs as ServicePlacementArgs
from fusioninfer_pulumi.api.role import ComponentType as ComponentType
from fusioninfer_pulumi.api.role import Launcher as Launcher
from fusioninfer_pulumi.api.role import MultinodeArgs as MultinodeArgs
from fusioninfer_pulumi.api.role import NetworkConfigArgs as NetworkConfigArgs
from fusioninfer_pulumi.api.role import PodEnvironment as PodEnvironment
from fusioninfer_pulumi.api.role import RestartPolicy as RestartPolicy
from fusioninfer_pulumi.api.role import RoleArgs as RoleArgs
from fusioninfer_pulumi.api.role import StartupPolicy as StartupPolicy
from fusioninfer_pulumi.api.role import Strategy as Strategy
from fusioninfer_pulumi.api.role import SubdomainPolicy as SubdomainPolicy
from fusioninfer_pulumi.api.role import SubGroupPolicyArgs as SubGroupPolicyArgs
from fusioninfer_pulumi.api.role import SubGroupPolicyType as SubGroupPolicyType
from fusioninfer_pulumi.api.rollout import Layout as Layout
from fusioninfer_pulumi.api.rollout import RoleOrder as RoleOrder
from fusioninfer_pulumi.api.rollout import RoleRolloutArgs as RoleRolloutArgs
from fusioninfer_pulumi.api.rollout import RolloutArgs as RolloutArgs
from fusioninfer_pulumi.api.rollout import RolloutLevel as RolloutLevel
from fusioninfer_pulumi.api.rollout import RolloutStrategy as RolloutStrategy
from fusioninfer_pulumi.api.rollout import WaitArgs as WaitArgs
from fusioninfer_pulumi.api.rollout import WaitLevel as WaitLevel
from fusioninfer_pulumi.api.route import GatewayArgs as GatewayArgs
from fusioninfer_pulumi.api.route import GatewayRefArgs as GatewayRefArgs
from fusioninfer_pulumi.api.route import HttpRouteArgs as HttpRouteArgs
from fusioninfer_pulumi.api.route import HttpRouteRefArgs as HttpRouteRefArgs
from fusioninfer_pulumi.api.route import SplitArgs as SplitArgs
from fusioninfer_pulumi.api.router import EndpointPickerArgs as EndpointPickerArgs
from fusioninfer_pulumi.api.router import FailureMode as FailureMode
from fusioninfer_pulumi.api.router import GroupPairing as GroupPairing
from fusioninfer_pulumi.api.router import MetricsMode as MetricsMode
from fusioninfer_pulumi.api.router import NetworkPolicyArgs as NetworkPolicyArgs
from fusioninfer_pulumi.api.router import PickerTlsArgs as PickerTlsArgs
from fusioninfer_pulumi.api.router import PoolArgs as PoolArgs
from fusioninfer_pulumi.api.scheduling import GangMode as GangMode
from fusioninfer_pulumi.api.scheduling import GangPolicyArgs as GangPolicyArgs
from fusioninfer_pulumi.api.scheduling import NetworkTopologyArgs as NetworkTopologyArgs
from fusioninfer_pulumi.api.scheduling import NetworkTopologyMode as NetworkTopologyMode
from fusioninfer_pulumi.api.scheduling import NetworkTopologyRuleArgs as NetworkTopologyRuleArgs
from fusioninfer_pulumi.api.scheduling import RequiredReplicas as RequiredReplicas
from fusioninfer_pulumi.api.scheduling import SchedulingStrategyArgs as SchedulingStrategyArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs as InferenceServiceArgs
from fusioninfer_pulumi.api.topology_spread import TopologySpreadArgs as TopologySpreadArgs
from fusioninfer_pulumi.api.topology_spread import WhenUnsatisfiable as WhenUnsatisfiable
from fusioninfer_pulumi.api.tracing import TracingArgs as TracingArgs


def model_names() -> list[str]:
    """Names of all models and enums, sorted."""
    return sorted(name for name, model_type in globals().items() if isinstance(model_type, type))
