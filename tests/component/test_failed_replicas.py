"""The phase Failed, which is read from pods of unavailable LeaderWorkerSets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from clusters import FakeCluster
from component.live import READY, ROLLING
from rows import each_row
from samples import role, service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import cluster_access as access, diagnosis, diagnosis as pods
from fusioninfer_pulumi.component.diagnosis import PodSnapshot, find_lws_failures
from fusioninfer_pulumi.kube.client import UnreadableError

FOLDER = Path(__file__).parent.parent / "fixtures" / "diagnosis"
SET = "svc-inference-0"
REVISION = "fusioninfer.io/revision"
BACKOFF = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}
UNPULLABLE = "container vllm: ImagePullBackOff: Back-off"
CRASH = {"terminated": {"exitCode": 1, "reason": "Error"}}
CRASHED = "container vllm: exit code 1 (Error)"
UP = {"conditions": [{"type": "Ready", "status": "True"}]}


def pod(state: Any = None, name: str = "svc-inference-1-0", **status: Any) -> dict[str, Any]:
    labels = {"leaderworkerset.sigs.k8s.io/name": name.rpartition("-")[0]}
    if state is not None:
        status["containerStatuses"] = [{"name": "vllm", "ready": False, **state}]
    return {"metadata": {"name": name, "labels": labels}, "status": status}


@each_row(
    ("findings", "why"),
    [
        (pod({"state": BACKOFF}), UNPULLABLE),
        (pod({"state": CRASH}), CRASHED),
        (
            pod({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": CRASH,
                 "restartCount": 2}),
            f"container vllm: CrashLoopBackOff; {CRASHED}, restarted 2 times",
        ),
        (pod(phase="Failed", reason="Evicted", message="no disk"), "Evicted: no disk"),
        # Pods that may still start.
        (pod(), None),
        (pod(phase="Pending"), None),
        (pod({"state": {"waiting": {"reason": "ContainerCreating"}}}), None),
        (pod({"state": {"running": {}}}), None),
        (pod({"state": {"running": {}}, "lastState": CRASH, "restartCount": 1}), None),
        (pod({"state": {"terminated": {"exitCode": 0}}}), None),
        (pod({"state": BACKOFF}, **UP), None),
        (pod(conditions=[{"type": "PodScheduled", "status": "False"}]), None),
    ],
)  # fmt: skip
def test_pod_status_determines_failure(findings: Any, why: str | None) -> None:
    assert pods.describe_pod_failure(findings) == why


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_failures_of_recorded_pods(path: Path) -> None:
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    snapshot = PodSnapshot(**case["snapshot"])
    revision = next((pod["metadata"]["labels"][REVISION] for pod in snapshot.pods), None)
    fails = find_lws_failures({SET: revision}, snapshot)
    assert bool(fails) == (path.stem in ("crashing", "evicted", "unpullable"))


@each_row(
    ("revision", "going", "counts"),
    [("new", False, True), ("old", False, True), ("new", True, True), ("old", True, False)],
)
def test_terminating_pods_of_old_revision_are_ignored(
    revision: str, *, going: bool, counts: bool
) -> None:
    result = pod({"state": CRASH}, name=f"{SET}-0")
    result["metadata"]["labels"][REVISION] = revision
    if going:
        result["metadata"]["deletionTimestamp"] = "now"
    assert bool(find_lws_failures({SET: "new"}, PodSnapshot([result]))) is counts
    assert bool(find_lws_failures({SET: None}, PodSnapshot([result]))) is not going


@pytest.fixture
def status(engine: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that returns status and log of three replicas, one of them down."""
    engine.live = {f"svc-inference-{index}": READY for index in (0, 2)}
    engine.live["svc-inference-1"] = ROLLING
    requests: list[Any] = []
    api = FakeCluster()

    async def kubeconfig(_: Any) -> tuple[None, None]:
        return None, None

    def run(findings: Any = None, *, preview: bool = False) -> tuple[Any, list[str], int]:
        def list_pods(*where: Any) -> access.Objects:
            assert where == (api, "default", "svc", (("v1", "Pod"),))
            requests.append(where)
            if isinstance(findings, Exception):
                raise findings
            if isinstance(findings, float):
                time.sleep(findings)
            return {"pod": findings}

        monkeypatch.setattr(diagnosis, "is_pulumi_update", lambda: not pulumi.runtime.is_dry_run())
        monkeypatch.setattr(access, "list_objects", list_pods)
        monkeypatch.setattr(access, "KubernetesApi", lambda *_: api)
        monkeypatch.setattr(access, "read_kubeconfig", kubeconfig)
        manifest = service(role(replicas=3))

        def program() -> dict[str, Any]:
            return {"status": InferenceService("svc", manifest).status}

        deployment = engine.run(program, preview=preview)
        return deployment.exports["status"], deployment.logged, len(requests)

    return run


def failed(expected: Any) -> tuple[str, str]:
    condition = expected["conditions"][-1]
    assert condition["type"] == "Failed"
    return condition["status"], condition["message"]


def test_pod_failure_sets_status(status: Any) -> None:
    expected, logged, requests = status(pod({"state": BACKOFF}))
    assert expected["components"]["inference"]["phase"] == "Failed"
    assert expected["components"]["inference"]["readyReplicas"] == 2
    assert failed(expected) == ("True", f"svc-inference-1: pod svc-inference-1-0: {UNPULLABLE}")
    assert (logged, requests) == ([], 1)


def test_starting_pods_are_no_failure(status: Any) -> None:
    expected, logged, requests = status(pod({"state": {"running": {}}}))
    assert expected["components"]["inference"]["phase"] == "Deploying"
    assert failed(expected)[0] == "False"
    assert (logged, requests) == ([], 1)


def test_pods_of_available_lws_are_ignored(status: Any) -> None:
    expected, *_ = status(pod({"state": BACKOFF}, name="svc-inference-0-0"))
    assert failed(expected)[0] == "False"


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (UnreadableError("no answer"), "no answer"),
        (KeyError("spec"), "KeyError('spec')"),
        (0.05, "the cluster did not respond within 0.01 s"),
    ],
)
def test_unreadable_cluster_leaves_status_unchanged(
    status: Any, monkeypatch: pytest.MonkeyPatch, problem: Any, why: str
) -> None:
    monkeypatch.setattr(access, "_READ_SECONDS", 0.01 if problem == 0.05 else 5.0)
    expected, logged, _ = status(problem)
    assert expected["components"]["inference"]["phase"] == "Deploying"
    assert logged == [f"cannot read why replicas are not available: {why}"]


def test_available_service_reads_no_pods(engine: Any, status: Any) -> None:
    engine.live["svc-inference-1"] = READY
    assert status()[1:] == ([], 0)


def test_preview_and_yaml_rendering_read_no_pods(
    engine: Any, status: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status(preview=True)[1:] == ([], 0)
    config = {"kubernetes:renderYamlToDirectory": "out"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(config))
    assert status()[1:] == ([], 0)


def test_denied_pod_list_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="pods in models: 403 Forbidden"):
        access.list_objects(FakeCluster(denied=["/pods"]), "models", "svc", [("v1", "Pod")])
