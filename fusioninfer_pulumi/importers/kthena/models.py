"""Kthena's custom resources, field by field as its CRDs publish them."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from fusioninfer_pulumi.api.types import CountOrAnyPercentage
from fusioninfer_pulumi.importers.model import ImportedModel, Quantity
from fusioninfer_pulumi.importers.objects import ObjectMetadata

Count = Annotated[int, Field(ge=0)]
#: A count, or a percentage such as `10%`.
CountOrPercentage = CountOrAnyPercentage
Bound = Annotated[int, Field(ge=0, le=1_000_000)]


class RecoveryPolicy(str, enum.Enum):
    """What is made anew when a pod fails."""

    SERVING_GROUP_RECREATE = "ServingGroupRecreate"
    ROLE_RECREATE = "RoleRecreate"
    NONE = "None"


class RolloutType(str, enum.Enum):
    """What a rolling update goes by."""

    SERVING_GROUP = "ServingGroupRollingUpdate"
    ROLE = "RoleRollingUpdate"


class TopologyMode(str, enum.Enum):
    """Whether pods may be placed beyond the tier."""

    HARD = "hard"
    SOFT = "soft"


class PodTemplate(ImportedModel):
    """A pod template; its fields are checked by our own rules."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Role(ImportedModel):
    """One role of a serving group."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=12)]
    replicas: Count | None = None
    entry_template: PodTemplate
    # The CRD requires it; the document's sample leaves it out.
    worker_replicas: Count = 0
    worker_template: PodTemplate | None = None
    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class GangPolicy(ImportedModel):
    """How much of a serving group must be placed together."""

    min_role_replicas: dict[str, Count] | None = None


class TopologyPolicy(ImportedModel):
    """Volcano's NetworkTopologySpec."""

    mode: Annotated[TopologyMode, Field(strict=False)] | None = None
    highest_tier_allowed: Count | None = None
    highest_tier_name: str | None = None


class NetworkTopology(ImportedModel):
    """How close the pods of a group, and of a role's replica, have to be."""

    group_policy: TopologyPolicy | None = None
    role_policy: TopologyPolicy | None = None


class ServingGroup(ImportedModel):
    """The template of the serving groups."""

    restart_grace_period_seconds: Count | None = None
    gang_policy: GangPolicy | None = None
    # The sample of Kthena's article spells it so.
    gangpolicy: Annotated[GangPolicy | None, Field(alias="gangpolicy")] = None
    network_topology: NetworkTopology | None = None
    roles: Annotated[list[Role], Field(min_length=1, max_length=4)]


class RollingUpdate(ImportedModel):
    """Pace of a rolling update of serving groups."""

    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class RolloutStrategy(ImportedModel):
    """How serving groups are updated."""

    type: Annotated[RolloutType, Field(strict=False)] | None = None
    rolling_update_configuration: RollingUpdate | None = None


class ModelServingSpec(ImportedModel):
    """The spec of a ModelServing."""

    replicas: Count | None = None
    scheduler_name: str | None = None
    plugins: list[dict[str, Any]] | None = None
    template: ServingGroup
    rollout_strategy: RolloutStrategy | None = None
    recovery_policy: Annotated[RecoveryPolicy, Field(strict=False)] | None = None


class ModelServing(ImportedModel):
    """A ModelServing."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelServingSpec
    status: dict[str, Any] | None = None


class InferenceEngine(str, enum.Enum):
    """The program that serves the model."""

    VLLM = "vLLM"
    SGLANG = "SGLang"


class Protocol(str, enum.Enum):
    """How the pods are spoken to."""

    HTTP = "http"
    HTTPS = "https"


class Connector(str, enum.Enum):
    """How prefill hands the KV cache to decode."""

    HTTP = "http"
    NIXL = "nixl"
    LMCACHE = "lmcache"
    MOONCAKE = "mooncake"


class RateUnit(str, enum.Enum):
    """The time that a rate is about."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class PDGroup(ImportedModel):
    """Which pods prefill and decode, and which of them belong together."""

    group_key: str
    prefill_labels: dict[str, str]
    decode_labels: dict[str, str]


class WorkloadSelector(ImportedModel):
    """The pods of a ModelServer."""

    match_labels: dict[str, str] | None = None
    pd_group: Annotated[PDGroup | None, Field(alias="pdGroup")] = None


class WorkloadPort(ImportedModel):
    """Where the pods serve."""

    port: Annotated[int, Field(ge=1, le=65535)]
    protocol: Annotated[Protocol, Field(strict=False)] | None = None


class Retry(ImportedModel):
    """How often a request is tried again."""

    attempts: Annotated[int, Field(ge=0)]
    retry_interval: str | None = None


class TrafficPolicy(ImportedModel):
    """How requests are sent to the pods."""

    timeout: str | None = None
    retry: Retry | None = None


class KvConnector(ImportedModel):
    """How prefill hands the KV cache to decode."""

    type: Annotated[Connector, Field(strict=False)] | None = None


class ModelServerSpec(ImportedModel):
    """The spec of a ModelServer."""

    model: Annotated[str, Field(max_length=256)] | None = None
    inference_engine: Annotated[InferenceEngine, Field(strict=False)]
    workload_selector: WorkloadSelector
    workload_port: WorkloadPort
    traffic_policy: TrafficPolicy | None = None
    kv_connector: KvConnector | None = None


