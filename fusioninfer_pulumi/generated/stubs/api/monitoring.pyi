"""Metrics and traces of a service: monitors, alerts, dashboards, OpenTelemetry."""

from __future__ import annotations

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
    """A key of a Secret."""

    def __init__(self, **fields: Unpack[dicts.TokenSecretArgsDict]) -> None: ...
    name: TextOrOutput
    "Name of the Secret, in the service's namespace; may be an Output."
    key: str
    "Key that holds the token; `token` by default."

class AlertsArgs(SpecModel):
    """Alerts of a service, as a PrometheusRule; `{}` has all of them."""

    def __init__(self, **fields: Unpack[dicts.AlertsArgsDict]) -> None: ...
    labels: AlertLabelMap
    "Labels of every alert, by which Alertmanager may route it, such as `team: search`."
    runbook: WebAddress | None
    "Page with a section for each alert, linked from its `runbook_url`; by default that of\n    fusioninfer-pulumi's documentation."

class DashboardsArgs(SpecModel):
    """Grafana dashboards as a ConfigMap; `{}` suits the sidecar of Grafana's Helm chart."""

    def __init__(self, **fields: Unpack[dicts.DashboardsArgsDict]) -> None: ...
    labels: LabelMap
    'Labels by which the sidecar finds ConfigMaps; `grafana_dashboard: "1"` by default.'
    folder: Text | None
    "Folder in Grafana, as the annotation `grafana_folder`; by default that of the sidecar."

_Path = str

class MonitoringArgs(SpecModel):
    """Monitors of the Prometheus operator; `{}` scrapes the engines, and the picker if it may."""

    def __init__(self, **fields: Unpack[dicts.MonitoringArgsDict]) -> None: ...
    engines: bool
    "A PodMonitor for each serving role: its leaders, on the serving port."
    picker: bool | None
    "A ServiceMonitor for the endpoint picker; by default where its metrics are on\n    (`endpointPicker.metrics`)."
    path: _Path
    "Path of the engines' metrics; `/metrics` by default."
    interval: Interval | None
    "How often, such as `15s`; by default that of Prometheus."
    scrape_timeout: Interval | None
    "How long a reading may take, at most the interval; by default that of Prometheus."
    labels: LabelMap
    "Labels of the monitors, by which a Prometheus may choose them, such as\n    `release: kube-prometheus-stack`."
    picker_token: TokenSecretArgs | None
    "Secret with the token for a picker whose metrics are `Authenticated`; by default Prometheus\n    shows the token of its own ServiceAccount."
    alerts: AlertsArgs | None
    "A PrometheusRule with alerts; none by default."
    dashboards: DashboardsArgs | None
    "A ConfigMap with Grafana dashboards; none by default."

_Collector = str

class TracingArgs(SpecModel):
    """OpenTelemetry traces of endpoint picker and engines, by OTLP over gRPC."""

    def __init__(self, **fields: Unpack[dicts.TracingArgsDict]) -> None: ...
    endpoint: _Collector
    "Collector, such as `http://otel-collector.observability:4317`; `https` for TLS."
    sampling: float
    "Share of the requests that are traced where the client has not decided; 0.1 by default."
    engines: bool
    "Whether vLLM traces too: sets `--otlp-traces-endpoint`, which restarts its pods."
    picker: bool
    "Whether the endpoint picker traces, where there is one."
