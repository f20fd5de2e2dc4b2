"""Autoscaling of a role: bounds, and what the number of replicas follows."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field, model_validator
from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Count,
    LabelMap,
    PositiveCount,
    Quantity,
    WebAddress,
    fits,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts
from fusioninfer_pulumi.schemas.kind_schema import SCALING

class AutoscalingEngine(str, enum.Enum):
    """Autoscaler of a role."""

    HPA = "HPA"
    KEDA = "KEDA"

class AutoscalingTarget(str, enum.Enum):
    """Goal of autoscaling, which determines metrics and target values."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    QUEUE = "queue"

class MetricSource(str, enum.Enum):
    """Where a HorizontalPodAutoscaler finds a metric."""

    PODS = "Pods"
    EXTERNAL = "External"

class AutoscalingMetricArgs(SpecModel):
    """One metric, with the value that a replica may have of it."""

    def __init__(self, **fields: Unpack[dicts.AutoscalingMetricArgsDict]) -> None: ...
    name: str | None = Field(default=None, min_length=1)
    "`HPA`: name of the metric, as the adapter serves it; `KEDA`: name of the trigger."
    source: Annotated[MetricSource, Field(strict=False)] | None = None
    "`HPA`: `Pods` (default) or `External`."
    selector: LabelMap = Field(default_factory=dict)
    "`HPA`: labels of the metric's series."
    query: str | None = Field(default=None, min_length=1, max_length=10000)
    "`KEDA`: the PromQL query; its result is divided by the replicas."
    target: Quantity
    "Value for one replica, such as `5`: above it there will be more of them."
    unsafe_ssl: bool = False
    "`KEDA`: whether the Prometheus may have a certificate of any authority."

class KedaFallbackArgs(SpecModel):
    """Replicas while the metrics cannot be had."""

    def __init__(self, **fields: Unpack[dicts.KedaFallbackArgsDict]) -> None: ...
    failure_threshold: PositiveCount
    "Failures in a row after which it holds."
    replicas: Count
    "The replicas."
    behavior: str | None = Field(default=None, min_length=1)
    "KEDA's behavior, such as `static` (its default) or `currentReplicasIfHigher`."

class KedaArgs(SpecModel):
    """Further fields of a ScaledObject."""

    def __init__(self, **fields: Unpack[dicts.KedaArgsDict]) -> None: ...
    polling_interval: PositiveCount | None = None
    "Seconds between two reads of the metrics."
    cooldown_period: Count | None = None
    "Seconds without activity before the replicas become none, or `idleReplicaCount`."
    initial_cooldown_period: Count | None = None
    "Seconds after its creation before `cooldownPeriod` counts."
    idle_replica_count: Count | None = None
    "Replicas without activity; below `minReplicas`."
    fallback: KedaFallbackArgs | None = None
    "Replicas while the metrics cannot be had."
    triggers: list[dict[str, Any]] | None = None
    "Further triggers of any type, such as `cpu` or `cron`, passed on."

class AutoscalingArgs(SpecModel):
    """Scales the replicas of a role; needs `layout: PerRole`."""

    def __init__(self, **fields: Unpack[dicts.AutoscalingArgsDict]) -> None: ...
    engine: Annotated[AutoscalingEngine, Field(strict=False)] = AutoscalingEngine.HPA
    "`HPA` (default) or `KEDA`."
    min_replicas: Count = 1
    "Fewest replicas; 0 only with KEDA."
    max_replicas: PositiveCount
    "Most replicas."
    target: Annotated[AutoscalingTarget, Field(strict=False)] | None = None
    "`latency`, `throughput` or `queue`: metrics and values that the library knows of the engine\n    and of the endpoint picker, for the service alone."
    target_requests: float | None = Field(default=None, gt=0)
    "Requests for each replica, in place of the library's: in flight for `latency` (100), waiting\n    for the other targets (5)."
    metrics: list[AutoscalingMetricArgs] = Field(default_factory=list)
    "What the replicas follow, beside `target`; of several, the one that asks for most of them\n    counts."
    prometheus: WebAddress | None = None
    "`KEDA`: address of the Prometheus, such as `http://prometheus-operated.monitoring:9090`."
    keda: KedaArgs | None = None
    "`KEDA`: further fields of the ScaledObject, as it calls them."
    behavior: Annotated[dict[str, Any], fits(SCALING)] | None = None
    "`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed on."

    @model_validator(mode="after")
    def _bounds(self) -> AutoscalingArgs: ...

def scales_to_zero(args: AutoscalingArgs) -> bool: ...
def uses_picker_metrics(args: AutoscalingArgs) -> bool: ...

class PrefillDecodeRatioArgs(SpecModel):
    """Bounds for the replicas of prefill for each replica of decode."""

    def __init__(self, **fields: Unpack[dicts.PrefillDecodeRatioArgsDict]) -> None: ...
    min: float | None = Field(default=None, gt=0)
    "Fewest, such as `0.25`."
    max: float | None = Field(default=None, gt=0)
    "Most, such as `1`."

    @model_validator(mode="after")
    def _bounds(self) -> PrefillDecodeRatioArgs: ...
