"""Metrics and traces of a service: monitors, alerts, dashboards, OpenTelemetry."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from fusioninfer_pulumi.api.field_types import (
    AlertLabelMap,
    LabelMap,
    Text,
    TextOrOutput,
    WebAddress,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import rule_error, string_format
from fusioninfer_pulumi.findings import OUTPUT_HINT, shown
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.rules.common import INVALID_FORMAT, OUTPUT_NOT_ALLOWED

# The type Duration of the Prometheus operator's API, without 0.
_PROMETHEUS_DURATION = re.compile(r"(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?")


def _interval(value: Any) -> Any:
    if is_output(value):
        raise rule_error(OUTPUT_NOT_ALLOWED, OUTPUT_HINT)
    if isinstance(value, str) and _PROMETHEUS_DURATION.fullmatch(value):
        return value
    raise rule_error(INVALID_FORMAT, f"must be a duration such as 15s or 1m30s, got {shown(value)}")


Interval = Annotated[
    str,
    PlainValidator(_interval),
    WithJsonSchema({"type": "string", "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$"}),
]


class TokenSecretArgs(SpecModel):
    """A key of a Secret."""

    name: TextOrOutput
    """Name of the Secret, in the service's namespace; may be an Output."""

    key: str = Field(default="token", min_length=1)
    """Key that holds the token; `token` by default."""


class AlertsArgs(SpecModel):
    """Alerts of a service, as a PrometheusRule; `{}` has all of them."""

    labels: AlertLabelMap = Field(default_factory=dict)
    """Labels of every alert, by which Alertmanager may route it, such as `team: search`."""

    runbook: WebAddress | None = None
    """Page with a section for each alert, linked from its `runbook_url`; by default that of
    fusioninfer-pulumi's documentation."""


class DashboardsArgs(SpecModel):
    """Grafana dashboards as a ConfigMap; `{}` suits the sidecar of Grafana's Helm chart."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels by which the sidecar finds ConfigMaps; `grafana_dashboard: "1"` by default."""

    folder: Text | None = None
    """Folder in Grafana, as the annotation `grafana_folder`; by default that of the sidecar."""


_Path = Annotated[str, string_format(r"^/", "a path that starts with /")]


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

    alerts: AlertsArgs | None = None
    """A PrometheusRule with alerts; none by default."""

    dashboards: DashboardsArgs | None = None
    """A ConfigMap with Grafana dashboards; none by default."""


_Collector = Annotated[
    str,
    string_format(
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
