"""Writes the Grafana dashboards in `generated/dashboards`: `python tools/dashboards.py`.

They are built with Grafana's typed builders (grafana-foundation-sdk, Python 3.11 or later); the
library itself only reads the JSON. `operations/monitors.py` sets the values that differ between
services: `namespace`, `service` and `$gpus`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders.dashboard import (
    ConstantVariable,
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.timeseries import Panel as Series
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    DataSourceRef,
    GraphThresholdsStyleMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

DIRECTORY = Path(__file__).parent.parent / "fusioninfer_pulumi" / "generated" / "dashboards"

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
#: Labels that select engines' series; the PodMonitor copies them from pods.
ROLE = "fusioninfer_io_role_name"
SERVICE = 'namespace="$namespace", fusioninfer_io_service="$service"'
ENGINES = f'{SERVICE}, {ROLE}=~"$role"'
#: Labels that select the endpoint picker's series; the job is named after its Service.
PICKER = 'namespace="$namespace", job="${service}-epp"'

#: Selects Envoy's series of the HTTPRoute: Envoy Gateway creates an Envoy cluster for each rule.
ROUTE = 'envoy_cluster_name=~"httproute/$namespace/${service}-httproute/.+"'
#: Selects Envoy's series about the listeners of its Gateways.
LISTENERS = 'envoy_http_conn_manager_prefix=~"https?-.+"'

#: An expression of PromQL and the legend of its series.
Query = tuple[str, str]


def rate(metric: str, by: str = "") -> str:
    """Return the sum of a counter's rates over all engines."""
    grouped = f" by ({by}) " if by else ""
    return f"sum{grouped}(rate({metric}{{{ENGINES}}}[$__rate_interval]))"


def ready_replicas(by: str) -> str:
    """Return a query for replicas whose leader answers Prometheus on every port."""
    return f"sum by ({by}) (min by ({by}, pod) (up{{{ENGINES}}}))"


def gauge(metric: str, by: str) -> str:
    """Return the sum over engines of a gauge."""
    return f"sum by ({by}) ({metric}{{{ENGINES}}})"


def quantile(fraction: float, histogram: str, by: str = "") -> str:
    """Return a quantile of a histogram of the engines."""
    labels = ", ".join(filter(None, ["le", by]))
    return f"histogram_quantile({fraction}, {rate(f'{histogram}_bucket', labels)})"


def quantiles(histogram: str) -> list[Query]:
    """Return the 50th, 95th and 99th percentile of a histogram of the engines."""
    return [
        (quantile(fraction, histogram), f"p{fraction * 100:.0f}") for fraction in (0.5, 0.95, 0.99)
    ]


def picker_rate(metric: str, by: str) -> str:
    """Return the rate of an endpoint picker's counter."""
    return f"sum by ({by}) (rate({metric}{{{PICKER}}}[$__rate_interval]))"


def either(new: str, old: str) -> str:
    """Return a query for the new name of a metric, else for the old one."""
    return f"{new} or on() {old}"


def picker_quantiles(new: str, old: str) -> list[Query]:
    """Return quantiles of a histogram by its new name (llm-d) or its old one."""
    rates = [picker_rate(f"{name}_bucket", "le") for name in (new, old)]
    return [
        (
            either(*(f"histogram_quantile({fraction}, {item})" for item in rates)),
            f"p{fraction * 100:.0f}",
        )
        for fraction in (0.5, 0.99)
    ]


def target(query: Query, number: int) -> prometheus.Dataquery:
    """Return one query of a panel."""
    expression, legend = query
    result = prometheus.Dataquery().datasource(SOURCE).ref_id(chr(ord("A") + number))
    return result.expr(expression).legend_format(legend).range()


def series(
    title: str, description: str, unit: str, *queries: Query, limit: float | None = None
) -> Series:
    """Return a panel with graphs over time, and a line at `limit`."""
    panel = Series().title(title).description(description).datasource(SOURCE).unit(unit)
    panel = panel.min(0).span(12).height(8).fill_opacity(8)
    panel = panel.tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    panel = panel.legend(common.VizLegendOptions().show_legend(show_legend=True))
    for number, query in enumerate(queries):
        panel = panel.with_target(target(query, number))
    if limit is not None:
        steps = [Threshold(value=None, color="green"), Threshold(value=limit, color="red")]
        panel = panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE)
        panel = panel.thresholds_style(style)
    return panel


