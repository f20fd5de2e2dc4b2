"""Reasons of failures, read from real objects.

`python -m pytest e2e/test_diagnosis.py --write-transcripts` writes `tests/fixtures/diagnosis/`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.harness.stages import BEHAVIOR
from e2e.live import LiveService
from fusioninfer_pulumi.component.diagnosis import (
    PodSnapshot,
    explain_gang,
    explain_lws,
    is_lws_explained,
    read_service,
    watch_service,
)
from fusioninfer_pulumi.kube.client import KubernetesApi

FOLDER = inputs.ROOT / "tests" / "fixtures" / "diagnosis"
ROWS = Path(__file__).with_name("diagnoses.yaml")
LWS = "svc-inference-0"
TIMEOUT = 60


@dataclasses.dataclass(frozen=True)
class Case:
    """A service that does not become ready; `diagnoses.yaml` describes the attributes."""

    name: str
    words: Sequence[str]
    behavior: str = "ready"
    replicas: int = 1
    pods: int = 1
    nodes: int = 1
    gpus: int = 8
    watched: bool = False
    objects: Sequence[Object] = ()

    def service(self) -> Object:
        role = inputs.role("inference", "worker", self.replicas, self.pods, gpus=8)
        role["template"]["metadata"] = {"annotations": {BEHAVIOR: self.behavior}}
        return inputs.service("svc", role)

    def is_explained(self, snapshot: PodSnapshot) -> bool:
        text = "\n".join([*explain_lws([LWS], snapshot), *explain_gang(snapshot)])
        return all(word in text for word in self.words) and is_lws_explained(LWS, snapshot)


CASES = {
    claim: Case(**row) for claim, row in yaml.safe_load(ROWS.read_text(encoding="utf-8")).items()
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.verifies(claim))
        for claim, case in CASES.items()
    ],
)
def test_failure_is_reported(
    cluster: Cluster, namespace: str, request: pytest.FixtureRequest, case: Case
) -> None:
    seen = PodSnapshot()
    api = KubernetesApi(str(cluster.kubeconfig), None)

    def is_done() -> bool:
        nonlocal seen
        seen = read_service(api, namespace, "svc")
        if case.watched:
            seen = watch_service(api, namespace, "svc", seen, case.is_explained, 20)
        return case.is_explained(seen)

    cluster.add_nodes(case.nodes, gpus=case.gpus)
    cluster.apply(case.objects, namespace=namespace)
    LiveService(cluster, namespace, case.service()).apply()
    cluster.wait(is_done, TIMEOUT, lambda: (explain_lws([LWS], seen), explain_gang(seen)))
    recorded = _reduce_snapshot(seen)
    explanations = {"set": explain_lws([LWS], seen), "gang": explain_gang(seen)}
    assert explanations == {"set": explain_lws([LWS], recorded), "gang": explain_gang(recorded)}
    if request.config.getoption("--write-transcripts"):
        FOLDER.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(
            {"explanations": explanations, "snapshot": dataclasses.asdict(recorded)},
            sort_keys=False, width=100, allow_unicode=True,
        )  # fmt: skip
        comment = "# Recorded on the real components by e2e/test_diagnosis.py --write-transcripts\n"
        path = FOLDER / f"{case.name}.yaml"
        path.write_text(comment + text.replace(namespace, "default"), encoding="utf-8")


def _reduce_snapshot(seen: PodSnapshot) -> PodSnapshot:
    return PodSnapshot(
        [_reduce_pod(pod) for pod in seen.pods],
        [_reduce_event(event) for event in seen.events],
        [_keep_metadata(group) for group in seen.pod_groups],
        list(seen.unread),
    )


def _keep_metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("name", "labels", "creationTimestamp", "deletionTimestamp")
    metadata = {key: item["metadata"][key] for key in keys if key in item["metadata"]}
    return {"metadata": metadata, **({"status": item["status"]} if "status" in item else {})}


def _reduce_pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    containers = [
        {key: container[key] for key in ("name", "resources") if key in container}
        for container in pod["spec"]["containers"]
    ]
    node = {"nodeName": pod["spec"]["nodeName"]} if pod["spec"].get("nodeName") else {}
    return {**_keep_metadata(pod), "spec": {"containers": containers, **node}}


def _reduce_event(event: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("type", "reason", "message", "lastTimestamp", "eventTime", "series", "involvedObject")
    fields = {key: event[key] for key in keys if event.get(key) is not None}
    fields["involvedObject"] = {key: event["involvedObject"][key] for key in ("kind", "name")}
    stamp = event["metadata"]["creationTimestamp"]
    return {**fields, "metadata": {"creationTimestamp": stamp}}
