"""Replicas and roles that are added in the same update that changes those that run."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.services import TWO_NODES, Stack, role


@pytest.mark.core
@pytest.mark.parametrize("workers", [None, "2"])
@pytest.mark.proves("One update adds replicas to a full gang and changes its image")
def test_replicas_and_image_change_together(stack: Stack, workers: str | None) -> None:
    stack.cluster.add_nodes(6)
    parallel = {} if workers is None else {"PULUMI_PARALLEL": workers}
    stack.write(stack.service(role(replicas=3, **TWO_NODES)))
    stack.up(**parallel).assert_succeeded()
    before = stack.pods()
    stack.write(stack.service(role(replicas=10, tag="2", behaviour="slow", **TWO_NODES)))
    assert stack.preview() == {"create": 7, "update": 5}
    with stack.min_ready_replicas() as least:
        stack.up(**parallel).assert_succeeded()
    assert least["serve"] == 2, least
    assert stack.ready() == {"serve": 10}
    assert set(stack.images().values()) == {"2"}
    assert not set(stack.pods().items()) & set(before.items())
    assert stack.preview() == {}
    stack.write(stack.service(role(replicas=10, tag="3", **TWO_NODES)))
    with stack.min_ready_replicas() as least:
        stack.up(**parallel).assert_succeeded()
    assert least["serve"] == 9, least
    assert stack.preview() == {}


@pytest.mark.proves("With roleOrder Sequential, a role joins a gang while earlier roles update")
def test_role_joins_gang_during_update(stack: Stack) -> None:
    stack.cluster.add_nodes(6)
    order: dict[str, Any] = {"rollout": {"roleOrder": "Sequential", "timeout": "60s"}}

    def wanted(tag: str, *decoders: int) -> dict[str, Any]:
        more = [role("decode", "decoder", replicas=count, tag=tag) for count in decoders]
        first = role("prefill", "prefiller", replicas=2, tag=tag, behaviour="slow", **TWO_NODES)
        return stack.service(first, *more, **order)

    stack.deploy_services(wanted("1", 1))
    with stack.min_ready_replicas() as least:
        stack.deploy_services(wanted("2", 3))
    assert least["prefill"] == 1, least
    assert stack.ready() == {"prefill": 2, "decode": 3}
    assert set(stack.images().values()) == {"2"}
    assert stack.preview() == {}
