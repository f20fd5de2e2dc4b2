"""Kthena's custom resources, field by field as its CRDs publish them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fusioninfer_importers.model import ImportedModel, Quantity
from fusioninfer_importers.objects import ImportedObject
from fusioninfer_pulumi.plugins.importers import CountOrAnyPercentage

Count = Annotated[int, Field(ge=0)]
#: A count, or a percentage such as `10%`.
CountOrPercentage = CountOrAnyPercentage
Bound = Annotated[int, Field(ge=0, le=1_000_000)]
RecoveryPolicy = Literal["ServingGroupRecreate", "RoleRecreate", "None"]
RolloutType = Literal["ServingGroupRollingUpdate", "RoleRollingUpdate"]
TopologyMode = Literal["hard", "soft"]
InferenceEngine = Literal["vLLM", "SGLang"]
Protocol = Literal["http", "https"]
Connector = Literal["http", "nixl", "lmcache", "mooncake"]
RateUnit = Literal["second", "minute", "hour", "day", "month"]
#: Whether the looser (Or) or the stricter (And) of two limits applies.
SelectPolicy = Literal["Or", "And"]


class PodTemplate(ImportedModel):
    """A pod template; its fields are checked by our own rules."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Role(ImportedModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=12)]
    replicas: Count | None = None
    entry_template: PodTemplate
    # Required by the CRD, but missing in Kthena's sample.
    worker_replicas: Count = 0
    worker_template: PodTemplate | None = None
    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class GangPolicy(ImportedModel):
    min_role_replicas: dict[str, Count] | None = None


class TopologyPolicy(ImportedModel):
    """Volcano's NetworkTopologySpec."""

    mode: TopologyMode | None = None
    highest_tier_allowed: Count | None = None
    highest_tier_name: str | None = None


class NetworkTopology(ImportedModel):
    group_policy: TopologyPolicy | None = None
    role_policy: TopologyPolicy | None = None


class ServingGroup(ImportedModel):
    restart_grace_period_seconds: Count | None = None
    gang_policy: GangPolicy | None = None
    # The spelling in the sample of Kthena's article.
    lowercase_gang_policy: Annotated[GangPolicy | None, Field(alias="gangpolicy")] = None
    network_topology: NetworkTopology | None = None
    roles: Annotated[list[Role], Field(min_length=1, max_length=4)]

    @property
    def gang_policy_keys(self) -> list[str]:
        """Keys of the fields that set a gang policy; at most one may."""
        fields = {"gangPolicy": self.gang_policy, "gangpolicy": self.lowercase_gang_policy}
        return [key for key, policy in fields.items() if policy is not None]


class RollingUpdate(ImportedModel):
    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class RolloutStrategy(ImportedModel):
    type: RolloutType | None = None
    rolling_update_configuration: RollingUpdate | None = None


class ModelServingSpec(ImportedModel):
    replicas: Count | None = None
    scheduler_name: str | None = None
    plugins: list[dict[str, Any]] | None = None
    template: ServingGroup
    rollout_strategy: RolloutStrategy | None = None
    recovery_policy: RecoveryPolicy | None = None


class ModelServing(ImportedObject):
    spec: ModelServingSpec


class DeploymentSpec(ImportedModel):
    """Supported fields of a Deployment; others are reported one by one."""

    replicas: Count | None = None
    selector: dict[str, Any] | None = None
    strategy: dict[str, Any] | None = None
    template: PodTemplate


class Deployment(ImportedObject):
    """A Deployment behind a ModelServer."""

    spec: DeploymentSpec


class PDGroup(ImportedModel):
    """Labels of prefill and decode pods, and the label key that groups them."""

    group_key: str
    prefill_labels: dict[str, str]
    decode_labels: dict[str, str]


class WorkloadSelector(ImportedModel):
    """The pods of a ModelServer."""

    match_labels: dict[str, str] | None = None
    pd_group: Annotated[PDGroup | None, Field(alias="pdGroup")] = None


class WorkloadPort(ImportedModel):
    port: Annotated[int, Field(ge=1, le=65535)]
    protocol: Protocol | None = None


class Retry(ImportedModel):
    attempts: Annotated[int, Field(ge=0)]
    retry_interval: str | None = None


class TrafficPolicy(ImportedModel):
    timeout: str | None = None
    retry: Retry | None = None


class KvConnector(ImportedModel):
    type: Connector | None = None


class ModelServerSpec(ImportedModel):
    model: Annotated[str, Field(max_length=256)] | None = None
    inference_engine: InferenceEngine
    workload_selector: WorkloadSelector
    workload_port: WorkloadPort
    traffic_policy: TrafficPolicy | None = None
    kv_connector: KvConnector | None = None


