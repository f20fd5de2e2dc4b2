"""Unit tests of alerts and autoscaler queries with promtool."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.harness import Object
from fusioninfer_pulumi import load, plan_service, render

PROMTOOL = "promtool"
PREREQUISITE = "promtool is on PATH (Debian: prometheus)"

pytestmark = pytest.mark.skipif(shutil.which(PROMTOOL) is None, reason=f"needs that {PREREQUISITE}")

BEFORE, AFTER = 180, 150
"""Minutes before and after the cause of an alert."""

REPLICAS = ("svc-inference-0-0", "svc-inference-1-0", "svc-inference-2-0")
ENGINE_LABELS = (
    'namespace="prod", fusioninfer_io_service="svc", fusioninfer_io_role_name="inference", '
    'fusioninfer_io_component_type="worker"'
)

SERVICE = Path(__file__).with_name("alerts.yaml")

Series = dict[str, str]
"""Values by series, in promtool's notation."""


def select(metric: str, pod: str, *, revision: str = "a", address: str = "") -> str:
    return (
        f'{metric}{{{ENGINE_LABELS}, pod="{pod}", fusioninfer_io_revision="{revision}", '
        f'endpoint="http", instance="{address or pod}"}}'
    )


def repeat_value(value: float) -> str:
    return f"{value}x{BEFORE + AFTER}"


def change_value(before: str, after: str) -> str:
    """Return values before and after the cause; `0+1` grows."""
    return f"{before}x{BEFORE - 1} {after}x{AFTER}"


PICKER = 'up{namespace="prod", job="svc-epp", pod="svc-epp-0"}'


def make_healthy_series() -> Series:
    """Return series of three ready replicas with a prefix cache hit rate of 50 %."""
    series = {PICKER: repeat_value(1)}
    for pod in REPLICAS:
        series |= {
            select("up", pod): repeat_value(1),
            select("process_start_time_seconds", pod): repeat_value(0),
            select("vllm:prompt_tokens_total", pod): f"0+1000x{BEFORE + AFTER}",
            select("vllm:num_requests_waiting", pod): repeat_value(2),
            select("vllm:num_preemptions_total", pod): repeat_value(7),
            select("vllm:prefix_cache_queries_total", pod): f"0+1000x{BEFORE + AFTER}",
            select("vllm:prefix_cache_hits_total", pod): f"0+500x{BEFORE + AFTER}",
        }
    return series


@dataclass(frozen=True)
class Case:
    """The cause of an alert.

    Attributes:
        alert: Name of the alert.
        series: Series that differ from a healthy service.
        silent: Minutes after the cause when the alert does not fire.
        fires: Minutes after the cause when the alert fires; None if it never does.
        labels: Labels of the alert in addition to the service's.
    """

    alert: str
    series: Series
    silent: tuple[int, ...]
    fires: int | None
    labels: Mapping[str, str]


ROLE = {"role": "inference"}
ROLE_LABELS = {**ROLE, "fusioninfer_io_role_name": "inference"}


def update_replica(pod: str, minute: int, revision: str = "b") -> Series:
    """Return series of a replica that is updated this many minutes after the cause."""
    at = BEFORE + minute
    until_update = f"1x{at - 1} stale"
    return {
        select("up", pod): until_update,
        select("process_start_time_seconds", pod): f"0x{at - 1} stale",
        select("up", pod, revision=revision, address=f"{pod}-b"): f"_x{at} 1x{AFTER}",
        select("process_start_time_seconds", pod, revision=revision, address=f"{pod}-b"):
            f"_x{at} {at * 60}x{AFTER}",
    }  # fmt: skip


