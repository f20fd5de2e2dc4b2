"""Model caches: LeaderWorkerSets wait for the warm-up Job."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import Stack, role
from e2e.objects import create_bound_claim

JOBS = "batch/v1/Job"


def model(revision: str, **job: Any) -> dict[str, Any]:
    cache = {"claimName": "shared", "warmUp": True, **({"job": job} if job else {})}
    return {"uri": f"hf://Qwen/Qwen3-8B@{revision}", "cache": cache}


def make_role() -> dict[str, Any]:
    created = role(replicas=1)
    (container,) = created["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.12.0"
    container.pop("command", None)
    container.pop("args", None)
    return created


def list_serving_pods(stack: Stack) -> set[tuple[str, str]]:
    """Return the pods of LeaderWorkerSets, without the Jobs' pods."""
    found = stack.pods().items()
    return {item for item in found if item[0].startswith("svc-serve-")}


@pytest.mark.verifies("LeaderWorkerSets wait for the warm-up Job, and for a new Job per revision")
def test_lws_wait_for_warm_up_job(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    with create_bound_claim(stack.cluster, stack.namespace):
        stack.deploy(make_role(), model=model("v1"))
        (first,) = stack.cluster.list(JOBS, stack.namespace)
        created = [item["metadata"]["creationTimestamp"] for item in stack.lws().values()]
        assert created == [max(first["status"]["completionTime"], *created)]
        assert stack.preview() == {}
        before = list_serving_pods(stack)
        stack.deploy(make_role(), model=model("v2"))
        (second,) = stack.cluster.list(JOBS, stack.namespace)
        assert second["metadata"]["name"] != first["metadata"]["name"]
        assert before
        assert not list_serving_pods(stack) & before
        assert stack.preview() == {}
        stack.down().assert_succeeded()


@pytest.mark.verifies("A failed warm-up Job ends the update before any LeaderWorkerSet exists")
def test_failed_warm_up_ends_update(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    nowhere = {"nodeSelector": {"e2e.fusioninfer.io/nowhere": "true"}, "timeout": "10s"}
    with create_bound_claim(stack.cluster, stack.namespace):
        stack.write(stack.service(make_role(), model=model("v1", **nowhere)))
        stack.up().assert_failed()
        assert stack.lws() == {}
        stack.down().assert_succeeded()