def figure(title: str, unit: str, query: Query) -> Stat:
    """Return a panel with the latest value of a query."""
    panel = Stat().title(title).datasource(SOURCE).unit(unit).span(6).height(4)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    return panel.with_target(target(query, 0))


def dashboard(title: str, description: str, *, role: bool) -> Dashboard:
    """Return an empty dashboard with a service's variables; `role` adds a choice of roles."""
    result = Dashboard(title).description(description).tags(["fusioninfer"]).readonly()
    result = result.time("now-3h", "now").refresh("30s").tooltip(DashboardCursorSync.CROSSHAIR)
    result = result.with_variable(
        DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    )
    for name in ("namespace", "service"):
        # Grafana hides constants.
        result = result.with_variable(ConstantVariable(name).value(name))
    if role:
        roles = QueryVariable("role").label("Role").datasource(SOURCE)
        roles = roles.query(f"label_values(up{{{SERVICE}}}, {ROLE})")
        roles = roles.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).multi(multi=True)
        result = result.with_variable(roles.include_all(include_all=True).all_value(".*"))
    return result


def with_panels(
    result: Dashboard, rows: Sequence[tuple[str, Sequence[Stat | Series]]]
) -> Dashboard:
    """Add rows of panels, each with an ID."""
    numbers = itertools.count(1)
    for title, panels in rows:
        if title:
            result = result.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            result = result.with_panel(panel.id(next(numbers)))
    return result


def service() -> Dashboard:
    """Return the dashboard with an overview of a service."""
    result = dashboard("service", "Latency and load of a service, and its KV caches.", role=True)
    tokens = "vllm:generation_tokens_total"
    rows: list[tuple[str, list[Stat | Series]]] = [
        ("", [
            figure("Ready replicas", "short", (f"sum(min by (pod) (up{{{ENGINES}}}))", "")),
            figure("Requests per second", "reqps", (rate("vllm:request_success_total"), "")),
            figure("Time to first token, p95", "s",
                   (quantile(0.95, "vllm:time_to_first_token_seconds"), "")),
            figure("Waiting requests", "short",
                   (f"sum(vllm:num_requests_waiting{{{ENGINES}}})", "")),
        ]),
        ("Requests", [
            series("Requests per second", "Finished requests by finish reason.", "reqps",
                   (rate("vllm:request_success_total", "finished_reason"), "{{finished_reason}}")),
            series("Time to first token", "From the arrival at the engine to the first token.", "s",
                   *quantiles("vllm:time_to_first_token_seconds")),
            series("Time per output token", "Time between two tokens of a response.", "s",
                   *quantiles("vllm:inter_token_latency_seconds")),
            series("Request duration", "From the arrival at the engine to the last token.", "s",
                   *quantiles("vllm:e2e_request_latency_seconds")),
        ]),
        ("Load", [
            series("Queue", "Running and waiting requests by role.", "short",
                   (gauge("vllm:num_requests_running", ROLE), f"{{{{{ROLE}}}}} running"),
                   (gauge("vllm:num_requests_waiting", ROLE), f"{{{{{ROLE}}}}} waiting")),
            series("Time in the queue", "Until the engine starts to process a request.", "s",
                   *quantiles("vllm:request_queue_time_seconds")),
            series("KV cache", "Fraction in use in the fullest replica of each role. Endpoint "
                   "pickers regard replicas above the line as saturated.", "percentunit",
                   (f"max by ({ROLE}) (vllm:kv_cache_usage_perc{{{ENGINES}}})", f"{{{{{ROLE}}}}}"),
                   limit=0.8),
            series("Prefix cache hits", "Fraction of prompt tokens found in the KV cache.",
                   "percentunit",
                   (" / ".join(rate(f"vllm:prefix_cache_{name}_total", ROLE)
                               for name in ("hits", "queries")), f"{{{{{ROLE}}}}}")),
        ]),
        ("Tokens", [
            series("Tokens per second", "Prompt tokens and generated tokens.", "short",
                   (rate("vllm:prompt_tokens_total"), "prompts"), (rate(tokens), "generated")),
            series("Tokens per second and GPU", "Generated tokens per GPU of the ready replicas.",
                   "short",
                   (f"sum(rate({tokens}{{{SERVICE}}}[$__rate_interval])) / ($gpus)", "generated")),
        ]),
    ]  # fmt: skip
    return with_panels(result, rows)


