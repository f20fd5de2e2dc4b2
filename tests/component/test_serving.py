"""What `wait.level: Serving` waits for: conditions of a router's objects, and an answer."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pulumi
import pytest
from routed import ROUTE, routed

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import answering, serving
from fusioninfer_pulumi.component.answering import (
    NotYetError,
    SilentError,
    UnreachableError,
    answered,
    ask,
)

GATEWAY = {
    "gatewayClassName": "istio",
    "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
}
CURRENT = "!(@.observedGeneration < $.metadata.generation)"
ACCEPTED = f'@.conditions[?@.type=="Accepted"&&@.status=="True"&&{CURRENT}]'
RESOLVED = f'@.conditions[?@.type=="ResolvedRefs"&&@.status=="True"&&{CURRENT}]'
PATCHED = "jsonpath={.metadata.annotations['pulumi.com/patchForce']}"
ROUTING = ("svc-gateway-wait", "svc-httproute-wait", "svc-pool-wait")


def manifest(level: str = "Serving", **fields: Any) -> Any:
    built = routed(**{"httproute": {}, "gateway": GATEWAY, **fields})
    built["spec"]["wait"] = {"level": level, "timeout": "20m"}
    return built


def deployed(engine: Any, level: str = "Serving", **fields: Any) -> Any:
    given = manifest(level, **fields)
    return engine.run(lambda: InferenceService("svc", given) and None)


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
    given = manifest()

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
    given = manifest("Available")
    deployment = engine.run(lambda: {"status": InferenceService("svc", given).status})
    active = deployment.exports["status"]["conditions"][1]
    assert (active["status"], active["reason"]) == ("False", "RouteNotAccepted")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoints that were asked, as if the program ran on an engine."""
    found: list[str] = []

    async def answer(url: str, seconds: float) -> str | None:
        found.append(f"{url} {seconds:g}")
        if "silent" in url:
            raise SilentError("HTTP status 503")
        return "its name is not known here" if url.endswith(".svc:8000") else None

    monkeypatch.setattr(serving, "_on_engine", lambda: True)
    monkeypatch.setattr(serving, "answered", answer)
    return found


def test_the_endpoint_is_asked_at_the_end(engine: Any, asked: list[str]) -> None:
    deployed(engine, httproute=ROUTE, gateway=None)
    assert asked == ["http://svc.example.com 1200"]


@pytest.mark.parametrize("level", ["None", "Scheduled", "Available"])
def test_other_levels_ask_nothing(engine: Any, asked: list[str], level: str) -> None:
    deployed(engine, level)
    assert asked == []


def test_a_preview_asks_nothing(engine: Any, asked: list[str]) -> None:
    given = manifest(httproute=ROUTE)
    engine.run(lambda: InferenceService("svc", given) and None, preview=True)
    assert asked == []


def test_mocks_ask_nothing(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "answered", lambda *_: pytest.fail("it was asked"))
    deployed(engine, httproute=ROUTE, gateway=None)


def test_what_cannot_be_asked_is_told(engine: Any, asked: list[str]) -> None:
    without = deployed(engine, httproute={**ROUTE, "hostnames": []}, gateway=None)
    assert "whether the endpoint answers was not checked: nobody knows its address here" in (
        without.logged
    )
    assert asked == []


def test_a_silent_endpoint_fails_the_program(engine: Any, asked: list[str]) -> None:
    route = {**ROUTE, "hostnames": ["silent.example.com"]}
    with pytest.raises(
        pulumi.RunError, match=r"svc: http://silent\.example\.com/v1/models did not"
    ):
        deployed(engine, httproute=route, gateway=None)


def looks(*outcomes: Exception | None) -> Callable[[str], None]:
    """Asks that end so, the last one for ever."""
    left = list(outcomes)

    def look(_: str) -> None:
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if outcome is not None:
            raise outcome

    return look


NOT_YET, AWAY = NotYetError("HTTP status 503"), UnreachableError("its name is not known here")


@pytest.mark.parametrize(
    ("url", "outcomes", "said"),
    [
        ("http://a.example", (None,), None),
        ("http://a.example", (NOT_YET, NOT_YET, None), None),
        # A name or an address that comes later.
        ("http://a.example", (AWAY, AWAY, NOT_YET, None), None),
        ("http://a.example", (AWAY,), "its name is not known here"),
        # Inside of the cluster no name comes later.
        ("http://svc.ns.svc:8000", (AWAY, None), "its name is not known here"),
        ("http://svc.ns.svc:8000", (NOT_YET, AWAY, None), None),
    ],
)
def test_outcomes(url: str, outcomes: Any, said: str | None) -> None:
    told = asyncio.run(answered(url, 0.2, look=looks(*outcomes), grace=0.02, pause=0.005))
    assert told == said


def test_what_was_reached_once_has_to_serve() -> None:
    with pytest.raises(SilentError, match="HTTP status 503"):
        asyncio.run(answered("http://a", 0.03, look=looks(NOT_YET, AWAY), grace=0.0, pause=0.005))


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[int, dict[str, tuple[int, str]]]]:
    answers: dict[str, tuple[int, str]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers["now"]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
    thread.start()
    yield listening.server_port, answers
    listening.shutdown()
    thread.join()
    listening.server_close()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, '{"data": []}', None),
        (401, "", None),  # whoever asks for credentials is there
        (403, "", None),
        (404, "", "HTTP status 404"),
        (503, "", "HTTP status 503"),
        (200, "<html>", "not JSON"),
        (200, '{"detail": "x"}', "no list of models"),
        (200, '["x"]', "no list of models"),
    ],
)
def test_answers(server: Any, status: int, body: str, said: str | None) -> None:
    port, answers = server
    answers["now"] = (status, body)
    if said is None:
        ask(f"http://127.0.0.1:{port}")
        return
    with pytest.raises(NotYetError, match=said):
        ask(f"http://127.0.0.1:{port}")


def test_a_closed_port_may_still_open(server: Any) -> None:
    listening = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = listening.server_port
    listening.server_close()
    with pytest.raises(NotYetError, match="refused"):
        ask(f"http://127.0.0.1:{port}")


def test_an_unknown_name_and_a_silent_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering, "_ANSWER_SECONDS", 0.05)
    with pytest.raises(UnreachableError, match="not known here"):
        ask("http://nowhere.invalid")
