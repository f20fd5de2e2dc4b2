"""Autoscaling of a role: bounds, metrics and target values."""

import enum
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Count,
    Duration,
    LabelMap,
    PositiveCount,
    Quantity,
    WebAddress,
    matches_schema,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, empty_list
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube.durations import parse_duration
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE
from fusioninfer_pulumi.schemas.kind_schema import HPA_BEHAVIOR


class AutoscalingEngine(str, enum.Enum):
    """Autoscaler of a role."""

    HPA = "HPA"  #: Kubernetes' HorizontalPodAutoscaler
    KEDA = "KEDA"  #: KEDA's ScaledObject, which queries Prometheus


class AutoscalingTarget(str, enum.Enum):
    """Autoscaling target, which determines metrics and target values."""

    LATENCY = "latency"  #: scales by latency goals, or by requests in flight
    THROUGHPUT = "throughput"  #: scales when replicas are full, by waiting requests and KV cache
    QUEUE = "queue"  #: scales by requests that wait in the endpoint picker and the engines


class MetricSource(str, enum.Enum):
    """Source of a HorizontalPodAutoscaler's metric."""

    PODS = "Pods"  #: a metric of each leader (custom.metrics.k8s.io), averaged over the leaders
    EXTERNAL = "External"  #: any metric (external.metrics.k8s.io), divided by the replicas


class AutoscalingMetricArgs(SpecModel):
    """A metric, with its target value per replica."""

    name: str | None = Field(default=None, min_length=1)
    """`HPA`: name of the metric in the metrics API; `KEDA`: name of the trigger."""

    source: Annotated[MetricSource, Field(strict=False)] | None = None
    """`HPA`: `Pods` (default) or `External`."""

    selector: LabelMap = Field(default_factory=dict)
    """`HPA`: label selector of the metric."""

    query: str | None = Field(default=None, min_length=1, max_length=10_000)
    """`KEDA`: PromQL query; its result is divided by the number of replicas."""

    target: Quantity
    """Target value per replica, such as `5`; above it the autoscaler adds replicas."""

    unsafe_ssl: bool = False
    """`KEDA`: whether to skip verification of Prometheus' certificate."""


class KedaFallbackArgs(SpecModel):
    """Replicas while metrics are unavailable."""

    failure_threshold: PositiveCount
    """Consecutive failures after which the fallback applies."""

    replicas: Count
    """Number of replicas during the fallback."""

    behavior: str | None = Field(default=None, min_length=1)
    """KEDA's fallback behavior, such as `static` (default) or `currentReplicasIfHigher`."""


class KedaArgs(SpecModel):
    """Additional fields of the ScaledObject; KEDA's defaults for fields that are not set."""

    polling_interval: PositiveCount | None = None
    """Seconds between two queries of the metrics."""

    cooldown_period: Count | None = None
    """Seconds without activity before KEDA scales to zero or to `idleReplicaCount`."""

    initial_cooldown_period: Count | None = None
    """Seconds after creation before `cooldownPeriod` starts."""

    idle_replica_count: Count | None = None
    """Replicas while there is no activity; must be below `minReplicas`."""

    fallback: KedaFallbackArgs | None = None
    """Replicas while metrics are unavailable."""

    triggers: list[dict[str, Any]] | None = None
    """Additional triggers of any type, such as `cpu` or `cron`, passed through."""


class AutoscalingArgs(SpecModel):
    """Autoscaling of a role; requires `layout: PerRole`."""

    engine: Annotated[AutoscalingEngine, Field(strict=False)] = AutoscalingEngine.HPA
    """`HPA` (default) or `KEDA`."""

    min_replicas: Count = 1
    """Minimum number of replicas; 0 only with KEDA."""

    max_replicas: PositiveCount
    """Maximum number of replicas."""

    target: Annotated[AutoscalingTarget, Field(strict=False)] | None = None
    """`latency`, `throughput` or `queue`: generates metrics and target values that fit the engine
    and the endpoint picker; the metrics count only this service."""

    target_requests: float | None = Field(default=None, gt=0)
    """Target number of requests per replica. `latency` counts running and waiting requests (default
    100), the other targets count waiting requests (default 5)."""

    time_to_first_token: Duration | None = None
    """Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time to
    first token, such as `1s`. It replaces the target number of requests; a role that can scale to
    zero uses both. Measured by llm-d's endpoint picker if its metrics are readable, else by the
    engines."""

    time_per_token: Duration | None = None
    """Only for engine `KEDA` and target `latency`: goal for the 90th percentile of the time
    between tokens, such as `50ms`. It replaces the target number of requests; a role that can scale
    to zero uses both."""

    metrics: list[AutoscalingMetricArgs] = Field(default_factory=empty_list)
    """Metrics in addition to `target`. The metric that requires the most replicas applies."""

    prometheus: WebAddress | None = None
    """`KEDA`: address of Prometheus, such as `http://prometheus-operated.monitoring:9090`."""

    keda: KedaArgs | None = None
    """`KEDA`: additional fields of the ScaledObject, under KEDA's names."""

    behavior: Annotated[dict[str, Any], matches_schema(HPA_BEHAVIOR, outputs=True)] | None = None
    """`scaleUp` and `scaleDown` of a HorizontalPodAutoscaler's `behavior`, passed through."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the autoscaler, in addition to the service's; values may be Outputs."""

    OTHERS_REQUIRE_FIRST = ("target", "target_requests", "time_to_first_token", "time_per_token")

    @property
    def latency_goals(self) -> dict[str, Fraction]:
        """Latency goals in seconds, keyed by the name of their KEDA trigger."""
        goals = {"first-token": self.time_to_first_token, "per-token": self.time_per_token}
        return {name: parse_duration(goal) or Fraction(0) for name, goal in goals.items() if goal}

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check that there is a metric, and that the bounds are in order."""
        has_triggers = self.keda is not None and bool(self.keda.triggers)
        if self.target is None and not self.metrics and not has_triggers:
            yield error(FIELD_REQUIRED, location, "needs target, metrics or keda.triggers")
        if self.min_replicas > self.max_replicas:
            message = (
                f"minReplicas ({self.min_replicas}) is above maxReplicas ({self.max_replicas})"
            )
            yield error(OUT_OF_RANGE, location, message)


def scales_to_zero(args: AutoscalingArgs) -> bool:
    """Return whether an autoscaler may remove all replicas, and with them the engines' metrics."""
    idle = args.keda.idle_replica_count if args.keda is not None else None
    return args.min_replicas == 0 or idle == 0


def counts_queued_requests(args: AutoscalingArgs) -> bool:
    """Return whether requests in the endpoint picker's queue count toward the target.

    They do for `queue`, and for roles that scale to zero, because without engines there are no
    other metrics.
    """
    return args.target is not None and (
        args.target is AutoscalingTarget.QUEUE or scales_to_zero(args)
    )


class PrefillDecodeRatioArgs(SpecModel):
    """Allowed number of prefill replicas per decode replica."""

    min: float | None = Field(default=None, gt=0)
    """Minimum, such as `0.25`."""

    max: float | None = Field(default=None, gt=0)
    """Maximum, such as `1`."""

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check the bounds."""
        if self.min is None and self.max is None:
            yield error(FIELD_REQUIRED, location, "needs min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            yield error(OUT_OF_RANGE, location, f"min ({self.min:g}) is above max ({self.max:g})")