def list_cases() -> Iterator[Case]:
    all_down = {select("up", pod): change_value("1", "0") for pod in REPLICAS}
    yield Case("FusionInferNoReplica", all_down, (0, 4), 6, ROLE)
    two_down = {select("up", pod): change_value("1", "0") for pod in REPLICAS[:2]}
    yield Case("FusionInferNoReplica", two_down, (0, 60), None, ROLE)
    # Unschedulable pods have no address, so Prometheus does not scrape them.
    pending = {select("up", REPLICAS[2]): f"1x{BEFORE - 1} stale"}
    yield Case("FusionInferReplicasMissing", pending, (0, 19), 21, ROLE)
    yield Case("FusionInferUpdateStalls", update_replica(REPLICAS[2], 0), (0, 24), 27, ROLE)
    update: Series = {}
    for number, pod in enumerate(reversed(REPLICAS)):
        update |= update_replica(pod, number * 18)
    for name in ("FusionInferUpdateStalls", "FusionInferReplicasMissing",
                 "FusionInferEngineRestarts"):  # fmt: skip
        yield Case(name, update, tuple(range(0, 120, 10)), None, ROLE)
    waiting = {select("vllm:num_requests_waiting", pod): change_value("2", "8") for pod in REPLICAS}
    yield Case("FusionInferQueueGrows", waiting, (0, 9), 11, ROLE_LABELS)
    preempted = {select("vllm:num_preemptions_total", REPLICAS[0]): change_value("7", "7+1")}
    yield Case("FusionInferKvCacheFull", preempted, (0, 9), 13, ROLE_LABELS)
    hits = {
        select("vllm:prefix_cache_hits_total", pod): f"0+500x{BEFORE} {500 * BEFORE}x{AFTER}"
        for pod in REPLICAS
    }
    yield Case("FusionInferPrefixHitsFall", hits, (0, 30), 70, ROLE_LABELS)
    replica = {**ROLE_LABELS, "pod": REPLICAS[0], "fusioninfer_io_revision": "a"}
    started = select("process_start_time_seconds", REPLICAS[0])
    crashes = {started: f"0x{BEFORE} 60x10 120x{AFTER}"}
    yield Case("FusionInferEngineRestarts", crashes, (0, 5), 12, replica)
    # With several API servers, vLLM does not export process metrics.
    silent = {
        started: f"_x{BEFORE + AFTER}",
        select("vllm:prompt_tokens_total", REPLICAS[0]): f"0+9x{BEFORE} 0+9x10 0+9x{AFTER}",
    }
    yield Case("FusionInferEngineRestarts", silent, (0, 5), 14, replica)
    crash_loop = {select("up", REPLICAS[0]): f"1x{BEFORE} stale"} | {
        select("up", REPLICAS[0], address=f"again-{number}"):
            f"_x{BEFORE + 1 + number * 10} {number}x9 stale"
        for number in (0, 1)
    }  # fmt: skip
    yield Case("FusionInferEngineRestarts", crash_loop, (0, 5), 12, replica)
    yield Case("FusionInferPickerDown", {PICKER: change_value("1", "0")}, (0, 4), 6, {})


@pytest.fixture(scope="module")
def rules() -> list[Object]:
    (args,) = load(SERVICE)
    (rule,) = (item for item in render(plan_service(args)) if item["kind"] == "PrometheusRule")
    rules: list[Object] = rule["spec"]["groups"][0]["rules"]
    return rules


