"""Metrics and traces of a service: monitors, alerts, dashboards, OpenTelemetry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import (
    AlertLabelMap,
    LabelMap,
    Text,
    TextOrOutput,
    WebAddress,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import string_format

#: The type Duration of the Prometheus operator's API, without 0.
Interval = Annotated[
    str,
    string_format(
        r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
        "a duration such as 15s or 1m30s",
        min_length=1,
    ),
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