class StringMatch(ImportedModel):
    """A condition on a text."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None


class BodyMatch(ImportedModel):
    """A condition on a request's body."""

    model: str | None = None


class ModelMatch(ImportedModel):
    """Which requests a rule is for."""

    headers: dict[str, StringMatch] | None = None
    uri: StringMatch | None = None
    body: BodyMatch | None = None


class TargetModel(ImportedModel):
    """Where a rule leads."""

    model_server_name: str | None = None
    external_model_provider_name: str | None = None
    weight: Annotated[int, Field(ge=0, le=100)] | None = None


class Rule(ImportedModel):
    """One rule of a ModelRoute."""

    name: str | None = None
    model_match: ModelMatch | None = None
    target_models: Annotated[list[TargetModel], Field(min_length=1, max_length=16)]


class Redis(ImportedModel):
    """Where a global limit is kept."""

    address: str


class GlobalLimit(ImportedModel):
    """A limit over all routers."""

    redis: Redis | None = None


class RateLimit(ImportedModel):
    """How many tokens may be asked for and answered."""

    input_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    output_tokens_per_unit: Annotated[int, Field(ge=1)] | None = None
    unit: Annotated[RateUnit, Field(strict=False)] | None = None
    global_: Annotated[GlobalLimit | None, Field(alias="global")] = None


class ModelRouteSpec(ImportedModel):
    """The spec of a ModelRoute."""

    model_name: str | None = None
    lora_adapters: Annotated[list[str], Field(max_length=10)] | None = None
    parent_refs: list[dict[str, Any]] | None = None
    rules: Annotated[list[Rule], Field(max_length=16)]
    rate_limit: RateLimit | None = None


class ModelServer(ImportedModel):
    """A ModelServer."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelServerSpec
    status: dict[str, Any] | None = None


class ModelRoute(ImportedModel):
    """A ModelRoute."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelRouteSpec
    status: dict[str, Any] | None = None


class SelectPolicy(str, enum.Enum):
    """Which of two limits counts."""

    OR = "Or"  #: the looser one
    AND = "And"  #: the stricter one


class Metric(ImportedModel):
    """A metric and what an instance may have of it."""

    name: str | None = None
    # To 0.4.
    metric_name: str | None = None
    target_value: Quantity

    @property
    def key(self) -> str:
        """Its name, under which its source stands."""
        return self.name or self.metric_name or ""


class StablePolicy(ImportedModel):
    """How fast the number of instances changes."""

    instances: Count | None = None
    percent: Count | None = None
    period: str | None = None
    select_policy: Annotated[SelectPolicy, Field(strict=False)] | None = None
    stabilization_window: str | None = None


class PanicPolicy(ImportedModel):
    """How fast it grows in a rush."""

    percent: Count | None = None
    period: str | None = None
    panic_threshold_percent: Count | None = None
    panic_mode_hold: str | None = None


class ScaleUp(ImportedModel):
    """How it grows."""

    stable_policy: StablePolicy | None = None
    panic_policy: PanicPolicy | None = None


class Behavior(ImportedModel):
    """How it grows and shrinks."""

    scale_up: ScaleUp | None = None
    scale_down: StablePolicy | None = None


class LabelSelector(ImportedModel):
    """Which pods a metric is read from."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = None


class PodSource(ImportedModel):
    """A metric that pods serve."""

    name: str | None = None
    uri: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    label_selector: LabelSelector | None = None


class PrometheusSource(ImportedModel):
    """A metric that a Prometheus answers."""

    server_url: Annotated[str, Field(alias="serverURL", min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    auth: dict[str, Any] | None = None


class MetricSource(ImportedModel):
    """Where a metric comes from."""

    type: str | None = None
    pod: PodSource | None = None
    prometheus: PrometheusSource | None = None


class TargetRef(ImportedModel):
    """The object that is scaled; fields of an ObjectReference that nobody reads are refused."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class SubTarget(ImportedModel):
    """A part of it."""

    kind: str | None = None
    name: str | None = None


class Target(ImportedModel):
    """What is scaled, and by which metrics."""

    target_ref: TargetRef
    sub_targets: SubTarget | None = None
    metric_sources: dict[str, MetricSource] | None = None
    # To 0.4.
    metric_endpoint: PodSource | None = None


class HomogeneousTarget(ImportedModel):
    """One ModelServing, or a role of it."""

    target: Target
    min_replicas: Bound
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)]


class RoleScaling(ImportedModel):
    """The bounds and metrics of one role."""

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
    """The spec of an AutoscalingPolicy."""

    tolerance_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    metrics: list[Metric] | None = None
    behavior: Behavior | None = None
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None
    disaggregated_target: DisaggregatedTarget | None = None


class PolicyRef(ImportedModel):
    """A policy of the same namespace."""

    name: str


class BindingSpec(ImportedModel):
    """The spec of an AutoscalingPolicyBinding."""

    policy_ref: PolicyRef
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None


class AutoscalingPolicy(ImportedModel):
    """An AutoscalingPolicy."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: PolicySpec
    status: dict[str, Any] | None = None


class AutoscalingPolicyBinding(ImportedModel):
    """An AutoscalingPolicyBinding."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: BindingSpec
    status: dict[str, Any] | None = None
