"""Alerts and dashboards: their queries use labels of the monitors; each alert is documented."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from routed import objects, only, pair, routed
from rows import each_row
from samples import container, problems, role, service, template, warnings

from fusioninfer_pulumi.cli.main import main
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput

Manifest = dict[str, Any]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
PORT = {"name": "http", "containerPort": 8000}
ALL = {"alerts": {}, "dashboards": {}}


def serving(name: str = "inference", **more: Any) -> Manifest:
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    return role(name, **{"template": template(container(ports=[PORT], resources=limits)), **more})


def monitored(*roles: Manifest, monitoring: Manifest | None = None, **more: Any) -> Manifest:
    """Return a monitored service with a router whose metrics are enabled."""
    manifest = routed(
        *(roles or (serving(replicas=3),)), endpointPicker={"metrics": "Authenticated"}
    )
    manifest["spec"] |= {"monitoring": {**ALL, **(monitoring or {})}, **more}
    return manifest


def rules(manifest: Manifest) -> dict[tuple[str, str], Manifest]:
    """Return the rules by alert and role."""
    (group,) = only(manifest, "PrometheusRule")["spec"]["groups"]
    return {(rule["alert"], rule["labels"].get("role", "")): rule for rule in group["rules"]}


def boards(manifest: Manifest) -> dict[str, Manifest]:
    (result,) = [
        item
        for item in objects(manifest, "ConfigMap")
        if item["metadata"]["name"] == "svc-dashboards"
    ]
    return {name: json.loads(text) for name, text in result["data"].items()}


def expressions(board: Manifest) -> Iterator[str]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def test_every_alert_has_a_section_of_its_page() -> None:
    sections = set(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE))
    result = rules(monitored())
    assert {alert for alert, _ in result} == sections
    for (alert, _), rule in result.items():
        assert rule["annotations"]["runbook_url"].endswith(f"docs/alerts.md#{alert.lower()}")
        assert f"**{rule['labels']['severity'].capitalize()}: " in PAGE.split(f"### {alert}\n")[1]


def test_documented_monitoring_fields_take_effect() -> None:
    (text,) = re.findall(r"```yaml title=\"qwen.yaml\"\n(.*?)```", PAGE, re.DOTALL)
    manifest = yaml.safe_load(text)
    assert problems(manifest) == []
    assert warnings(manifest) == []
    result = rules(manifest)
    assert {rule["labels"]["team"] for rule in result.values()} == {"search"}
    labels = only(manifest, "PrometheusRule")["metadata"]["labels"]
    assert labels["release"] == "kube-prometheus-stack"


@pytest.mark.parametrize(
    ("more", "least"),
    [
        ({"replicas": 3}, 3),
        ({"replicas": 3, "autoscaling": {"minReplicas": 2, "maxReplicas": 6,
                                         "metrics": [{"name": "m", "target": 5}]}}, 2),
        ({"replicas": 3, "autoscaling": {
            "engine": "KEDA", "minReplicas": 0, "maxReplicas": 6, "prometheus": "http://p",
            "metrics": [{"query": "q", "target": 5}]}}, None),
    ],
)  # fmt: skip
def test_replicas_that_an_autoscaler_may_remove_are_not_missing(
    more: Manifest, least: int | None
) -> None:
    result = rules(monitored(serving(**more), layout="PerRole"))
    missing = result.get(("FusionInferReplicasMissing", "inference"))
    assert (missing is None) == (("FusionInferNoReplica", "inference") not in result)
    assert (missing is None) == (least is None)
    if missing is not None:
        assert f") < {least} unless" in missing["expr"]


def test_alert_labels_are_prometheus_labels() -> None:
    result = rules(monitored(monitoring={"alerts": {"labels": {"team": "search & ads: EU"}}}))
    assert {rule["labels"]["team"] for rule in result.values()} == {"search & ads: EU"}
    (problem,) = problems(monitored(monitoring={"alerts": {"labels": {"team-name": "a"}}}))
    assert "must be a Prometheus label name" in problem


def test_partition_does_not_count_as_stalled_update() -> None:
    result = rules(monitored(rollout={"partition": 1, "timeout": "1h30m"}))
    assert ("FusionInferUpdateStalls", "inference") not in result
    missing = result["FusionInferReplicasMissing", "inference"]
    assert missing["for"] == "5400s"
    assert "unless" not in missing["expr"]


def test_missing_replicas_are_counted_by_role() -> None:
    manifest = pair()
    manifest["spec"]["monitoring"] = ALL
    for item in manifest["spec"]["roles"][1:]:
        item["template"]["spec"]["containers"][0]["ports"] = [PORT]
    result = rules(manifest)
    assert {name for alert, name in result if alert == "FusionInferNoReplica"} == {
        "prefill", "decode"
    }  # fmt: skip
    missing = result["FusionInferReplicasMissing", "decode"]
    assert "PodGroup" in missing["annotations"]["description"]


@pytest.mark.parametrize("kind", ["alerts", "dashboards"])
def test_queries_read_labels_that_monitors_give(kind: str) -> None:
    manifest = monitored()
    monitor = only(manifest, "PodMonitor")["spec"]
    value = {re.sub(r"\W", "_", label) for label in monitor["podTargetLabels"]}
    if kind == "alerts":
        queries = [rule["expr"] for rule in rules(manifest).values()]
    else:
        queries = [query for board in boards(manifest).values() for query in expressions(board)]
    read = {name for query in queries for name in re.findall(r"fusioninfer_io_\w+", query)}
    assert len(read) >= 3
    assert read <= value
    assert 'job="svc-epp"' in " ".join(queries).replace("${service}", "svc")


def test_dashboards_contain_namespace_and_service() -> None:
    result = boards(monitored())
    names = ("service", "replicas", "picker", "gateway")
    assert list(result) == [f"default.svc.{name}.json" for name in names]
    assert len({board["uid"] for board in result.values()}) == 4
    for board in result.values():
        assert len(board["uid"]) == 40  # Grafana's limit
        assert board["title"].startswith("default/svc: ")
        constants = {
            item["name"]: item["query"]
            for item in board["templating"]["list"]
            if item["type"] == "constant"
        }
        assert constants == {"namespace": "default", "service": "svc"}
        assert not [query for query in expressions(board) if "$gpus" in query]
        numbers = [panel["id"] for panel in board["panels"]]
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
    (per_gpu,) = [
        query for query in expressions(result["default.svc.service.json"]) if "*" in query
    ]
    assert per_gpu.endswith(") or vector(0)) * 2)")


@each_row(
    ("implementation", "has"),
    [(None, True), ("envoy-ai-gateway", True), ("istio", False), ("agentgateway", False)],
)
def test_gateway_dashboard_exists_unless_another_gateway_is_known(
    implementation: str | None, *, has: bool
) -> None:
    manifest = monitored()
    (fields,) = [item for item in manifest["spec"]["roles"] if item["componentType"] == "router"]
    if implementation is not None:
        fields["gateway"] = {**fields.get("gateway", {}), "implementation": implementation}
        fields["networkPolicy"] = {"enabled": False}
    board = boards(manifest).get("default.svc.gateway.json")
    assert (board is not None) == has
    if board is not None:
        queries = " ".join(expressions(board)).replace("$namespace", "default")
        route = only(manifest, "HTTPRoute")["metadata"]["name"]
        assert f"httproute/default/{route}/.+" in queries.replace("${service}", "svc")


def test_without_gpus_no_panel_divides_by_them() -> None:
    manifest = monitored(role(template=template(container(ports=[PORT]))))
    titles = [panel["title"] for panel in boards(manifest)["default.svc.service.json"]["panels"]]
    assert "Tokens per second" in titles
    assert "Tokens per second and GPU" not in titles


def test_namespace_output_is_one_error_with_the_fix() -> None:
    scaled = {"maxReplicas": 3, "target": "latency"}
    manifest = monitored(serving(autoscaling=scaled), layout="PerRole")
    manifest["metadata"]["namespace"] = UnknownOutput()
    (error,) = [text for text in problems(manifest) if "Output" in text]
    assert error.startswith(
        "metadata.namespace: must be a string, got a pulumi Output, because names or queries of "
        "autoscaling.target, monitoring.alerts, monitoring.dashboards, endpointPicker.metrics "
    )
    assert "depends_on" in error


def tool(name: str) -> Any:
    """Import a program of `tools`."""
    path = ROOT / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses looks up modules here
    spec.loader.exec_module(module)
    return module


# The package warns about its own modules.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="grafana-foundation-sdk needs Python 3.11")
def test_dashboards_equal_the_tools_output() -> None:
    committed = {
        path.name: path.read_text(encoding="utf-8") for path in (DIRECTORY / "dashboards").iterdir()
    }
    assert tool("dashboards").files() == committed, "run python tools/dashboards.py"


def test_command_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "service.yaml"
    source.write_text(yaml.safe_dump(service(serving())), encoding="utf-8")
    folder = tmp_path / "made"
    assert main(["dashboards", str(source), "--directory", str(folder)]) == 0
    printed = capsys.readouterr().out.split()
    assert printed == [str(folder / f"default.svc.{name}.json") for name in ("service", "replicas")]
    assert (
        json.loads(Path(printed[0]).read_text(encoding="utf-8"))["title"] == "default/svc: service"
    )
    assert main(["dashboards", str(source), "--directory", str(source)]) == 2
    assert "cannot be written" in capsys.readouterr().err
