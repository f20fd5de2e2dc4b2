"""What `wait.level: Serving` waits for: conditions of a router's objects."""

from __future__ import annotations

from typing import Any

import pytest
from component.awaited import awaited, deployed

from fusioninfer_pulumi import InferenceService


def annotations(registered: Any) -> dict[str, str]:
    found: dict[str, str] = registered.inputs["metadata"]["annotations"]
    return found


@pytest.mark.parametrize("level", ["None", "Scheduled", "Available", "Serving"])
def test_objects_with_conditions_never_wait_themselves(engine: Any, level: str) -> None:
    deployment = deployed(engine, level)
    for name in ("svc-gateway", "svc-pool", "svc-httproute"):
        assert annotations(deployment[name])["pulumi.com/skipAwait"] == "true"


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
