"""A model's cache on the engine: nothing runs before the Job has filled it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import lws, pods, role, service
from e2e.harness import Cluster
from e2e.volumes import bound_claim

Make = Callable[..., Project]
JOBS = "batch/v1/Job"


def model(revision: str, **job: Any) -> dict[str, Any]:
    cache = {"claimName": "shared", "warmUp": True, **({"job": job} if job else {})}
    return {"uri": f"hf://Qwen/Qwen3-8B@{revision}", "cache": cache}


def engine() -> dict[str, Any]:
    """A role whose program is told which model it serves."""
    made = role(replicas=1)
    (container,) = made["template"]["spec"]["containers"]
    container["image"] = "vllm/vllm-openai:v0.12.0"
    container.pop("command", None)
    container.pop("args", None)
    return made


def serving(cluster: Cluster, namespace: str) -> set[tuple[str, str]]:
    """The pods of the sets; those of Jobs stay until they are collected."""
    found = pods(cluster, namespace).items()
    return {each for each in found if each[0].startswith("svc-serve-")}


@pytest.mark.proves(
    "LeaderWorkerSets wait for the warm-up Job, and for a new Job per revision",
    needs=ENGINE,
)
def test_sets_wait_for_the_job(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    with bound_claim(cluster, namespace):
        stack.write(service(namespace, engine(), model=model("v1")))
        stack.up().assert_fine()
        (first,) = cluster.list(JOBS, namespace)
        made = [each["metadata"]["creationTimestamp"] for each in lws(cluster, namespace).values()]
        assert made == [max(first["status"]["completionTime"], *made)]
        assert stack.preview() == {}
        before = serving(cluster, namespace)
        stack.write(service(namespace, engine(), model=model("v2")))
        stack.up().assert_fine()
        (second,) = cluster.list(JOBS, namespace)
        assert second["metadata"]["name"] != first["metadata"]["name"]
        assert before
        assert not serving(cluster, namespace) & before
        assert stack.preview() == {}
        stack.down().assert_fine()


@pytest.mark.proves(
    "A failed warm-up Job ends the update before any LeaderWorkerSet exists", needs=ENGINE
)
def test_a_job_that_fails_keeps_the_sets_away(
    cluster: Cluster, namespace: str, project: Make
) -> None:
    cluster.add_nodes(1)
    stack = project()
    nowhere = {"nodeSelector": {"e2e.fusioninfer.io/nowhere": "true"}, "timeout": "10s"}
    with bound_claim(cluster, namespace):
        stack.write(service(namespace, engine(), model=model("v1", **nowhere)))
        assert stack.up().status != 0
        assert lws(cluster, namespace) == {}
        stack.down().assert_fine()