def run_promtool(folder: Path, rules: list[Object], tests: list[Object]) -> str:
    group = {"name": "rules", "rules": rules}
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    for command in (["check", "rules", "rules.yaml"], ["test", "rules", "tests.yaml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=folder, capture_output=True, text=True,
                              check=False)  # fmt: skip
        if done.returncode:
            return f"{done.stdout}{done.stderr}"
    return ""


def make_test(series: Series, checks: list[Object]) -> Object:
    listed = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": listed, "alert_rule_test": checks}


def render_alert(rule: Object, case: Case) -> Object:
    labels = {key: value for key, value in rule["labels"].items() if "{{" not in value}
    alert: Object = {"exp_labels": {**labels, **case.labels}, "exp_annotations": {}}
    for key, value in rule["annotations"].items():
        text = value.replace("{{ $value }}", "2")
        for label, content in case.labels.items():
            text = text.replace(f"{{{{ $labels.{label} }}}}", content)
        alert["exp_annotations"][key] = text
    return alert


def test_every_alert_has_a_cause(rules: list[Object]) -> None:
    assert {rule["alert"] for rule in rules} == {case.alert for case in list_cases() if case.fires}


@pytest.mark.verifies(
    "Alerts stay silent, become pending and fire as documented (promtool)", needs=PREREQUISITE
)
def test_alerts_fire_after_their_causes(tmp_path: Path, rules: list[Object]) -> None:
    by_name = {rule["alert"]: rule for rule in rules}
    minutes = (60, BEFORE - 1, BEFORE + AFTER)
    no_alerts = [{"eval_time": f"{minute}m", "alertname": name, "exp_alerts": []}
                 for name in by_name for minute in minutes]  # fmt: skip
    tests = [make_test(make_healthy_series(), no_alerts)]
    for case in list_cases():
        checks: list[Any] = [
            {"eval_time": f"{BEFORE + minute}m", "alertname": case.alert, "exp_alerts": []}
            for minute in case.silent
        ]
        if case.fires is not None:
            fired = render_alert(by_name[case.alert], case)
            checks.append({"eval_time": f"{BEFORE + case.fires}m", "alertname": case.alert,
                           "exp_alerts": [fired]})  # fmt: skip
        tests.append(make_test({**make_healthy_series(), **case.series}, checks))
    assert run_promtool(tmp_path, rules, tests) == ""


def make_latency_series(first: str, calls: int) -> Series:
    """Return series of four replicas with all latencies in the bucket `first`."""
    limits = ["0.05", "0.1", "1", "4", "+Inf"]
    series = {select("vllm:num_requests_running", str(pod)): repeat_value(1) for pod in range(4)}
    for metric in ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds"):
        for limit in limits:
            counted = calls if limits.index(limit) >= limits.index(first) else 0
            series[f'{select(f"{metric}_bucket", "0")[:-1]}, le="{limit}"}}'] = f"0+{counted}x60"
    return series


@pytest.mark.verifies(
    "Latency goals at most double the replicas, and remove at most a fifth (promtool)",
    needs=PREREQUISITE,
)
def test_replicas_follow_latency_goals(tmp_path: Path) -> None:
    service = yaml.safe_load(SERVICE.read_text(encoding="utf-8"))
    (role,) = (r for r in service["spec"]["roles"] if r["name"] == "inference")
    role["autoscaling"] = {
        "engine": "KEDA", "prometheus": "http://x:9090", "target": "latency", "maxReplicas": 9,
        "timeToFirstToken": "2s", "timePerToken": "500ms",
    }  # fmt: skip
    (args,) = load(service)
    (scaled,) = (o for o in render(plan_service(args)) if o["kind"] == "ScaledObject")
    queries = [t["metadata"]["query"] for t in scaled["spec"]["triggers"]]
    rules = [{"record": f"q{index}", "expr": query} for index, query in enumerate(queries)]
    # The 90th percentile of each case: 3.7 s, 0.91 s, 0.095 s, none without requests.
    expected_replicas = {
        ("4", 60): (4 * 3.7 / 2, 8), ("1", 60): (3, 4 * 0.91 / 0.5),
        ("0.1", 60): (3, 3), ("4", 0): (3, 3),
    }  # fmt: skip
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": name, "values": values}
                for name, values in make_latency_series(*case).items()
            ],
            "promql_expr_test": [
                {
                    "expr": f"q{index}",
                    "eval_time": "30m",
                    "exp_samples": [{"labels": f"q{index}", "value": value}],
                }
                for index, value in enumerate(values)
            ],
        }
        for case, values in expected_replicas.items()
    ]
    assert run_promtool(tmp_path, rules, tests) == ""
