"""Metrics and traces of a service: monitors, alerts, dashboards, OpenTelemetry."""

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    AlertLabelMap,
    LabelMap,
    Text,
    TextOrOutput,
    WebAddress,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

Interval = str

class TokenSecretArgs(SpecModel):
    """A key of a Secret that holds a token."""

    def __init__(self, **fields: Unpack[dicts.TokenSecretArgsDict]) -> None: ...
    name: TextOrOutput
    "Name of the Secret, in the service's namespace; may be an Output."
    key: str
    "Key that holds the token; `token` by default."

class AlertsArgs(SpecModel):
    """Alerts of a service, as a PrometheusRule; `{}` enables all of them."""

    def __init__(self, **fields: Unpack[dicts.AlertsArgsDict]) -> None: ...
    labels: AlertLabelMap
    "Labels of every alert, which Alertmanager may use for routing, such as `team: search`."
    runbook: WebAddress | None
    "URL of a page with a section for each alert, for the annotation `runbook_url`; by default\n    fusioninfer-pulumi's documentation."

class DashboardsArgs(SpecModel):
    """Grafana dashboards as a ConfigMap; `{}` works with the sidecar of Grafana's Helm chart."""

    def __init__(self, **fields: Unpack[dicts.DashboardsArgsDict]) -> None: ...
    labels: LabelMap
    'Labels by which the sidecar selects ConfigMaps; `grafana_dashboard: "1"` by default.'
    folder: Text | None
    "Grafana folder, set as the annotation `grafana_folder`; the sidecar's default if not set."

_Path = str

class MonitoringArgs(SpecModel):
    """Prometheus operator monitors; `{}` scrapes engines, and the picker if its metrics are on."""

    def __init__(self, **fields: Unpack[dicts.MonitoringArgsDict]) -> None: ...
    engines: bool
    "Whether each serving role gets a PodMonitor of its leaders, on their serving ports."
    picker: bool | None
    "Whether to create a ServiceMonitor for the endpoint picker; by default if its metrics are on\n    (`endpointPicker.metrics`)."
    path: _Path
    "Path of the engines' metrics; `/metrics` by default."
    interval: Interval | None
    "Scrape interval, such as `15s`; Prometheus' default if not set."
    scrape_timeout: Interval | None
    "Scrape timeout, at most the interval; Prometheus' default if not set."
    labels: LabelMap
    "Labels of the monitors, by which Prometheus may select them, such as `release:\n    kube-prometheus-stack`."
    picker_token: TokenSecretArgs | None
    "Secret with the token for an endpoint picker whose metrics are `Authenticated`; by default\n    Prometheus sends the token of its ServiceAccount."
    alerts: AlertsArgs | None
    "Creates a PrometheusRule with alerts; none by default."
    dashboards: DashboardsArgs | None
    "Creates a ConfigMap with Grafana dashboards; none by default."

_Collector = str

class TracingArgs(SpecModel):
    """OpenTelemetry traces of the endpoint picker and of vLLM, sent by OTLP over gRPC."""

    def __init__(self, **fields: Unpack[dicts.TracingArgsDict]) -> None: ...
    endpoint: _Collector
    "Address of the collector, such as `http://otel-collector.observability:4317`; `https` for\n    TLS."
    sampling: float
    "Fraction of requests to trace if the client made no sampling decision; 0.1 by default."
    engines: bool
    "Whether vLLM sends traces: sets `--otlp-traces-endpoint`. A change restarts the pods."
    picker: bool
    "Whether the endpoint picker sends traces, if there is one."
