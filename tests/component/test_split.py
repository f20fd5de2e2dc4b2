"""A route sends a share of its requests to a service only when the service is available."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from component.stacks import Stack
from routed import ROUTE, routed
from rows import each_row

from fusioninfer_pulumi import InferenceService
from fusioninfer_pulumi.component.route_shares import explain_unavailable
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.rollout import state_machine

AGENT = {"implementation": "agentgateway"}


def run(stack: Stack, *services: str, split: Mapping[str, int], **more: Any) -> Any:
    """Run a program with these services; `chat` has the route."""
    preview = more.pop("preview", False)

    def program() -> None:
        for name in services:
            route: Any = {"routedBy": "chat"}
            if name == "chat":
                shares = [{"service": to, "weight": weight} for to, weight in split.items()]
                route = {**ROUTE, "split": shares} if shares else ROUTE
            gateway = AGENT if name == "chat" else {**AGENT, "refs": [{"name": "my-gateway"}]}
            manifest = routed(httproute=route, gateway=gateway)
            spec = {"wait": {"timeout": "300ms"}, **more, **manifest["spec"]}
            InferenceService(name, {**spec, "name": name})

    return stack.run(program, services, preview=preview)


@pytest.mark.parametrize(
    ("services", "level"),
    [
        (("chat", "next"), "None"),
        (("next", "chat"), "Available"),
        pytest.param(("chat", "next"), "Available", marks=pytest.mark.slow),
        pytest.param(("next", "chat"), "None", marks=pytest.mark.slow),
    ],
)
def test_share_of_new_service_waits_for_its_replica(
    stack: Stack, services: tuple[str, ...], level: str
) -> None:
    run(stack, "chat", split={})
    run(stack, *services, split={"next": 10}, wait={"level": level, "timeout": "60s"})
    assert stack.ready == {"chat", "next"}
    assert stack.order[-1] == "chat-httproute"


def test_share_of_zero_does_not_wait(stack: Stack) -> None:
    stack.broken = {"next"}
    run(stack, "chat", split={})
    run(stack, "chat", "next", split={"next": 0}, wait={"level": "None"})
    assert "chat-httproute" in stack.order


def test_share_of_failed_service_does_not_update_route(stack: Stack) -> None:
    run(stack, "chat", split={})
    stack.broken = {"next"}
    with pytest.raises(pulumi.RunError, match="next-inference-0 is not available"):
        run(stack, "chat", "next", split={"next": 10})
    assert "chat-httproute" not in stack.order


def test_share_of_service_outside_the_stack_waits_until_timeout(stack: Stack) -> None:
    run(stack, "chat", split={})
    with pytest.raises(pulumi.RunError) as failed:
        run(stack, "chat", split={"next": 10})
    assert str(failed.value) == (
        "chat: the route cannot send requests to service next, because its endpoint picker is "
        "not available after 300ms (wait.timeout)"
    )
    assert "chat-httproute" not in stack.order


def test_unreadable_cluster_does_not_block_the_route(stack: Stack) -> None:
    run(stack, "chat", split={})
    stack.problem = UnreadableError("no rights")
    logged = run(stack, "chat", split={"next": 10}).logged
    assert "service next was not checked: no rights" in logged
    assert "chat-httproute" in stack.order


def test_unchanged_share_reads_nothing(stack: Stack) -> None:
    run(stack, "chat", "next", split={"next": 50}, wait={"timeout": "60s"})
    run(stack, "chat", "next", split={"next": 50})
    assert stack.lists == 0


def test_share_raised_from_zero_waits_for_ready_replica(stack: Stack) -> None:
    run(stack, "chat", "next", split={"next": 100}, wait={"timeout": "60s"})
    stack.broken = {"chat"}
    stack.age["chat-inference-0"] = 0
    with pytest.raises(
        pulumi.RunError,
        match="the route cannot send requests to service chat, because role inference",
    ):
        run(stack, "chat", "next", split={})
    assert "chat-httproute" not in stack.order


def test_preview_shows_final_weights(stack: Stack) -> None:
    route = run(stack, "chat", "next", split={"next": 10}, preview=True)["chat-httproute"]
    weights = [ref["weight"] for ref in route.inputs["spec"]["rules"][0]["backendRefs"]]
    assert weights == [90, 10]


def test_route_has_the_deadline_of_new_replicas(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_machine.UpdateState, "compute_wait_deadline", lambda *_: 0.0)
    with pytest.raises(pulumi.RunError, match=r"InferencePool .* after 45m \(wait"):
        run(stack, "chat", split={}, wait={"level": "Serving", "timeout": "45m"})


def lws(role: str, ready: int, replicas: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"fusioninfer.io/role-name": role}},
        "spec": {"replicas": replicas},
        "status": {"readyReplicas": ready},
    }


PICKER = {"status": {"availableReplicas": 1}}


@each_row(
    ("lws_list", "pickers", "missing"),
    [
        ([lws("a", 1), lws("a", 0)], [PICKER], None),
        ([lws("a", 1), lws("b", 0)], [PICKER], "role b has no ready replica"),
        ([lws("a", 1), lws("b", 0, replicas=0)], [PICKER], None),
        ([lws("a", 0, replicas=0)], [PICKER], "it has no replica"),
        ([], [PICKER], "it has no replica"),
        ([lws("a", 1)], [], "its endpoint picker is not available"),
        ([lws("a", 1)], [{}], "its endpoint picker is not available"),
    ],
)
def test_unavailable_service_names_missing_part(
    lws_list: Any, pickers: Any, missing: str | None
) -> None:
    assert explain_unavailable(lws_list, pickers) == missing
