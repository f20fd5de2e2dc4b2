"""What keeps a running service running: drains, monitoring, traces, probes, spread.

Everything here is off until it is asked for.
"""

from __future__ import annotations

import enum
import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from fusioninfer_pulumi.findings import LIFT, shown
from fusioninfer_pulumi.outputs import is_output
from fusioninfer_pulumi.spec.amounts import Bytes, CountOrAnyPercentage
from fusioninfer_pulumi.spec.base import LabelKey, LabelMap, PositiveCount, SpecModel
from fusioninfer_pulumi.spec.forms import form
from fusioninfer_pulumi.spec.rollout import Duration

# The type Duration of the Prometheus operator's API, without 0.
_PROMETHEUS_DURATION = re.compile(r"(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?")


def _interval(value: Any) -> Any:
    if is_output(value):
        raise PydanticCustomError("interval", LIFT)
    if isinstance(value, str) and _PROMETHEUS_DURATION.fullmatch(value):
        return value
    raise PydanticCustomError(
        "interval", f"must be a duration such as 15s or 1m30s, got {shown(value)}"
    )


Interval = Annotated[
    str,
    PlainValidator(_interval),
    WithJsonSchema({"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"}),
]


class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is used up."""

    ALWAYS_ALLOW = "AlwaysAllow"  #: they serve nothing, and must not hold up a drain
    IF_HEALTHY_BUDGET = "IfHealthyBudget"  #: only while the others suffice


class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` lets one replica down at a time."""

    max_unavailable: CountOrAnyPercentage | None = None
    """Replicas that evictions may take down at a time, a count or a percentage (rounded down, at
    least 1 but for 0%); 1 by default. 0 forbids every eviction, and so every drain."""

    min_available: CountOrAnyPercentage | None = None
    """In its place: replicas that stay up, a count or a percentage (rounded up)."""

    unhealthy_pods: Annotated[UnhealthyPods, Field(strict=False)] = UnhealthyPods.ALWAYS_ALLOW
    """`AlwaysAllow` (default) or `IfHealthyBudget`, the default of Kubernetes: whether pods that
    are not ready may be evicted when the budget is used up."""

    @model_validator(mode="after")
    def _one_of_both(self) -> DisruptionBudgetArgs:
        if self.max_unavailable is not None and self.min_available is not None:
            raise PydanticCustomError(
                "one_of_both", "maxUnavailable and minAvailable say the same; give one of them"
            )
        return self


class TokenSecretArgs(SpecModel):
    """A key of a Secret."""

    name: str = Field(min_length=1)
    """Name of the Secret, in the service's namespace."""

    key: str = Field(default="token", min_length=1)
    """Key that holds the token; `token` by default."""


_Path = Annotated[str, form(r"^/", "a path that starts with /")]


class MonitoringArgs(SpecModel):
    """Monitors of the Prometheus operator; `{}` scrapes the engines, and the picker if it may."""

    engines: bool = True
    """A PodMonitor for each serving role: its leaders, on the serving port."""

    picker: bool | None = None
    """A ServiceMonitor for the endpoint picker; by default where its metrics are on
    (`endpointPicker.metrics`)."""

    path: _Path = "/metrics"
    """Path of the engines' metrics; `/metrics` by default."""

    interval: Interval | None = None
    """How often, such as `15s`; by default that of Prometheus."""

    scrape_timeout: Interval | None = None
    """How long a reading may take, at most the interval; by default that of Prometheus."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels of the monitors, by which a Prometheus may choose them, such as
    `release: kube-prometheus-stack`."""

    picker_token: TokenSecretArgs | None = None
    """Secret with the token for a picker whose metrics are `Authenticated`; by default Prometheus
    shows the token of its own ServiceAccount."""


class StartupArgs(SpecModel):
    """How long an engine may take to load its model: a startup probe on its health path."""

    timeout: Duration | None = None
    """How long, such as `30m`."""

    model_size: Bytes | None = None
    """In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;
    with `readRate` and 5 minutes for everything else it makes the time."""

    read_rate: Bytes = "200Mi"
    """What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."""

    @model_validator(mode="after")
    def _one_of_both(self) -> StartupArgs:
        if self.timeout is not None and self.model_size is not None:
            raise PydanticCustomError("one_of_both", "give timeout or modelSize, not both")
        return self


class WhenUnsatisfiable(str, enum.Enum):
    """What the scheduler does with a pod that would not be spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"  #: places it where it spreads best
    DO_NOT_SCHEDULE = "DoNotSchedule"  #: leaves it waiting


class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    topology_key: LabelKey
    """Label of nodes that tells the domains apart, such as `topology.kubernetes.io/zone`."""

    max_skew: PositiveCount = 1
    """By how many leaders two domains may differ; 1 by default."""

    when_unsatisfiable: Annotated[WhenUnsatisfiable, Field(strict=False)] = (
        WhenUnsatisfiable.SCHEDULE_ANYWAY
    )
    """`ScheduleAnyway` (default) or `DoNotSchedule`, the default of Kubernetes."""


_Collector = Annotated[
    str,
    form(
        r"^https?://[^\s/]+/?$",
        "an address such as http://otel-collector.observability:4317, without a path",
    ),
]


class TracingArgs(SpecModel):
    """OpenTelemetry traces of endpoint picker and engines, by OTLP over gRPC."""

    endpoint: _Collector
    """Collector, such as `http://otel-collector.observability:4317`; `https` for TLS."""

    sampling: float = Field(default=0.1, ge=0, le=1)
    """Share of the requests that are traced where the client has not decided; 0.1 by default."""

    engines: bool = True
    """Whether vLLM traces too: sets `--otlp-traces-endpoint`, which restarts its pods."""

    picker: bool = True
    """Whether the endpoint picker traces, where there is one."""
