"""Autoscaling of a role: bounds, metrics and target values."""

import enum
from fractions import Fraction
from typing import Any

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Count,
    Duration,
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
    """Autoscaling target, which determines metrics and target values."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    QUEUE = "queue"

class MetricSource(str, enum.Enum):
    """Source of a HorizontalPodAutoscaler's metric."""

    PODS = "Pods"
    EXTERNAL = "External"

class AutoscalingMetricArgs(SpecModel):
    """A metric, with its target value per replica."""

    def __init__(self, **fields: Unpack[dicts.AutoscalingMetricArgsDict]) -> None: ...
    name: str | None
    "`HPA`: name of the metric in the metrics API; `KEDA`: name of the trigger."
    source: MetricSource | None
    "`HPA`: `Pods` (default) or `External`."
    selector: LabelMap
    "`HPA`: label selector of the metric."
    query: str | None
    "`KEDA`: PromQL query; its result is divided by the number of replicas."
    target: Quantity
    "Target value per replica, such as `5`; above it the autoscaler adds replicas."
    unsafe_ssl: bool
    "`KEDA`: whether to skip verification of Prometheus' certificate."

class KedaFallbackArgs(SpecModel):
    """Replicas while metrics are unavailable."""

    def __init__(self, **fields: Unpack[dicts.KedaFallbackArgsDict]) -> None: ...
    failure_threshold: PositiveCount
    "Consecutive failures after which the fallback applies."
    replicas: Count
    "Number of replicas during the fallback."
    behavior: str | None
    "KEDA's fallback behavior, such as `static` (default) or `currentReplicasIfHigher`."

class KedaArgs(SpecModel):
    """Additional fields of the ScaledObject; KEDA's defaults for fields that are not set."""

    def __init__(self, **fields: Unpack[dicts.KedaArgsDict]) -> None: ...
    polling_interval: PositiveCount | None
    "Seconds between two queries of the metrics."
    cooldown_period: Count | None
    "Seconds without activity before KEDA scales to zero or to `idleReplicaCount`."
    initial_cooldown_period: Count | None
    "Seconds after creation before `cooldownPeriod` starts."
    idle_replica_count: Count | None
    "Replicas while there is no activity; must be below `minReplicas`."
    fallback: KedaFallbackArgs | None
    "Replicas while metrics are unavailable."
    triggers: list[dict[str, Any]] | None
    "Additional triggers of any type, such as `cpu` or `cron`, passed through."

class AutoscalingArgs(SpecModel):
    """Autoscaling of a role; requires `layout: PerRole`."""

    def __init__(self, **fields: Unpack[dicts.AutoscalingArgsDict]) -> None: ...
    engine: AutoscalingEngine
    "`HPA` (default) or `KEDA`."
    min_replicas: Count
    "Minimum number of replicas; 0 only with KEDA."
    max_replicas: PositiveCount
    "Maximum number of replicas."
    target: AutoscalingTarget | None
    "`latency`, `throughput` or `queue`: generates metrics and target values that fit the engine\n    and the endpoint picker; the metrics count only this service."
    target_requests: float | None
    "Target number of requests per replica. `latency` counts running and waiting requests (default\n    100), the other targets count waiting requests (default 5)."
    time_to_first_token: Duration | None
    "Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time to\n    first token, such as `1s`. It replaces the target number of requests; a role that can scale to\n    zero uses both. Measured by llm-d's endpoint picker if its metrics are readable, else by the\n    engines."
    time_per_token: Duration | None
    "Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time\n    between tokens, such as `50ms`. It replaces the target number of requests; a role that can scale\n    to zero uses both."
    metrics: list[AutoscalingMetricArgs]
    "Metrics in addition to `target`. The metric that requires the most replicas applies."
    prometheus: WebAddress | None
    "`KEDA`: address of Prometheus, such as `http://prometheus-operated.monitoring:9090`."
    keda: KedaArgs | None
    "`KEDA`: additional fields of the ScaledObject, under KEDA's names."
    behavior: dict[str, Any] | None
    "`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed through."
    annotations: AnnotationMap
    "Annotations of the autoscaler, in addition to the service's; values may be Outputs."

    @property
    def latency_goals(self) -> dict[str, Fraction]: ...

def scales_to_zero(args: AutoscalingArgs) -> bool: ...
def counts_queued_requests(args: AutoscalingArgs) -> bool: ...

class PrefillDecodeRatioArgs(SpecModel):
    """Allowed number of prefill replicas per decode replica."""

    def __init__(self, **fields: Unpack[dicts.PrefillDecodeRatioArgsDict]) -> None: ...
    min: float | None
    "Minimum, such as `0.25`."
    max: float | None
    "Maximum, such as `1`."
