"""Readiness in KServe's words: what a service has, what it sums up to, and what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from routed import LLM_D, ROUTE, pair, routed
from samples import nodes, plan_of, role, service

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.readiness import object_key, read_keys, readiness

Manifest = dict[str, Any]


def conditions(**given: str) -> list[Manifest]:
    return [{"type": name, "status": status} for name, status in given.items()]


def ready_lws(ready: int = 1, replicas: int = 1) -> Manifest:
    told = {"readyReplicas": ready, "replicas": replicas}
    return {"status": {**told, "conditions": conditions(Available="True")}}


PARENT = {
    "parentRef": {"name": "gw"},
    "conditions": conditions(Accepted="True", ResolvedRefs="True"),
}
READY: dict[str, Manifest] = {
    "LeaderWorkerSet": ready_lws(),
    "Deployment": {"status": {"conditions": conditions(Available="True")}},
    "Gateway": {"status": {"conditions": conditions(Accepted="True", Programmed="True")}},
    "HTTPRoute": {"status": {"parents": [PARENT]}},
    "InferencePool": {"status": {"parents": [PARENT]}},
    "HorizontalPodAutoscaler": {
        "status": {"conditions": conditions(AbleToScale="True", ScalingActive="True")}
    },
}


def found(manifest: Manifest, **changed: Manifest | None) -> dict[str, tuple[str, str]]:
    """Status and reason by type, with all objects ready but those that are given."""
    plan = plan_of(manifest)
    seen: dict[str, Any] = {key: READY[key.partition("/")[0]] for key in read_keys(plan)}
    for key, look in changed.items():
        (whole,) = [each for each in seen if each.startswith(key)] if "/" not in key else [key]
        seen[whole] = look
    return {each["type"]: (each["status"], each["reason"]) for each in readiness(plan, seen)}


def test_a_service_alone_has_no_router() -> None:
    assert list(found(service(role()))) == [
        "Ready", "PresetsCombined", "WorkloadsReady", "MainWorkloadReady",
    ]  # fmt: skip


def test_every_part_has_its_condition() -> None:
    manifest = pair(httproute=ROUTE, gateway={"gatewayClassName": "x"})
    manifest["spec"]["roles"][0]["httproute"] = {}
    manifest["spec"]["roles"][1]["multinode"] = nodes(2)
    everything = found(manifest)
    assert list(everything) == [
        "Ready", "PresetsCombined", "WorkloadsReady", "PrefillWorkerWorkloadReady",
        "MainWorkloadReady", "SchedulerWorkloadReady", "RouterReady", "GatewaysReady",
        "HTTPRoutesReady", "InferencePoolReady",
    ]  # fmt: skip
    assert {status for status, _ in everything.values()} == {"True"}


@pytest.mark.parametrize(
    ("kind", "look", "failed"),
    [
        ("LeaderWorkerSet", {"status": {"readyReplicas": 0, "conditions": conditions(
            Available="False")}}, "MainWorkloadReady"),
        ("Deployment", {"status": {"conditions": conditions(Available="False")}},
         "SchedulerWorkloadReady"),
        ("HTTPRoute", {"status": {"parents": [PARENT, {"parentRef": {"name": "b"}, "conditions":
         conditions(Accepted="False", ResolvedRefs="True")}]}}, "HTTPRoutesReady"),
        ("InferencePool", {"status": {"parents": [{"conditions": conditions(
            Accepted="True", ResolvedRefs="False")}]}}, "InferencePoolReady"),
    ],
)  # fmt: skip
def test_what_fails_reaches_the_top(kind: str, look: Manifest, failed: str) -> None:
    status = found(routed(), **{kind: look})
    above = "RouterReady" if "Route" in failed or "Pool" in failed else "WorkloadsReady"
    assert status[failed][0] == "False"
    assert status[above] == ("False", failed)
    assert status["Ready"] == ("False", above)


@pytest.mark.parametrize("kind", ["LeaderWorkerSet", "Deployment", "HTTPRoute", "InferencePool"])
@pytest.mark.parametrize("look", [None, {}, {"status": {}}])
def test_what_was_not_read_is_unknown(kind: str, look: Manifest | None) -> None:
    status = found(routed(), **{kind: look})
    assert status["Ready"][0] == "Unknown"


def test_a_status_about_an_older_spec_is_unknown() -> None:
    condition = {"type": "Available", "status": "True", "observedGeneration": 1}
    old = {"metadata": {"generation": 2}, "status": {"conditions": [condition]}}
    assert found(routed(), Deployment=old)["SchedulerWorkloadReady"][0] == "Unknown"


def test_of_several_pickers_one_leads() -> None:
    manifest = routed(endpointPicker={"replicas": 2, "image": LLM_D})
    looks = {"status": {"readyReplicas": 1, "conditions": conditions(Available="False")}}
    assert found(manifest, Deployment=looks)["SchedulerWorkloadReady"] == ("True", "LeaderReady")


def test_a_scaled_role_needs_as_many_as_its_set_has() -> None:
    autoscaling = {"maxReplicas": 4, "metrics": [{"name": "a", "target": 1}]}
    manifest = service(role(replicas=2, autoscaling=autoscaling), layout="PerRole")
    (name,) = [each.name for each in plan_of(manifest).roles[0].lws]
    key = object_key("LeaderWorkerSet", name)
    assert found(manifest, **{key: ready_lws(1)})["Ready"][0] == "True"
    assert found(manifest, **{key: ready_lws(1, replicas=3)})["Ready"][0] == "False"
    assert found(manifest)["ScalingReady"] == ("True", "Ready")
    stuck = {"status": {"conditions": conditions(AbleToScale="True", ScalingActive="False")}}
    assert found(manifest, HorizontalPodAutoscaler=stuck)["WorkloadsReady"] == (
        "False", "ScalingReady",
    )  # fmt: skip


def test_a_parked_role_is_ready_and_a_prefill_role_of_single_pods_has_its_own() -> None:
    manifest = pair()
    manifest["spec"]["roles"][1]["replicas"] = 0
    assert found(manifest)["PrefillWorkloadReady"] == ("True", "ReplicasReady")


def test_the_component_tells_it_when_asked(engine: Any) -> None:
    engine.live["svc-inference-0"] = ready_lws()
    manifest = service(role(replicas=2))

    def program() -> Any:
        return {"ready": InferenceService("svc", manifest).readiness}

    one = engine.run(program).exports["ready"]
    assert {each["type"]: each["status"] for each in one} == {
        "Ready": "Unknown",
        "PresetsCombined": "True",
        "WorkloadsReady": "Unknown",
        "MainWorkloadReady": "Unknown",
    }
    engine.live["svc-inference-1"] = ready_lws()
    both = engine.run(program).exports["ready"]
    assert {each["status"] for each in both} == {"True"}


#: Those of llm_inference_service_lifecycle.go at v0.20.0, with the living condition `Ready`.
KSERVE = {
    "Ready", "PresetsCombined", "WorkloadsReady", "RouterReady", "MainWorkloadReady",
    "WorkerWorkloadReady", "PrefillWorkloadReady", "PrefillWorkerWorkloadReady", "ScalingReady",
    "PrefillScalingReady", "SchedulerWorkloadReady", "TokenizerReady", "GatewaysReady",
    "HTTPRoutesReady", "InferencePoolReady", "GroupReady", "GroupDegraded",
}  # fmt: skip


def test_every_condition_of_kserve_is_derived_or_explained() -> None:
    scaled = {"autoscaling": {"maxReplicas": 4, "metrics": [{"name": "a", "target": 1}]}}
    single = pair(httproute=ROUTE, gateway={"gatewayClassName": "x"})
    single["spec"].update(layout="PerRole", schedulingStrategy={"gangPolicy": {"mode": "Off"}})
    for each in single["spec"]["roles"][1:]:
        each.update(scaled)
    several = pair()
    for each in several["spec"]["roles"][1:]:
        each["multinode"] = nodes(2)
    derived = {*found(single), *found(several)}
    (row,) = [
        line
        for line in (Path(__file__).parents[2] / "docs" / "systems.md").read_text().splitlines()
        if line.startswith("| status | `status.conditions`")
    ]
    explained = {each for each in KSERVE if f"`{each}`" in row}
    assert derived <= KSERVE
    assert KSERVE - derived == explained == {"TokenizerReady", "GroupReady", "GroupDegraded"}
