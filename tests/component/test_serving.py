"""What `wait.level: Serving` waits for: conditions of a router's objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from component.awaited import awaited, deployed
from routed import ROUTE

from fusioninfer_pulumi import InferenceService

CURRENT = "!(@.observedGeneration < $.metadata.generation)"
ACCEPTED = f'@.conditions[?@.type=="Accepted"&&@.status=="True"&&{CURRENT}]'
RESOLVED = f'@.conditions[?@.type=="ResolvedRefs"&&@.status=="True"&&{CURRENT}]'
PATCHED = "jsonpath={.metadata.annotations['pulumi.com/patchForce']}"
ROUTING = ("svc-gateway-wait", "svc-httproute-wait", "svc-pool-wait")


def annotations(registered: Any) -> dict[str, str]:
    found: dict[str, str] = registered.inputs["metadata"]["annotations"]
    return found


def waits_for(registered: Any) -> list[str]:
    found: list[str] = json.loads(annotations(registered)["pulumi.com/waitFor"])
    return found


def test_conditions_of_each_object(engine: Any) -> None:
    deployment = deployed(engine)
    both = f'{{.status.parents[?@.parentRef.name=="svc-gateway"&&{ACCEPTED}&&{RESOLVED}]}}'
    assert waits_for(deployment["svc-gateway-wait"]) == [
        "condition=Accepted",
        "condition=Programmed",
        PATCHED,
    ]
    assert waits_for(deployment["svc-pool-wait"]) == [f"jsonpath={both}", PATCHED]
    assert waits_for(deployment["svc-httproute-wait"]) == [f"jsonpath={both}", PATCHED]
    # The provider splits at every `=` that is not doubled; what follows would be a value.
    assert "=" not in both.replace("==", "")


def test_every_parent_of_a_route_has_to_accept_it(engine: Any) -> None:
    parents = [{"name": "a", "sectionName": "x"}, {"name": "a", "sectionName": "y"}, {"name": "b"}]
    deployment = deployed(engine, httproute={**ROUTE, "parentRefs": parents}, gateway=None)
    route = waits_for(deployment["svc-httproute-wait"])
    assert [each.partition(f"&&{ACCEPTED}")[0] for each in route[:-1]] == [
        'jsonpath={.status.parents[?@.parentRef.name=="a"&&@.parentRef.sectionName=="x"',
        'jsonpath={.status.parents[?@.parentRef.name=="a"&&@.parentRef.sectionName=="y"',
        'jsonpath={.status.parents[?@.parentRef.name=="b"',
    ]
    assert len(waits_for(deployment["svc-pool-wait"])) == 3  # a, b, and the patch itself
    assert {each.request.name for each in deployment.patches} == {
        "svc-inference-0-wait",
        "svc-httproute-wait",
        "svc-pool-wait",
    }


def test_without_named_parents_any_has_to_accept(engine: Any) -> None:
    route = {"useDefaultGateways": "All"}
    deployment = deployed(engine, httproute=route, gateway=None)
    (any_of_them, _) = waits_for(deployment["svc-httproute-wait"])
    assert any_of_them == f"jsonpath={{.status.parents[?{ACCEPTED}&&{RESOLVED}]}}"


def test_they_come_last_and_nothing_waits_for_them(engine: Any) -> None:
    deployment = deployed(engine)
    urns = {each.request.name: each.urn for each in deployment.registered}
    own = {urns[name] for name in ROUTING}
    before = {urns[name] for name in ("svc-inference-0-wait", "svc-epp", "svc-httproute")}
    for each in deployment.registered:
        if each.request.name in ROUTING:
            # Picker's Deployment and Service have one logical name and so differ in their URN.
            assert before - {urns["svc-epp"]} <= set(each.request.dependencies)
            assert any(found.endswith("Deployment::svc-epp") for found in each.request.dependencies)
            assert each.request.customTimeouts.create == "20m"
        assert not own & set(each.request.dependencies), each.request.name


@pytest.mark.parametrize("level", ["None", "Scheduled", "Available", "Serving"])
def test_objects_with_conditions_never_wait_themselves(engine: Any, level: str) -> None:
    deployment = deployed(engine, level)
    for name in ("svc-gateway", "svc-pool", "svc-httproute"):
        assert annotations(deployment[name])["pulumi.com/skipAwait"] == "true"
    found = {each.request.name for each in deployment.patches} & set(ROUTING)
    assert found == (set(ROUTING) if level == "Serving" else set())


def test_a_change_of_the_object_touches_its_patch(engine: Any) -> None:
    def generation(live: Any) -> str:
        engine.live["svc-httproute"] = {"metadata": {"name": "svc-httproute", **live}}
        return annotations(deployed(engine)["svc-httproute-wait"])["fusioninfer.io/generation"]

    assert [generation(live) for live in ({}, {"generation": 3.0})] == ["0", "3"]


def test_without_a_route_no_gateway_is_waited_for(engine: Any) -> None:
    deployment = deployed(engine, httproute=None, gateway=None)
    assert [each.request.name for each in deployment.patches] == ["svc-inference-0-wait"]


def test_files_get_no_patches(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"kubernetes:renderYamlToDirectory": "out"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(config))
    deployment = deployed(engine)
    assert deployment.patches == []
    assert "annotations" not in deployment["svc-httproute"].inputs["metadata"]


def test_the_endpoint_is_that_of_the_latest_look(engine: Any) -> None:
    address = {"addresses": [{"type": "IPAddress", "value": "192.0.2.7"}]}
    engine.live["svc-gateway"] = {"status": address}
    given = awaited()

    def program() -> Any:
        service = InferenceService("svc", given)
        return {"endpoint": service.endpoint, "status": service.status}

    deployment = engine.run(program)
    assert deployment.exports["endpoint"] == "http://192.0.2.7"


def test_the_status_tells_what_a_gateway_refuses(engine: Any) -> None:
    available = {"type": "Available", "status": "True"}
    engine.live["svc-inference-0"] = {"status": {"readyReplicas": 1, "conditions": [available]}}
    refused = {"type": "Accepted", "status": "False", "reason": "NotAllowedByListeners"}
    parent = {"parentRef": {"name": "svc-gateway"}, "conditions": [refused]}
    engine.live["svc-httproute"] = {"status": {"parents": [parent]}}
    given = awaited("Available")
    deployment = engine.run(lambda: {"status": InferenceService("svc", given).status})
    active = deployment.exports["status"]["conditions"][1]
    assert (active["status"], active["reason"]) == ("False", "RouteNotAccepted")