def replicas() -> Dashboard:
    """Return the dashboard of roles and replicas."""
    result = dashboard("replicas", "Each replica, by its leader pod, and the progress of updates.",
                     role=True)  # fmt: skip
    pod = "{{pod}}"
    rows: list[tuple[str, list[Stat | Series]]] = [
        ("Updates", [
            series("Ready replicas", "Leaders that answer Prometheus, by role.", "short",
                   (ready_replicas(ROLE), f"{{{{{ROLE}}}}}")),
            series("Revisions", "Leaders that answer Prometheus, by revision: during an update the "
                   "number moves from the old to the new revision.", "short",
                   (ready_replicas(f"{ROLE}, fusioninfer_io_revision"),
                    f"{{{{{ROLE}}}}} {{{{fusioninfer_io_revision}}}}")),
            series("Age of engines", "A drop is a restart. Not available for engines with several "
                   "API servers (data parallel).", "s",
                   (f"time() - max by (pod) (process_start_time_seconds{{{ENGINES}}})", pod)),
            series("Memory of engines", "Host memory of the API server process. Not available for "
                   "engines with several API servers.", "bytes",
                   (f"max by (pod) (process_resident_memory_bytes{{{ENGINES}}})", pod)),
        ]),
        ("Replicas", [
            series("Requests per second", "Finished requests.", "reqps",
                   (rate("vllm:request_success_total", "pod"), pod)),
            series("Time to first token, p95", "From the arrival at the engine.", "s",
                   (quantile(0.95, "vllm:time_to_first_token_seconds", "pod"), pod)),
            series("Running requests", "On each replica.", "short",
                   (gauge("vllm:num_requests_running", "pod"), pod)),
            series("Waiting requests", "Endpoint pickers regard replicas above the line as "
                   "saturated.", "short",
                   (gauge("vllm:num_requests_waiting", "pod"), pod), limit=5),
            series("KV cache", "Fraction in use, by data parallel rank.", "percentunit",
                   (f"max by (pod, engine) (vllm:kv_cache_usage_perc{{{ENGINES}}})",
                    "{{pod}} {{engine}}"), limit=0.8),
            series("Preemptions per second", "Requests whose KV cache was freed for others and "
                   "is computed again.", "short", (rate("vllm:num_preemptions_total", "pod"), pod)),
        ]),
    ]  # fmt: skip
    return with_panels(result, rows)


def picker() -> Dashboard:
    """Return the dashboard of the endpoint picker."""
    text = "Requests, choices and latency of the endpoint picker."
    result = dashboard("picker", text, role=False)
    models, errors = "target_model_name", "error_code"
    rows: list[tuple[str, list[Stat | Series]]] = [
        ("Requests", [
            series("Requests per second", "Requests by target model.", "reqps",
                   (either(picker_rate("llm_d_epp_request_total", models),
                           picker_rate("inference_objective_request_total", models)),
                    f"{{{{{models}}}}}")),
            series("Errors per second", "Requests rejected by the picker, not by engines.",
                   "reqps",
                   (either(picker_rate("llm_d_epp_request_error_total", errors),
                           picker_rate("inference_objective_request_error_total", errors)),
                    f"{{{{{errors}}}}}")),
            series("Scheduled requests per second", "Requests sent to each replica. Endpoint "
                   "pickers of release 1.2 do not count them.", "reqps",
                   (either(picker_rate("llm_d_epp_scheduler_attempts_total", "endpoint_name"),
                           picker_rate("inference_extension_scheduler_attempts_total", "pod_name")),
                    "{{endpoint_name}}{{pod_name}}")),
            series("Request duration", "From the picker's choice to the end of the response.", "s",
                   *picker_quantiles("llm_d_epp_request_duration_seconds",
                                     "inference_objective_request_duration_seconds")),
        ]),
        ("Picker", [
            series("Scheduling latency", "Time that the picker adds to a request.", "s",
                   *picker_quantiles("llm_d_epp_scheduler_e2e_duration_seconds",
                                     "inference_extension_scheduler_e2e_duration_seconds")),
            series("Endpoints", "Pods from which the picker can choose.", "short",
                   (either(f"max(llm_d_epp_ready_endpoints{{{PICKER}}})",
                           f"max(inference_pool_ready_pods{{{PICKER}}})"), "ready")),
            series("Queue", "Mean number of waiting requests per engine, as seen by the picker.",
                   "short",
                   (either(f"max(llm_d_epp_average_queue_size{{{PICKER}}})",
                           f"max(inference_pool_average_queue_size{{{PICKER}}})"), "mean")),
            series("Memory", "Memory of the picker's pods.", "bytes",
                   (f"max by (pod) (process_resident_memory_bytes{{{PICKER}}})", "{{pod}}")),
        ]),
    ]  # fmt: skip
    return with_panels(result, rows)


