"""The program probes the endpoint after all other waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from component.awaited import awaited, deployed
from routed import ROUTE

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component import endpoint_check
from fusioninfer_pulumi.component.children import Children
from fusioninfer_pulumi.component.endpoint_check import (
    NotReadyError,
    UnreachableError,
    probe,
    wait_until_ready,
)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the probed URLs; the program runs as on a Pulumi engine."""
    urls: list[str] = []

    async def answer(url: str, seconds: float) -> None:
        assert 0 < seconds <= 600
        urls.append(url)
        if "silent" in url:
            raise NotReadyError("HTTP status 503")

    def deadline(_: Any) -> pulumi.Output[float]:
        return pulumi.Output.from_input(time.monotonic() + 600)

    monkeypatch.setattr(Children, "get_deadline", deadline)
    monkeypatch.setattr(endpoint_check, "has_pulumi_engine", lambda: True)
    monkeypatch.setattr(endpoint_check, "wait_until_ready", answer)
    return urls


def test_endpoint_is_probed_at_level_serving(engine: Any, requests: list[str]) -> None:
    deployed(engine, httproute=ROUTE, gateway=None)
    assert requests == ["http://svc.example.com"]


@pytest.mark.parametrize("level", ["None", "Scheduled", "Available"])
def test_other_levels_do_not_probe(engine: Any, requests: list[str], level: str) -> None:
    deployed(engine, level)
    assert requests == []


def test_preview_does_not_probe(engine: Any, requests: list[str]) -> None:
    value = awaited(httproute=ROUTE)
    engine.run(lambda: InferenceService("svc", value) and None, preview=True)
    assert requests == []


def test_mocks_do_not_probe(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_check, "wait_until_ready", lambda *_: pytest.fail("it was probed"))
    deployed(engine, httproute=ROUTE, gateway=None)


def test_unknown_address_is_logged(engine: Any, requests: list[str]) -> None:
    without = deployed(engine, httproute={**ROUTE, "hostnames": []}, gateway=None)
    assert "the endpoint was not checked: its address is not known to the program" in without.logged
    assert requests == []


def test_unready_endpoint_fails_the_program(engine: Any, requests: list[str]) -> None:
    route = {**ROUTE, "hostnames": ["silent.example.com"]}
    with pytest.raises(
        pulumi.RunError, match=r"svc: http://silent\.example\.com/v1/models is not ready"
    ):
        deployed(engine, httproute=route, gateway=None)


def probes(*outcomes: Exception | None) -> Callable[[str], None]:
    """Return a probe with these outcomes; the last one repeats."""
    left = list(outcomes)

    def probe_once(_: str) -> None:
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if outcome is not None:
            raise outcome

    return probe_once


@pytest.fixture
def _own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a clock that only sleeping advances."""
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(endpoint_check, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(asyncio, "sleep", sleep)


NOT_READY, UNREACHABLE = (
    NotReadyError("HTTP status 503"),
    UnreachableError("its name is not known here"),
)


@pytest.mark.parametrize(
    ("url", "outcomes", "messages"),
    [
        ("http://a.example", (None,), None),
        ("http://a.example", (NOT_READY, NOT_READY, None), None),
        # DNS names and addresses may appear later.
        ("http://a.example", (UNREACHABLE, UNREACHABLE, NOT_READY, None), None),
        ("http://a.example", (UNREACHABLE,), "its name is not known here"),
        # An unknown cluster-internal name fails immediately.
        ("http://svc.ns.svc:8000", (UNREACHABLE, None), "its name is not known here"),
        ("http://svc.ns.svc:8000", (NOT_READY, UNREACHABLE, None), None),
    ],
)
@pytest.mark.usefixtures("_own_clock")
def test_probe_outcomes_until_ready(url: str, outcomes: Any, messages: str | None) -> None:
    waiting = wait_until_ready(url, 600, send=probes(*outcomes), grace=60, pause=5)
    if messages is None:
        asyncio.run(waiting)
        return
    with pytest.raises(UnreachableError, match=messages):
        asyncio.run(waiting)


@pytest.mark.usefixtures("_own_clock")
def test_endpoint_reached_once_must_become_ready() -> None:
    with pytest.raises(NotReadyError, match="HTTP status 503"):
        asyncio.run(
            wait_until_ready("http://a", 60, send=probes(NOT_READY, UNREACHABLE), grace=0, pause=5)
        )


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
    ("status", "body", "messages"),
    [
        (200, '{"data": []}', None),
        (401, "", None),  # the endpoint requires credentials, so it is ready
        (403, "", None),
        (404, "", "HTTP status 404"),
        (503, "", "HTTP status 503"),
        (200, "<html>", "not JSON"),
        (200, '{"detail": "x"}', "not a list of models"),
        (200, '["x"]', "not a list of models"),
    ],
)
def test_probe_result_by_http_response(
    server: Any, status: int, body: str, messages: str | None
) -> None:
    port, answers = server
    answers["now"] = (status, body)
    if messages is None:
        probe(f"http://127.0.0.1:{port}")
        return
    with pytest.raises(NotReadyError, match=messages):
        probe(f"http://127.0.0.1:{port}")


def test_closed_port_is_not_ready(server: Any) -> None:
    listening = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    port = listening.server_port
    listening.server_close()
    with pytest.raises(NotReadyError, match="refused"):
        probe(f"http://127.0.0.1:{port}")


def test_unknown_host_name_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_check, "_RESPONSE_SECONDS", 0.05)
    with pytest.raises(UnreachableError, match=r"Name or service|resolution"):
        probe("http://nowhere.invalid")
