"""Autoscaling of a role: bounds, and what the number of replicas follows."""

from __future__ import annotations

import enum
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Count,
    LabelMap,
    PositiveCount,
    Quantity,
    WebAddress,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

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
    name: str | None
    "`HPA`: name of the metric, as the adapter serves it; `KEDA`: name of the trigger."
    source: MetricSource | None
    "`HPA`: `Pods` (default) or `External`."
    selector: LabelMap
    "`HPA`: labels of the metric's series."
    query: str | None
    "`KEDA`: the PromQL query; its result is divided by the replicas."
    target: Quantity
    "Value for one replica, such as `5`: above it there will be more of them."
    unsafe_ssl: bool
    "`KEDA`: whether the Prometheus may have a certificate of any authority."

class KedaFallbackArgs(SpecModel):
    """Replicas while the metrics cannot be had."""

    def __init__(self, **fields: Unpack[dicts.KedaFallbackArgsDict]) -> None: ...
    failure_threshold: PositiveCount
    "Failures in a row after which it holds."
    replicas: Count
    "The replicas."
    behavior: str | None
    "KEDA's behavior, such as `static` (its default) or `currentReplicasIfHigher`."

class KedaArgs(SpecModel):
    """Further fields of a ScaledObject."""

    def __init__(self, **fields: Unpack[dicts.KedaArgsDict]) -> None: ...
    polling_interval: PositiveCount | None
    "Seconds between two reads of the metrics."
    cooldown_period: Count | None
    "Seconds without activity before the replicas become none, or `idleReplicaCount`."
    initial_cooldown_period: Count | None
    "Seconds after its creation before `cooldownPeriod` counts."
    idle_replica_count: Count | None
    "Replicas without activity; below `minReplicas`."
    fallback: KedaFallbackArgs | None
    "Replicas while the metrics cannot be had."

class AutoscalingArgs(SpecModel):
    """Scales the replicas of a role; needs `layout: PerRole`."""

    def __init__(self, **fields: Unpack[dicts.AutoscalingArgsDict]) -> None: ...
    engine: AutoscalingEngine
    "`HPA` (default) or `KEDA`."
    min_replicas: Count
    "Fewest replicas; 0 only with KEDA."
    max_replicas: PositiveCount
    "Most replicas."
    target: AutoscalingTarget | None
    "`latency`, `throughput` or `queue`: metrics and values that the library knows of the engine\n    and of the endpoint picker, for the service alone."
    target_requests: float | None
    "Requests for each replica, in place of the library's: in flight for `latency` (100), waiting\n    for the other targets (5)."
    metrics: list[AutoscalingMetricArgs]
    "What the replicas follow, beside `target`; of several, the one that asks for most of them\n    counts."
    prometheus: WebAddress | None
    "`KEDA`: address of the Prometheus, such as `http://prometheus-operated.monitoring:9090`."
    keda: KedaArgs | None
    "`KEDA`: further fields of the ScaledObject, as it calls them."
    behavior: dict[str, Any] | None
    "`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed on."

def scales_to_zero(args: AutoscalingArgs) -> bool: ...
def uses_picker_metrics(args: AutoscalingArgs) -> bool: ...

class PrefillDecodeRatioArgs(SpecModel):
    """Bounds for the replicas of prefill for each replica of decode."""

    def __init__(self, **fields: Unpack[dicts.PrefillDecodeRatioArgsDict]) -> None: ...
    min: float | None
    "Fewest, such as `0.25`."
    max: float | None
    "Most, such as `1`."