def gateway() -> Dashboard:
    """Return the dashboard of the gateway, from Envoy's metrics as Envoy Gateway exposes them."""
    result = dashboard("gateway", "Envoy Gateway's metrics of the service's HTTPRoute.", role=False)
    status = "envoy_response_code_class"

    def route_rate(metric: str, by: str = "") -> str:
        grouped = f" by ({by}) " if by else ""
        return f"sum{grouped}(rate(envoy_cluster_{metric}{{{ROUTE}}}[$__rate_interval]))"

    def now(metric: str) -> str:
        return f"sum(envoy_cluster_{metric}{{{ROUTE}}})"

    times = [
        (f"histogram_quantile({fraction}, {route_rate('upstream_rq_time_bucket', 'le')})",
         f"p{fraction * 100:.0f}")
        for fraction in (0.5, 0.95, 0.99)
    ]  # fmt: skip
    listeners = f"envoy_http_downstream_rq_xx{{{LISTENERS}}}"
    rows: list[tuple[str, list[Stat | Series]]] = [
        ("The route", [
            series("Requests per second", "Responses of replicas by status class.",
                   "reqps", (route_rate("upstream_rq_xx", status), f"{{{{{status}}}}}xx")),
            series("Request duration", "From the request to the last token.", "ms", *times),
            series("Requests in progress", "In a replica, or waiting for a connection.",
                   "short", (now("upstream_rq_active"), "active"),
                   (now("upstream_rq_pending_active"), "pending")),
            series("Failures per second", "Requests above the route's timeout, requests reset by "
                   "a replica, and failed connections.", "reqps",
                   (route_rate("upstream_rq_timeout"), "timeout"),
                   (route_rate("upstream_rq_rx_reset"), "reset"),
                   (route_rate("upstream_cx_connect_fail"), "no connection")),
            series("Connections", "To replicas.", "short", (now("upstream_cx_active"), "open")),
            series("Bytes per second", "Requests and responses.", "Bps",
                   (route_rate("upstream_cx_tx_bytes_total"), "to replicas"),
                   (route_rate("upstream_cx_rx_bytes_total"), "from replicas")),
        ]),
        ("The gateway", [
            series("Responses per second", "All routes of all Gateways, and responses of Envoy "
                   "itself: no route, rate limits, errors of the picker.", "reqps",
                   (f"sum by ({status}) (rate({listeners}[$__rate_interval]))",
                    f"{{{{{status}}}}}xx")),
            series("Memory", "Memory allocated by Envoy.", "bytes",
                   ("max by (pod) (envoy_server_memory_allocated)", "{{pod}}")),
        ]),
    ]  # fmt: skip
    return with_panels(result, rows)


DASHBOARDS = {"service": service, "replicas": replicas, "picker": picker, "gateway": gateway}


def files() -> dict[str, str]:
    """Return the text of each file by its name."""
    return {
        f"{name}.json": JSONEncoder(sort_keys=True, indent=1).encode(build().build()) + "\n"
        for name, build in DASHBOARDS.items()
    }


def write() -> None:
    """Write all files."""
    DIRECTORY.mkdir(exist_ok=True)
    for name, text in files().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
