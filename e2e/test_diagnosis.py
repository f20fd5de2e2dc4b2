"""Reasons of failures, read from real objects.

`python -m pytest e2e/test_diagnosis.py --write-transcripts` writes `tests/fixtures/diagnosis/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.harness.stages import CRASHING, FAILING, UNPULLABLE
from e2e.live import LiveService
from fusioninfer_pulumi.component.diagnosis import (
    PodSnapshot,
    explain_gang,
    explain_lws,
    has_lws_reason,
    read_service,
    watch_service,
)

FOLDER = inputs.ROOT / "tests" / "fixtures" / "diagnosis"
SET = "svc-inference-0"
PATIENCE = 60


def with_behaviour(behaviour: str, *, nodes: int = 1) -> Object:
    manifest = inputs.service("svc", inputs.role("inference", "worker", 1, nodes, gpus=8))
    template = manifest["spec"]["roles"][0]["template"]
    template["metadata"] = {"annotations": {"e2e.fusioninfer.io/behaviour": behaviour}}
    return manifest


class Case:
    """A service that does not become ready, and the explanation."""

    def __init__(self, cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._write = bool(request.config.getoption("--write-transcripts"))

    def start(self, manifest: Object) -> None:
        LiveService(self._cluster, self._namespace, manifest).apply()

    def expect(self, name: str, *words: str, watched: bool = False) -> None:
        """Wait until the explanations contain these words; record the objects.

        `watched` uses a watch, because polling can miss states that last milliseconds.
        """
        seen = PodSnapshot()
        config = str(self._cluster.kubeconfig)

        def explains(snapshot: PodSnapshot) -> bool:
            text = "\n".join([*explain_lws([SET], snapshot), *explain_gang(snapshot)])
            return all(word in text for word in words) and has_lws_reason(SET, snapshot)

        def done() -> bool:
            nonlocal seen
            seen = read_service(config, None, self._namespace, "svc")
            if watched:
                seen = watch_service(config, None, self._namespace, "svc", seen, explains, 20)
            return explains(seen)

        self._cluster.wait(done, PATIENCE, lambda: (explain_lws([SET], seen), explain_gang(seen)))
        recorded = _reduce(seen)
        explanations = {"set": explain_lws([SET], seen), "gang": explain_gang(seen)}
        assert explanations == {"set": explain_lws([SET], recorded), "gang": explain_gang(recorded)}
        if self._write:
            FOLDER.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump(
                {"explanations": explanations, "snapshot": dataclasses.asdict(recorded)},
                sort_keys=False, width=100, allow_unicode=True,
            )  # fmt: skip
            comment = (
                "# Recorded on the real components by e2e/test_diagnosis.py --write-transcripts\n"
            )
            (FOLDER / f"{name}.yaml").write_text(
                comment + text.replace(self._namespace, "default"), encoding="utf-8"
            )


@pytest.fixture
def case(cluster: Cluster, namespace: str, request: pytest.FixtureRequest) -> Case:
    return Case(cluster, namespace, request)


@pytest.mark.proves("A failing image pull is reported with pod and kubelet message")
def test_failing_pull_is_reported(cluster: Cluster, case: Case) -> None:
    cluster.add_nodes(2)
    case.start(with_behaviour(UNPULLABLE, nodes=2))
    case.expect("unpullable", "pod svc-inference-0-0 and 1 more: container", "ImagePullBackOff")


@pytest.mark.proves("A crash is reported with its exit code even if the pod is deleted")
def test_crash_is_reported(cluster: Cluster, case: Case) -> None:
    cluster.add_nodes(1)
    case.start(with_behaviour(CRASHING))
    case.expect("crashing", "CrashLoopBackOff", "exit code 1 (Error), restarted 1 time",
              "LeaderWorkerSet svc-inference-0: RecreateGroup")  # fmt: skip


@pytest.mark.proves("An evicted pod is reported with its reason")
def test_eviction_is_reported(cluster: Cluster, case: Case) -> None:
    cluster.add_nodes(1)
    case.start(with_behaviour(FAILING))
    case.expect("evicted", "Evicted: The node was low on resource", "exit code 137", watched=True)


@pytest.mark.proves("An unschedulable gang is reported with the scheduler's message")
def test_unschedulable_gang_is_reported(cluster: Cluster, case: Case) -> None:
    cluster.add_nodes(1)
    case.start(inputs.service("svc", inputs.role("inference", "worker", 2, 2, gpus=8)))
    case.expect("gang", "PodGroup svc: ", "tasks in gang unschedulable: ")


@pytest.mark.proves("An unschedulable pod is reported with kube-scheduler's message")
def test_unschedulable_pod_is_reported(cluster: Cluster, case: Case) -> None:
    cluster.add_nodes(2, gpus=4)
    case.start(with_behaviour("ready"))
    case.expect("no-room", "0/2 nodes are available")


@pytest.mark.proves("Pods rejected by admission are reported with its message")
def test_admission_rejection_is_reported(cluster: Cluster, namespace: str, case: Case) -> None:
    cluster.add_nodes(1)
    limits = {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]}
    kind: Mapping[str, Any] = {"apiVersion": "v1", "kind": "LimitRange"}
    cluster.create({**kind, "metadata": {"name": "tiny", "namespace": namespace}, "spec": limits})
    case.start(with_behaviour("ready"))
    case.expect("refused", "StatefulSet svc-inference-0: FailedCreate", "maximum nvidia.com/gpu")


def _reduce(seen: PodSnapshot) -> PodSnapshot:
    return PodSnapshot(
        [_pod(pod) for pod in seen.pods],
        [_event(event) for event in seen.events],
        [_keep_metadata(group) for group in seen.pod_groups],
        list(seen.unread),
    )


def _keep_metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("name", "labels", "creationTimestamp", "deletionTimestamp")
    metadata = {key: item["metadata"][key] for key in keys if key in item["metadata"]}
    return {"metadata": metadata, **({"status": item["status"]} if "status" in item else {})}


def _pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    containers = [
        {key: container[key] for key in ("name", "resources") if key in container}
        for container in pod["spec"]["containers"]
    ]
    node = {"nodeName": pod["spec"]["nodeName"]} if pod["spec"].get("nodeName") else {}
    return {**_keep_metadata(pod), "spec": {"containers": containers, **node}}


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("type", "reason", "message", "lastTimestamp", "eventTime", "series", "involvedObject")
    fields = {key: event[key] for key in keys if event.get(key) is not None}
    fields["involvedObject"] = {key: event["involvedObject"][key] for key in ("kind", "name")}
    stamp = event["metadata"]["creationTimestamp"]
    return {**fields, "metadata": {"creationTimestamp": stamp}}
