"""`convert --output python` prints a program that declares the manifests' objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profiles import slow_unless

from fusioninfer_pulumi.cli.main import main
from importers.tests import kserve_samples, kthena_samples, modelplane_samples

Manifest = dict[str, Any]
CONTAINER = {
    "name": "vllm",
    "image": "vllm/vllm-openai:v0.11.0",
    "command": ["sh", "-c", "set -e\nvllm serve 'm' --served-model-name \"m\"\n"],
    "ports": [{"name": "http", "containerPort": 8000}],
    "resources": {"limits": {"nvidia.com/gpu": 1}},
}
SERVICE = {
    "apiVersion": "fusioninfer.io/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "ours", "namespace": "team", "labels": {"a": "b"}},
    "spec": {
        "roles": [
            {
                "name": "w",
                "componentType": "worker",
                "replicas": 2,
                "autoscaling": {
                    "engine": "KEDA",
                    "minReplicas": 0,
                    "maxReplicas": 3,
                    "prometheus": "http://p:9090",
                    "metrics": [{"query": "sum(x)", "target": 2}],
                },
                "template": {"spec": {"containers": [CONTAINER]}},
            }
        ],
        "layout": "PerRole",
        "wait": {"timeout": "30m"},
        "monitoring": {},
    },
}
SETS = {
    "ours": [SERVICE],
    "two of one name": [SERVICE, {**SERVICE, "metadata": {"name": "ours", "namespace": "other"}}],
    "Kthena": [
        kthena_samples.serving(*kthena_samples.PAIR, replicas=2),
        kthena_samples.server(kvConnector={"type": "nixl"}, trafficPolicy={"timeout": "10s"}),
        kthena_samples.route(kthena_samples.rule({"modelServerName": "srv", "weight": 100})),
    ],
    "KServe": [kserve_samples.llm(router={"route": {}, "gateway": {}, "scheduler": {}})],
    "Modelplane": [
        modelplane_samples.cached("--model=/mnt/models"),
        modelplane_samples.cache(),
        modelplane_samples.model_service(modelplane_samples.selecting(2, deployment="md")),
    ],
}


@pytest.mark.parametrize("name", slow_unless("KServe".__eq__, SETS))
def test_converted_program_declares_objects_of_manifests(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = tmp_path / "given.yaml"
    value.write_text("\n---\n".join(map(json.dumps, SETS[name])))
    assert main(["convert", "--output", "python", str(value)]) == 0
    program = capsys.readouterr().out
    assert all(len(line.strip()) <= 100 for line in program.splitlines())
    project = tmp_path / "project"
    project.mkdir()
    (project / "__main__.py").write_text(program)
    (project / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    assert main(["render", str(value)]) == 0
    assert capsys.readouterr().out
    status = main(["diff", str(value), str(project)])
    expected = capsys.readouterr()
    assert (status, expected.out) == (0, ""), expected
