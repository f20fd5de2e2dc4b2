"""What a user may write: pydantic models and the only validator.

Knows no Kubernetes kind but the pod template, and neither Pulumi nor a plan.
"""

from fusioninfer_pulumi.spec.day_two import (
    DisruptionBudgetArgs,
    MonitoringArgs,
    TokenSecretArgs,
    UnhealthyPods,
)
from fusioninfer_pulumi.spec.kv_transfer import (
    KvEventsArgs,
    KvRole,
    KvTransferArgs,
    SidecarArgs,
    SidecarConnector,
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
    "ComponentType",
    "DisruptionBudgetArgs",
    "EndpointPickerArgs",
    "FailureMode",
    "GangMode",
    "GangPolicyArgs",
    "GatewayArgs",
    "GatewayRefArgs",
    "HttpRouteArgs",
    "InferenceServiceArgs",
    "KvEventsArgs",
    "KvRole",
    "KvTransferArgs",
    "Launcher",
    "MetricsMode",
    "MonitoringArgs",
    "MultinodeArgs",
    "NetworkConfigArgs",
    "NetworkPolicyArgs",
    "PickerTlsArgs",
    "PoolArgs",
    "RestartPolicy",
    "RoleArgs",
    "RoleOrder",
    "RoleRolloutArgs",
    "RolloutArgs",
    "RolloutStrategy",
    "SchedulingStrategyArgs",
    "SidecarArgs",
    "SidecarConnector",
    "StartupPolicy",
    "Strategy",
    "SubGroupPolicyArgs",
    "SubGroupPolicyType",
    "SubdomainPolicy",
    "TokenSecretArgs",
    "UnhealthyPods",
    "WaitArgs",
    "WaitLevel",
]
