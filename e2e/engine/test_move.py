"""A running service gets another layout, name or namespace under load: docs/how-to/move.md."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.project import ENGINE, PROGRAM, Project
from e2e.engine.services import left, lowest, noted, rendered, role, service
from e2e.engine.traffic import Traffic, engine_port, services
from e2e.harness import Cluster

Make = Callable[..., Project]
HOST = "chat.example.com"
SPREAD: dict[str, Any] = {"multinode": {"nodeCount": 2, "launcher": "none"}, "gpus": 8}
STAND_IN = "stand-in gateway"
ENOUGH = 40
"""Requests that show how shares are split, roughly."""


def router(**more: Any) -> dict[str, Any]:
    """Attaches to a Gateway that no service owns."""
    route = {"parentRefs": [{"name": "shared", "namespace": "gateways"}], "hostnames": [HOST]}
    return {
        "name": "router",
        "componentType": "router",
        "httproute": {**route, **more},
        "endpointPicker": {
            "template": {"metadata": {"annotations": {"e2e.fusioninfer.io/behaviour": "ready"}}}
        },
    }


def serving(name: str = "serve", *, port: int, replicas: int = 2, **more: Any) -> dict[str, Any]:
    """A role whose pods take a while to become ready."""
    return role(name, replicas=replicas, behaviour="slow", port=port, **more)


def one_component(stack: Project) -> None:
    """Gives the component one logical name, whatever its service is called."""
    text = PROGRAM.replace('args["metadata"]["name"], args', '"chat", args')
    Path(stack.folder / "__main__.py").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("layouts", "routed", "spread"),
    [
        pytest.param(("PerReplica", "PerRole"), True, {}, marks=pytest.mark.core),
        (("PerRole", "PerReplica"), False, {}),
        (("PerReplica", "PerRole"), False, SPREAD),
        (("PerRole", "PerReplica"), True, SPREAD),
    ],
)
@pytest.mark.proves(
    f"A role moves to another layout in one `up` without failed requests ({STAND_IN})",
    needs=ENGINE,
)
def test_another_layout(
    cluster: Cluster,
    namespace: str,
    project: Make,
    layouts: tuple[str, str],
    spread: dict[str, Any],
    *,
    routed: bool,
) -> None:
    cluster.add_nodes(8)
    port, stack = engine_port(), project()

    def made(name: str, layout: str) -> dict[str, Any]:
        roles = [router()] if routed else []
        return service(namespace, *roles, serving(name, port=port, **spread), layout=layout)

    stack.write(made("serve", layouts[0]))
    stack.up().assert_fine()
    asked = {"host": HOST} if routed else {"service": "svc"}
    with Traffic(cluster, namespace, port=port, **asked) as traffic:
        traffic.wait(ENOUGH)
        stack.write(wanted := made("next", layouts[1]))
        with lowest(cluster, namespace) as least:
            stack.up().assert_fine()
        last = traffic.wait(ENOUGH)
    assert traffic.failed() == {}
    assert least["total"] == 2, least
    assert {each.pod.rpartition("-next")[0] for each in last} == {"svc"}
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(wanted)
    assert stack.preview() == {}


@pytest.mark.parametrize("spaces", [1, 2])
@pytest.mark.proves(
    f"A service moves to another name or namespace without failed requests ({STAND_IN})",
    needs=ENGINE,
)
def test_another_name_or_namespace(
    cluster: Cluster, namespace: str, project: Make, spaces: int
) -> None:
    cluster.add_nodes(2)
    port, stack = engine_port(), project()
    one_component(stack)
    elsewhere = cluster.new_namespace() if spaces > 1 else namespace
    try:
        stack.write(service(namespace, router(), serving(port=port), name="chat"))
        stack.up().assert_fine()
        name = "chat" if spaces > 1 else "talk"
        wanted = service(elsewhere, router(), serving(port=port), name=name)
        with Traffic(cluster, namespace, elsewhere, port=port, host=HOST) as traffic:
            traffic.wait(ENOUGH)
            stack.write(wanted)
            stack.up().assert_fine()
            last = traffic.wait(ENOUGH)
        assert traffic.failed() == {}
        assert {(each.namespace, each.service) for each in last} == {(elsewhere, name)}
        assert left(cluster, elsewhere) == noted(stack.resources()) == rendered(wanted)
        if spaces > 1:
            assert left(cluster, namespace) == []
    finally:
        if spaces > 1:
            stack.down()
            cluster.delete_namespace(elsewhere)


@pytest.mark.proves(
    f"A service hands over its requests by weights without failures ({STAND_IN})",
    needs=ENGINE,
)
def test_another_name_by_weights(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    port, stack = engine_port(), project()

    def old(share: int, **more: Any) -> dict[str, Any]:
        split = [{"service": "chat-next", "weight": share}]
        return service(namespace, router(split=split), serving(port=port, **more), name="chat")

    def new(route: dict[str, Any]) -> dict[str, Any]:
        return service(
            namespace, {**router(), "httproute": route}, serving(port=port), name="chat-next",
            layout="PerRole",
        )  # fmt: skip

    follows = new({"routedBy": "chat"})
    leads = new(router()["httproute"])
    stack.write(service(namespace, router(), serving(port=port), name="chat"))
    stack.up().assert_fine()
    with Traffic(cluster, namespace, port=port, host=HOST) as traffic:
        assert set(services(traffic.wait(ENOUGH))) == {"chat"}
        stack.write(old(0), follows)
        stack.up().assert_fine()
        assert set(services(traffic.wait(ENOUGH))) == {"chat"}
        stack.write(old(50), follows)
        stack.up().assert_fine()
        traffic.wait(10)  # those that began before
        shares = services(traffic.wait(5 * ENOUGH))
        assert min(shares.values()) > ENOUGH, shares
        stack.write(old(100), follows)
        stack.up().assert_fine()
        traffic.wait(10)
        assert set(services(traffic.wait(ENOUGH))) == {"chat-next"}
        # Two routes lead to one pool: which of them is the older one does not matter.
        stack.write(old(100, replicas=0), leads)
        told = stack.up().assert_fine()
        assert "a route of its own for the same requests" not in told.text
        assert set(services(traffic.wait(ENOUGH))) == {"chat-next"}
        stack.write(leads)
        stack.up().assert_fine()
        assert set(services(traffic.wait(ENOUGH))) == {"chat-next"}
    assert traffic.failed() == {}
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(leads)


@pytest.mark.proves(
    f"A service and its share of requests come and go in one `up` ({STAND_IN})",
    needs=ENGINE,
)
@pytest.mark.parametrize("last", [True, False])
def test_share_comes_and_goes_with_its_service(
    cluster: Cluster, namespace: str, project: Make, *, last: bool
) -> None:
    cluster.add_nodes(2)
    port, stack = engine_port(), project()
    alone = service(namespace, router(), serving(port=port), name="chat")
    split = router(split=[{"service": "chat-next", "weight": 50}])
    shared = service(namespace, split, serving(port=port), name="chat")
    follows = {**router(), "httproute": {"routedBy": "chat"}}
    target = service(namespace, follows, serving(port=port), name="chat-next")
    stack.write(alone)
    stack.up().assert_fine()
    with Traffic(cluster, namespace, port=port, host=HOST) as traffic:
        traffic.wait(ENOUGH)
        stack.write(*([shared, target] if last else [target, shared]))
        stack.up().assert_fine()
        traffic.wait(10)
        assert set(services(traffic.wait(ENOUGH))) == {"chat", "chat-next"}
        stack.write(alone)
        stack.up().assert_fine()
        traffic.wait(10)
        assert set(services(traffic.wait(ENOUGH))) == {"chat"}
    assert traffic.failed() == {}
    assert left(cluster, namespace) == noted(stack.resources()) == rendered(alone)


@pytest.mark.proves(
    f"A service hands over by weights to another namespace without failures ({STAND_IN})",
    needs=ENGINE,
)
def test_another_namespace_by_weights(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(2)
    port, stack = engine_port(), project()
    elsewhere = cluster.new_namespace()
    (stack.folder / "__main__.py").write_text(
        PROGRAM.replace('args["metadata"]["name"], args', 'args["metadata"]["namespace"], args'),
        encoding="utf-8",
    )

    def old(share: int) -> dict[str, Any]:
        pool = {
            "group": "inference.networking.k8s.io",
            "kind": "InferencePool",
            "name": "chat-pool",
        }
        backends = [
            {**pool, "weight": 100 - share},
            {**pool, "namespace": elsewhere, "weight": share},
        ]
        splitting = {**router(rules=[{"backendRefs": backends}]), "referenceGrants": True}
        return service(namespace, splitting, serving(port=port), name="chat")

    def new(route: dict[str, Any]) -> dict[str, Any]:
        return service(elsewhere, {**router(), "httproute": route}, serving(port=port), name="chat")

    follows = new({"refs": [{"name": "chat-httproute", "namespace": namespace}]})
    leads = new(router()["httproute"])
    try:
        stack.write(service(namespace, router(), serving(port=port), name="chat"))
        stack.up().assert_fine()
        with Traffic(cluster, namespace, elsewhere, port=port, host=HOST) as traffic:
            traffic.wait(ENOUGH)
            for share in (0, 50, 100):
                stack.write(follows, old(share))
                stack.up().assert_fine()
                traffic.wait(10)
                spaces = {each.namespace for each in traffic.wait(ENOUGH)}
                wanted = {namespace: share < 100, elsewhere: share > 0}
                assert spaces == {space for space, serves in wanted.items() if serves}
            stack.write(leads, old(100))
            stack.up().assert_fine()
            traffic.wait(ENOUGH)
            stack.write(leads)
            stack.up().assert_fine()
            assert {each.namespace for each in traffic.wait(ENOUGH)} == {elsewhere}
        assert traffic.failed() == {}
        assert left(cluster, namespace) == []
        assert left(cluster, elsewhere) == noted(stack.resources()) == rendered(leads)
    finally:
        stack.down()
        cluster.delete_namespace(elsewhere)
