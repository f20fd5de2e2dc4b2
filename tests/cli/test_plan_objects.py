"""`plan` counts the objects of each service, also of services with the same name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from profiles import slow_unless

from fusioninfer_pulumi.cli.main import main

PROGRAM = """
import pulumi
import pulumi_kubernetes as k8s
from fusioninfer_pulumi import InferenceService

def service(logical, cluster=None, namespace="default", replicas=1, name="chat"):
    template = {"spec": {"containers": [{
        "name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "m"],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }]}}
    router = {"name": "router", "componentType": "router",
              "endpointPicker": {"metrics": "Authenticated"}}
    serve = {"name": "serve", "componentType": "worker", "replicas": replicas, "template": template}
    InferenceService(
        logical, {"name": name, "namespace": namespace, "roles": [router, serve]},
        pulumi.ResourceOptions(provider=cluster),
    )

one, two = (k8s.Provider(name, kubeconfig=name) for name in ("one", "two"))
"""


def counts(folder: Path, capsys: pytest.CaptureFixture[str], calls: str) -> list[Any]:
    (folder / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
    (folder / "__main__.py").write_text(PROGRAM + calls)
    assert main(["plan", str(folder), "--output", "json"]) == 0
    actual = json.loads(capsys.readouterr().out)
    return [
        (
            entry["namespace"],
            len(entry["objects"]),
            sum(stream["kind"] == "LeaderWorkerSet" for stream in entry["objects"]),
        )
        for entry in actual
    ]


@pytest.mark.parametrize(
    ("calls", "replicas"),
    slow_unless(
        lambda row: len(row[1]) > 1,
        [
            ("service('a')", [1]),
            ("service('a', one, replicas=3)", [3]),
            ("service('a', one); service('b', two, name='other', replicas=2)", [1, 2]),
            ("service('a', namespace='x', replicas=3); service('b', namespace='y')", [3, 1]),
        ],
    ),
)
def test_plan_counts_only_objects_of_its_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calls: str, replicas: list[int]
) -> None:
    (alone,) = counts(tmp_path, capsys, "service('a')")
    actual = counts(tmp_path, capsys, calls)
    assert [lws for _, _, lws in actual] == replicas
    assert [total - lws for _, total, lws in actual] == [alone[1] - 1] * len(replicas)
