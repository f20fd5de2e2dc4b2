"""Metrics and traces of a service: monitors, alerts, dashboards, OpenTelemetry."""

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

#: The Prometheus operator's type Duration, without days and longer units.
Interval = Annotated[
    str,
    string_format(
        r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
        "a duration such as 15s or 1m30s",
        min_length=1,
    ),
]


class TokenSecretArgs(SpecModel):
    """A key of a Secret that holds a token."""

    name: TextOrOutput
    """Name of the Secret, in the service's namespace; may be an Output."""

    key: str = Field(default="token", min_length=1)
    """Key that holds the token; `token` by default."""


class AlertsArgs(SpecModel):
    """Alerts of a service, as a PrometheusRule; `{}` enables all of them."""

    labels: AlertLabelMap = Field(default_factory=dict)
    """Labels of every alert, which Alertmanager may use for routing, such as `team: search`."""

    runbook: WebAddress | None = None
    """URL of a page with a section for each alert, for the annotation `runbook_url`; by default
    fusioninfer-pulumi's documentation."""


class DashboardsArgs(SpecModel):
    """Grafana dashboards as a ConfigMap; `{}` works with the sidecar of Grafana's Helm chart."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels by which the sidecar selects ConfigMaps; `grafana_dashboard: "1"` by default."""

    folder: Text | None = None
    """Grafana folder, set as the annotation `grafana_folder`; the sidecar's default if not set."""


_Path = Annotated[str, string_format(r"^/", "a path that starts with /")]


class MonitoringArgs(SpecModel):
    """Prometheus operator monitors; `{}` scrapes engines, and the picker if its metrics are on."""

    engines: bool = True
    """Whether each serving role gets a PodMonitor of its leaders, on their serving ports."""

    picker: bool | None = None
    """Whether to create a ServiceMonitor for the endpoint picker; by default if its metrics are on
    (`endpointPicker.metrics`)."""

    path: _Path = "/metrics"
    """Path of the engines' metrics; `/metrics` by default."""

    interval: Interval | None = None
    """Scrape interval, such as `15s`; Prometheus' default if not set."""

    scrape_timeout: Interval | None = None
    """Scrape timeout, at most the interval; Prometheus' default if not set."""

    labels: LabelMap = Field(default_factory=dict)
    """Labels of the monitors, by which Prometheus may select them, such as `release:
    kube-prometheus-stack`."""

    picker_token: TokenSecretArgs | None = None
    """Secret with the token for an endpoint picker whose metrics are `Authenticated`; by default
    Prometheus sends the token of its ServiceAccount."""

    alerts: AlertsArgs | None = None
    """Creates a PrometheusRule with alerts; none by default."""

    dashboards: DashboardsArgs | None = None
    """Creates a ConfigMap with Grafana dashboards; none by default."""


_Collector = Annotated[
    str,
    string_format(
        r"^https?://[^\s/]+/?$",
        "an address such as http://otel-collector.observability:4317, without a path",
    ),
]


class TracingArgs(SpecModel):
    """OpenTelemetry traces of the endpoint picker and of vLLM, sent by OTLP over gRPC."""

    endpoint: _Collector
    """Address of the collector, such as `http://otel-collector.observability:4317`; `https` for
    TLS."""

    sampling: float = Field(default=0.1, ge=0, le=1)
    """Fraction of requests to trace if the client made no sampling decision; 0.1 by default."""

    engines: bool = True
    """Whether vLLM sends traces: sets `--otlp-traces-endpoint`. A change restarts the pods."""

    picker: bool = True
    """Whether the endpoint picker sends traces, if there is one."""
