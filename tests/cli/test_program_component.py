"""A program that uses the InferenceService component."""

from __future__ import annotations

import gc
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.projects import frames, messages, plans, run_masked

from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.findings import InvalidServiceError

Run = Callable[[str], Recording]

HEAD = """
import pulumi
from fusioninfer_pulumi import InferenceService

def template(image):
    return {"spec": {"containers": [{
        "name": "vllm",
        "image": image,
        "args": ["--model", "Qwen/Qwen3-8B"],
        "env": [{"name": "TOKEN", "value": pulumi.Config().require_secret("token")}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }]}}

def service(name, image, **role):
    return InferenceService(name, {"roles": [{
        "name": "worker", "componentType": "worker", "template": template(image), **role}]})
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(program: str) -> Recording:
        (tmp_path / "Pulumi.yaml").write_text("name: app\nruntime: python\n")
        (tmp_path / "Pulumi.dev.yaml").write_text("config: {token: hunter2}\n")
        (tmp_path / "__main__.py").write_text(HEAD + textwrap.dedent(program))
        return run_masked(tmp_path)

    return call


def test_program_with_two_services_has_objects_and_plans(run: Run) -> None:
    recording = run(
        """
        images = pulumi.StackReference("acme/images/prod")
        service("one", images.get_output("vllm"), replicas=2)
        service("two", "vllm/vllm-openai:v0.11.0")
        """
    )
    names = [item["metadata"]["name"] for item in recording.objects]
    assert [plan.service for plan in plans(recording)] == ["one", "two"]
    assert {"one-worker-0", "one-worker-1", "two-worker-0"} <= set(names)
    lws = {
        item["metadata"]["name"]: item
        for item in recording.objects
        if item["kind"] == "LeaderWorkerSet"
    }
    assert "status" not in lws["one-worker-0"]
    assert lws["one-worker-0"]["spec"]["replicas"] == 1
    pod = lws["one-worker-0"]["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    assert pod["containers"][0]["image"] == "<unknown>"
    assert {"name": "TOKEN", "value": "<secret>"} in pod["containers"][0]["env"]
    assert [text for text in messages(recording) if "acme/images/prod" in text]


def test_second_run_has_only_its_own_services(run: Run) -> None:
    for _ in range(2):
        assert len(run('service("one", "vllm/vllm-openai:v0.11.0")').services) == 1


def test_all_errors_of_a_service_are_reported(run: Run) -> None:
    with pytest.raises(InvalidServiceError) as caught:
        run(
            """
            InferenceService("one", {"roles": [{
                "name": "worker", "componentType": "worker", "replicas": -1,
                "multinode": {"nodeCount": 0}, "template": {"spec": {"containers": [{
                    "name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": ["--model", "x"],
                }]}},
            }]})
            """
        )
    assert len(messages(caught.value)) == 2
    assert messages(caught.value)[0].startswith("InvalidServiceError: ")
    assert frames(caught.value)[0].startswith("__main__.py:")


def test_late_failure_prints_only_its_reason(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    program = """
        made = service("one", "vllm/vllm-openai:v0.11.0", replicas=2)
        made.endpoint.apply(lambda url: 1 / 0)
        service("one", "vllm/vllm-openai:v0.11.0")
        """
    with warnings.catch_warnings(record=True) as printed:
        warnings.simplefilter("always")
        with pytest.raises(InvalidServiceError):
            run(program)
        gc.collect()
    assert [str(entry.message) for entry in printed] == []
    assert capfd.readouterr().err == ""
