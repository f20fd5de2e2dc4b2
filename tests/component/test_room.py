"""Room for replicas that start beside those whose place they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from clusters import FakeCluster, stored
from recorded import recorded, urn
from samples import container, role, service, template

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import cluster_access
from fusioninfer_pulumi.component.diagnosis import read as diagnosis_read
from fusioninfer_pulumi.component.diagnosis import room
from fusioninfer_pulumi.component.diagnosis.read import Nodes

STATE = {urn(f"svc-inference-{i}"): recorded(f"svc-inference-{i}", index=str(i)) for i in range(2)}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
SAID = (
    "svc: svc-serve-0, svc-serve-1 start beside svc-inference-0, svc-inference-1, with 2 pods and "
    "16 accelerators more until the update ends"
)


def node(name: str) -> dict[str, Any]:
    status = {**READY, "allocatable": {"nvidia.com/gpu": "8"}}
    return {"metadata": {"name": name}, "spec": {}, "status": status}


def nodes(count: int, **more: Any) -> Nodes:
    return Nodes([node(f"node-{i}") for i in range(count)], [], **{"come_on_demand": False, **more})


def serving(name: str = "serve", **more: Any) -> Mapping[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": 8}}
    return service(role(name, replicas=2, template=template(container(resources=limits))), **more)


class Read:
    """What the cluster has, and how often it was asked."""

    def __init__(self) -> None:
        self.nodes: Nodes | Exception = nodes(0)
        self.count = 0

    def read_nodes(self, *_: Any) -> Nodes:
        self.count += 1
        if isinstance(self.nodes, Exception):
            raise self.nodes
        return self.nodes


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    made = Read()
    monkeypatch.setattr(room, "has_engine", lambda: True)
    monkeypatch.setattr(cluster_access, "has_engine", lambda: True)
    monkeypatch.setattr(room, "read_nodes", made.read_nodes)
    return made


def logged(engine: Any, manifest: Any) -> list[str]:
    engine.state = STATE
    lines: list[str] = engine.run(
        lambda: InferenceService("svc", manifest) and None, preview=True
    ).logged
    return [line for line in lines if "beside" in line]


def test_a_preview_says_which_room_is_needed(engine: Any, read: Read) -> None:
    read.nodes = nodes(2)
    (line,) = logged(engine, serving())
    assert SAID in line
    assert read.count == 1


def test_a_preview_fails_where_there_is_none(engine: Any, read: Read) -> None:
    read.nodes = nodes(1)
    with pytest.raises(pulumi.RunError) as refused:
        logged(engine, serving())
    assert str(refused.value).startswith(
        f"{SAID}: 8 nvidia.com/gpu are missing: 2 pods of 8 wait "
        "for a node, 8 are free (8 on a node); free or add nodes"
    )


@pytest.mark.parametrize(
    "found",
    [
        nodes(1, come_on_demand=True),
        Nodes(None, None, come_on_demand=False),
        Nodes([node("a")], None, come_on_demand=False),
        RuntimeError("no answer"),
    ],
)
def test_what_is_not_known_is_no_reason(engine: Any, read: Read, found: Any) -> None:
    read.nodes = found
    assert len(logged(engine, serving())) == 1


def test_pods_with_a_priority_may_get_the_room_of_others(engine: Any, read: Read) -> None:
    first = serving(schedulingStrategy={"priorityClassName": "high"})
    assert len(logged(engine, first)) == 1
    assert read.count == 0


def test_the_rule_can_be_ignored(engine: Any, read: Read) -> None:
    rules = {"fusioninfer.io/ignore-rules": "replacement-needs-room"}
    metadata = {"name": "svc", "annotations": rules}
    assert len(logged(engine, {**serving(), "metadata": metadata})) == 1
    assert read.count == 0


@pytest.mark.parametrize(
    "manifest",
    [
        serving("inference"),
        # Both roles: none takes the place of another.
        service(role(replicas=2), role("serve")),
        service(role(replicas=1)),
        # The update does not wait for what starts.
        serving(wait={"level": "None"}),
    ],
)
def test_nothing_takes_the_place_of_what_stays(engine: Any, read: Read, manifest: Any) -> None:
    assert logged(engine, manifest) == []
    assert read.count == 0


@pytest.mark.parametrize("metadata", [{"name": "next"}, {"name": "svc", "namespace": "b"}])
def test_another_name_or_namespace_starts_beside_the_old(
    engine: Any, read: Read, metadata: Any
) -> None:
    engine.state = {
        address: recorded(address.rpartition("::")[2], index="0", namespace="a")
        for address in STATE
    }
    read.nodes = nodes(1)
    moved = {**serving("inference"), "metadata": {"namespace": "a", **metadata}}
    with pytest.raises(pulumi.RunError, match="gpu are missing"):
        engine.run(lambda: InferenceService("svc", moved) and None, preview=True)
    # Each old replica goes before the new one of its logical name.
    moved["spec"] = {**moved["spec"], "rollout": {"strategy": "Recreate"}}
    engine.run(lambda: InferenceService("svc", moved) and None, preview=True)


@pytest.mark.parametrize(
    ("labels", "has_status", "denied", "on_demand"),
    [
        ({}, False, (), False),
        ({}, True, ("/configmaps/",), False),
        ({}, True, (), True),
        ({"karpenter.sh/nodepool": "gpu"}, False, (), True),
    ],
)
def test_node_autoscalers_are_found(
    monkeypatch: pytest.MonkeyPatch, labels: Any, has_status: bool, denied: Any, *, on_demand: bool
) -> None:
    objects = [stored("v1", "Node", "a", metadata={"labels": labels})]
    if has_status:
        objects.append(stored("v1", "ConfigMap", "cluster-autoscaler-status", "kube-system"))
    api = FakeCluster(*objects, denied=denied)
    monkeypatch.setattr(diagnosis_read, "KubernetesApi", lambda *_: api)
    found = diagnosis_read.read_nodes(None, None, "default")
    assert found.come_on_demand is on_demand
    assert found.nodes == objects[:1]
    assert found.bound == []
