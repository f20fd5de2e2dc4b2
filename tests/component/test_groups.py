"""Serving groups with mocks: objects, their dependencies and outputs."""

from __future__ import annotations

from typing import Any

from samples import Manifest, nodes, prefill_decode

from fusioninfer_pulumi import InferenceService

POD_GROUP = "kubernetes:scheduling.volcano.sh/v1beta1:PodGroup"
LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def grouped(groups: int, **spec: Any) -> Manifest:
    one = {"replicas": 1, "multinode": nodes(2, launcher="none")}
    return prefill_decode(one, one, groups=groups, **spec)


def run(engine: Any, manifest: Manifest) -> Any:
    built: dict[str, Any] = {}

    def program() -> dict[str, Any]:
        service = InferenceService("app", manifest)
        built["service"] = service
        return {"status": service.status}

    result = engine.run(program)
    result.made = built["service"]
    return result


def dependencies(deployment: Any, name: str) -> set[str]:
    """Return logical names of the objects that a LeaderWorkerSet depends on."""
    urns = {item.urn: item.request.name for item in deployment.registered}
    return {urns[urn] for urn in deployment[name].request.dependencies}


def test_serving_groups_have_own_objects(engine: Any) -> None:
    result = run(engine, grouped(2, wait={"level": "Scheduled"}))
    lws = [f"app-{group}-{role}-0" for group in (0, 1) for role in ("prefill", "decode")]
    assert {name for kind, name in result.keys if kind == POD_GROUP} == {"app-0", "app-1"}
    assert sorted(name for kind, name in result.keys if kind == LWS) == sorted(lws)
    service = result.made
    assert service.pod_group is None
    assert list(service.pod_groups) == ["svc-0", "svc-1"]
    assert set(service.leader_worker_sets) == {name.replace("app", "svc", 1) for name in lws}


def test_lws_depends_only_on_pod_group_of_its_group(engine: Any) -> None:
    result = run(engine, grouped(2))
    assert dependencies(result, "app-0-prefill-0") & {"app-0", "app-1"} == {"app-0"}
    assert dependencies(result, "app-1-decode-0") & {"app-0", "app-1"} == {"app-1"}


def test_groups_below_partition_ignore_template_changes(engine: Any) -> None:
    result = run(engine, grouped(2, rollout={"level": "Group", "partition": 1}))
    for role in ("prefill", "decode"):
        assert "spec" in result[f"app-0-{role}-0"].request.ignoreChanges
        assert "spec" not in result[f"app-1-{role}-0"].request.ignoreChanges


def test_status_lists_serving_groups(engine: Any) -> None:
    ready = {"type": "Available", "status": "True"}
    for role in ("prefill", "decode"):
        engine.live[f"svc-1-{role}-0"] = {"status": {"readyReplicas": 1, "conditions": [ready]}}
    engine.live["svc-0"] = {"status": {"phase": "Inqueue"}}
    status = run(engine, grouped(2)).exports["status"]
    assert [group["active"] for group in status["groups"].values()] == [False, True]
    assert status["groups"]["0"]["message"] == "the PodGroup is Inqueue"
    assert status["conditions"][1]["reason"] == "Partial"
