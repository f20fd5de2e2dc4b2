"""Replicas and roles that are added in the same update that changes those that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.project import ENGINE, Project
from e2e.engine.services import images, lowest, pods, ready, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}}


@pytest.mark.core
@pytest.mark.parametrize("workers", [None, "2"])
@pytest.mark.proves(
    "One update adds replicas to a full gang and changes its image",
    needs=ENGINE,
)
def test_replicas_and_an_image(
    cluster: Cluster, namespace: str, project: Make, workers: str | None
) -> None:
    cluster.add_nodes(6)
    stack = project()
    parallel = {} if workers is None else {"PULUMI_PARALLEL": workers}
    stack.write(service(namespace, role(replicas=3, **SPREAD)))
    stack.up(**parallel).assert_fine()
    before = pods(cluster, namespace)
    stack.write(service(namespace, role(replicas=10, tag="2", behaviour="slow", **SPREAD)))
    assert stack.preview() == {"create": 7, "update": 4}
    with lowest(cluster, namespace) as least:
        stack.up(**parallel).assert_fine()
    assert least["serve"] == 2, least
    assert ready(cluster, namespace) == {"serve": 10}
    assert set(images(cluster, namespace).values()) == {"2"}
    assert not set(pods(cluster, namespace).items()) & set(before.items())
    assert stack.preview() == {}
    stack.write(service(namespace, role(replicas=10, tag="3", **SPREAD)))
    with lowest(cluster, namespace) as least:
        stack.up(**parallel).assert_fine()
    assert least["serve"] == 9, least
    assert stack.preview() == {}


@pytest.mark.proves(
    "With roleOrder Sequential, a role joins a gang while earlier roles update",
    needs=ENGINE,
)
def test_a_role_joins_a_gang_that_changes(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(6)
    stack = project()
    order: dict[str, Any] = {"rollout": {"roleOrder": "Sequential", "timeout": "60s"}}

    def wanted(tag: str, *decoders: int) -> dict[str, Any]:
        more = [role("decode", "decoder", replicas=count, tag=tag) for count in decoders]
        first = role("prefill", "prefiller", replicas=2, tag=tag, **SPREAD)
        return service(namespace, first, *more, **order)

    stack.write(wanted("1", 1))
    stack.up().assert_fine()
    stack.write(wanted("2", 3))
    with lowest(cluster, namespace) as least:
        stack.up().assert_fine()
    assert least["prefill"] == 1, least
    assert ready(cluster, namespace) == {"prefill": 2, "decode": 3}
    assert set(images(cluster, namespace).values()) == {"2"}
    assert stack.preview() == {}
