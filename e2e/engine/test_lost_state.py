"""A stack whose state is lost, restored from a backup, or claimed by a second stack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import images, left, lowest, noted, pods, rendered, role, router, service
from e2e.harness import Cluster

Make = Callable[..., Project]
UPSERT = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true"}
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 1}


def made(namespace: str, tag: str = "1", **more: Any) -> dict[str, Any]:
    return service(namespace, router(), role(replicas=2, tag=tag, **SPREAD), **more)


def test_probe(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(4)
    lost, found = project("app"), project("app")
    lost.write(made(namespace))
    lost.up().assert_fine()
    before = pods(cluster, namespace)
    found.write(made(namespace))
    told = found.up(**UPSERT)
    print("UPSERT", told.status, told.text[-1500:])
    print("SAME", pods(cluster, namespace) == before)
    print("PREVIEW", found.preview())
    for each in cluster.list("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", namespace):
        print([(m["manager"], m["operation"]) for m in each["metadata"]["managedFields"]])
    found.write(made(namespace, "2"))
    told = found.up()
    print("CHANGE BY FOUND", told.status, told.text[-300:])
    print(images(cluster, namespace), "preview of lost", lost.preview())
    for each in cluster.list("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", namespace):
        print([(m["manager"], m["operation"]) for m in each["metadata"]["managedFields"]])
    lost.write(made(namespace, "3"))
    told = lost.up()
    print("CHANGE BY LOST", told.status, told.text[-2500:])
    print(images(cluster, namespace))
    lost.write(made(namespace, "1"))
    told = lost.run("refresh", "--yes", "--skip-preview", "--color", "never")
    print("REFRESH OF LOST", told.status, told.text[-600:])
    print("preview of lost", lost.preview())
    assert 0
