"""Pod templates that the library rejects really have no pods, or lose what was asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.live import LiveService
from e2e.rejections import in_templates, rejected

PLAIN = inputs.service("svc", inputs.role("inference", "worker", gpus=1))
Edit = Callable[[Object], Any]


def written(edit: Edit) -> Object:
    """The service as a user would write it with the edit in its template."""
    manifest = copy.deepcopy(PLAIN)
    edit(manifest["spec"]["roles"][0]["template"])
    return manifest


def with_metadata(edit: Edit) -> Edit:
    def both(template: Object) -> None:
        template.setdefault("metadata", {}).setdefault("labels", {})
        edit(template)

    return both


@pytest.mark.proves("LeaderWorkerSet overwrites its own labels, or never becomes Available")
@pytest.mark.parametrize("key", ["name", "worker-index", "template-revision-hash", "group-index"])
def test_label_of_leader_worker_set_is_overwritten_or_breaks_availability(
    cluster: Cluster, namespace: str, key: str
) -> None:
    label = f"leaderworkerset.sigs.k8s.io/{key}"
    edit = with_metadata(lambda template: template["metadata"]["labels"].update({label: "5"}))
    rejected(written(edit), "is set by LeaderWorkerSet")
    cluster.add_nodes(1)
    service = LiveService(cluster, namespace, PLAIN)
    service.apply(change=in_templates(edit))
    cluster.wait(
        lambda: any(
            "readyReplicas" in (each or {}).get("status", {}) for each in service.lws().values()
        )
    )
    cluster.settle(10)
    lost = all(pod["metadata"]["labels"][label] != "5" for pod in service.pods())
    (role,) = service.status()["components"].values()
    assert lost or role["readyReplicas"] == 0
    assert lost == (key != "group-index")


@pytest.mark.proves("Overriding the library's labels breaks the gang")
def test_overridden_replica_index_breaks_gang(cluster: Cluster, namespace: str) -> None:
    key = "fusioninfer.io/replica-index"
    edit = with_metadata(lambda template: template["metadata"]["labels"].update({key: "0"}))
    rejected(written(edit), "is set by fusioninfer-pulumi")
    cluster.add_nodes(7)
    partial = inputs.prefill_decode(minimum={"prefill": 1, "decode": 1})
    service = LiveService(cluster, namespace, partial)
    service.apply(change=in_templates(edit))
    cluster.wait(lambda: len(service.pods()) == 10, message=service.pods)
    cluster.settle(10)
    # Eight decode pods are one subgroup of size four: what runs is not whole replicas.
    leaders = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in service.pods()}
    replicas = [sum(bool(n) for p, n in leaders.items() if p.startswith(f"svc-decode-{i}"))
                for i in range(2)]  # fmt: skip
    assert replicas not in ([4, 0], [0, 4]), leaders