class StringMatch(ImportedModel):
    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None


class BodyMatch(ImportedModel):
    model: str | None = None


class ModelMatch(ImportedModel):
    headers: dict[str, StringMatch] | None = None
    uri: StringMatch | None = None
    body: BodyMatch | None = None


class TargetModel(ImportedModel):
    model_server_name: str | None = None
    external_model_provider_name: str | None = None
    weight: Annotated[int, Field(ge=0, le=100)] | None = None


class RouteRule(ImportedModel):
    name: str | None = None
    model_match: ModelMatch | None = None
    target_models: Annotated[list[TargetModel], Field(min_length=1, max_length=16)]


class Redis(ImportedModel):
    address: str


class GlobalLimit(ImportedModel):
    redis: Redis | None = None


class RateLimit(ImportedModel):
    input_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    output_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    unit: RateUnit | None = None
    global_: Annotated[GlobalLimit | None, Field(alias="global")] = None


class ModelRouteSpec(ImportedModel):
    model_name: str | None = None
    lora_adapters: Annotated[list[str], Field(max_length=10)] | None = None
    parent_refs: list[dict[str, Any]] | None = None
    rules: Annotated[list[RouteRule], Field(max_length=16)]
    rate_limit: RateLimit | None = None


class ModelServer(ImportedObject):
    spec: ModelServerSpec


class ModelRoute(ImportedObject):
    spec: ModelRouteSpec


class Metric(ImportedModel):
    """A metric and its target value."""

    name: str | None = None
    # Until 0.4.
    metric_name: str | None = None
    target_value: Quantity

    @property
    def key(self) -> str:
        """The name, which is the key of the metric's source."""
        return self.name or self.metric_name or ""


class StablePolicy(ImportedModel):
    instances: Count | None = None
    percent: Count | None = None
    period: str | None = None
    select_policy: SelectPolicy | None = None
    stabilization_window: str | None = None


class PanicPolicy(ImportedModel):
    """How fast a role scales up under sudden load."""

    percent: Count | None = None
    period: str | None = None
    panic_threshold_percent: Count | None = None
    panic_mode_hold: str | None = None


class ScaleUp(ImportedModel):
    stable_policy: StablePolicy | None = None
    panic_policy: PanicPolicy | None = None


class Behavior(ImportedModel):
    scale_up: ScaleUp | None = None
    scale_down: StablePolicy | None = None


class LabelSelector(ImportedModel):
    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = None


class PodSource(ImportedModel):
    """A metric that pods serve."""

    name: str | None = None
    uri: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    label_selector: LabelSelector | None = None


class PrometheusSource(ImportedModel):
    """A Prometheus query."""

    server_url: Annotated[str, Field(alias="serverURL", min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    auth: dict[str, Any] | None = None


class MetricSource(ImportedModel):
    type: str | None = None
    pod: PodSource | None = None
    prometheus: PrometheusSource | None = None


class TargetRef(ImportedModel):
    """The object that is scaled; fields of an ObjectReference without effect are rejected."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class SubTarget(ImportedModel):
    kind: str | None = None
    name: str | None = None


class Target(ImportedModel):
    target_ref: TargetRef
    sub_targets: SubTarget | None = None
    metric_sources: dict[str, MetricSource] | None = None
    # Until 0.4.
    metric_endpoint: PodSource | None = None


class HomogeneousTarget(ImportedModel):
    """One ModelServing, or a role of it."""

    target: Target
    min_replicas: Bound
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)]


class RoleScaling(ImportedModel):
    min_replicas: Bound
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)]
    metrics: list[Metric] | None = None
    metric_sources: dict[str, MetricSource] | None = None


class Ratio(ImportedModel):
    """Bounds of the replicas of one role for each of another."""

    numerator_role: str
    denominator_role: str
    min_ratio: Quantity
    max_ratio: Quantity


class DisaggregatedTarget(ImportedModel):
    """Roles of one ModelServing."""

    target_ref: TargetRef
    roles: Annotated[dict[str, RoleScaling], Field(min_length=1, max_length=2)]
    ratio_constraint: Ratio | None = None


class PolicySpec(ImportedModel):
    tolerance_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    metrics: list[Metric] | None = None
    behavior: Behavior | None = None
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None
    disaggregated_target: DisaggregatedTarget | None = None


class PolicyRef(ImportedModel):
    name: str


class BindingSpec(ImportedModel):
    policy_ref: PolicyRef
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None


class AutoscalingPolicy(ImportedObject):
    spec: PolicySpec


class AutoscalingPolicyBinding(ImportedObject):
    spec: BindingSpec
