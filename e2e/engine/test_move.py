"""Changes of a service's layout, name or namespace under load (docs/how-to/move.md)."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.project import PROGRAM
from e2e.engine.services import TWO_NODES, Stack, role, router as base_router, service
from e2e.engine.traffic import Traffic, count_services

HOST = "chat.example.com"
SPREAD: dict[str, Any] = {**TWO_NODES, "gpus": 8}
STAND_IN = "stand-in gateway"
ENOUGH = 40
"""Number of requests that is enough to see the shares of two backends."""


def make_router(**more: Any) -> dict[str, Any]:
    """Return a router whose HTTPRoute references another team's Gateway."""
    route = {"parentRefs": [{"name": "shared", "namespace": "gateways"}], "hostnames": [HOST]}
    manifest = base_router(httproute={**route, **more})
    del manifest["gateway"]
    return manifest


def make_role(name: str = "serve", *, port: int, replicas: int = 2, **more: Any) -> dict[str, Any]:
    """Return a role whose pods become ready after a delay."""
    return role(name, replicas=replicas, behavior="slow", port=port, **more)


@pytest.mark.parametrize(
    ("layouts", "routed", "spread"),
    [
        pytest.param(("PerReplica", "PerRole"), True, {}, marks=pytest.mark.core),
        (("PerRole", "PerReplica"), False, {}),
        (("PerReplica", "PerRole"), False, SPREAD),
        (("PerRole", "PerReplica"), True, SPREAD),
    ],
)
@pytest.mark.verifies(
    f"A role moves to another layout in one `up` without failed requests ({STAND_IN})"
)
def test_role_moves_to_another_layout(
    stack: Stack, port: int, layouts: tuple[str, str], spread: dict[str, Any], *, routed: bool
) -> None:
    stack.cluster.add_nodes(8)

    def make_service(name: str, layout: str) -> dict[str, Any]:
        roles = [make_router()] if routed else []
        return stack.service(*roles, make_role(name, port=port, **spread), layout=layout)

    stack.deploy_services(make_service("serve", layouts[0]))
    target = {"host": HOST} if routed else {"service": "svc"}
    with Traffic(stack.cluster, stack.namespace, port=port, **target) as traffic:
        traffic.wait(ENOUGH)
        min_ready = stack.roll_services(wanted := make_service("next", layouts[1]))
        last = traffic.wait(ENOUGH)
    assert traffic.count_errors() == {}
    assert min_ready["total"] == 2, min_ready
    assert {item.pod.rpartition("-next")[0] for item in last} == {"svc"}
    stack.assert_objects(wanted)
    assert stack.preview() == {}


@pytest.mark.parametrize("namespaces", [1, 2])
@pytest.mark.verifies(
    f"A service moves to another name or namespace without failed requests ({STAND_IN})"
)
def test_service_moves_to_another_name_or_namespace(
    stack: Stack, other_namespace: str, port: int, namespaces: int
) -> None:
    stack.cluster.add_nodes(2)
    stack.program = PROGRAM.replace('args["metadata"]["name"], args', '"chat", args')
    stack.deploy(make_router(), make_role(port=port), name="chat")
    name, target = ("chat", other_namespace) if namespaces > 1 else ("talk", stack.namespace)
    wanted = service(target, make_router(), make_role(port=port), name=name)
    with Traffic(stack.cluster, stack.namespace, other_namespace, port=port, host=HOST) as traffic:
        traffic.wait(ENOUGH)
        stack.deploy_services(wanted)
        last = traffic.wait(ENOUGH)
    assert traffic.count_errors() == {}
    assert {(item.namespace, item.service) for item in last} == {(target, name)}
    stack.assert_objects(wanted, target)
    if namespaces > 1:
        assert stack.list_objects() == []


@pytest.mark.verifies(f"A service hands over its requests by weights without failures ({STAND_IN})")
def test_service_hands_over_by_weights(stack: Stack, port: int) -> None:
    stack.cluster.add_nodes(2)

    def old(share: int, **more: Any) -> dict[str, Any]:
        split = [{"service": "chat-next", "weight": share}]
        return stack.service(make_router(split=split), make_role(port=port, **more), name="chat")

    def new(route: dict[str, Any]) -> dict[str, Any]:
        router = {**make_router(), "httproute": route}
        return stack.service(router, make_role(port=port), name="chat-next", layout="PerRole")

    follows = new({"routedBy": "chat"})
    leads = new(make_router()["httproute"])
    stack.deploy(make_router(), make_role(port=port), name="chat")
    with Traffic(stack.cluster, stack.namespace, port=port, host=HOST) as traffic:
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat"}
        stack.deploy_services(old(0), follows)
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat"}
        stack.deploy_services(old(50), follows)
        traffic.wait(10)  # Requests that started before the switch.
        shares = count_services(traffic.wait(5 * ENOUGH))
        assert min(shares.values()) > ENOUGH, shares
        stack.deploy_services(old(100), follows)
        traffic.wait(10)
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat-next"}
        # Both routes lead to one pool, so their precedence does not matter.
        stack.write(old(100, replicas=0), leads)
        result = stack.up().assert_succeeded()
        assert "matches the same requests" not in result.text
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat-next"}
        stack.deploy_services(leads)
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat-next"}
    assert traffic.count_errors() == {}
    stack.assert_objects(leads)


@pytest.mark.verifies(
    f"A service hands over by weights to another namespace without failures ({STAND_IN})"
)
def test_service_hands_over_to_another_namespace(
    stack: Stack, other_namespace: str, port: int
) -> None:
    stack.cluster.add_nodes(2)
    stack.program = PROGRAM.replace(
        'args["metadata"]["name"], args', 'args["metadata"]["namespace"], args'
    )

    def old(share: int) -> dict[str, Any]:
        group = "inference.networking.k8s.io"
        pool = {"group": group, "kind": "InferencePool", "name": "chat-pool"}
        other = {**pool, "namespace": other_namespace, "weight": share}
        backends = [{**pool, "weight": 100 - share}, other]
        splitting = {**make_router(rules=[{"backendRefs": backends}]), "referenceGrants": True}
        return stack.service(splitting, make_role(port=port), name="chat")

    def new(route: dict[str, Any]) -> dict[str, Any]:
        router = {**make_router(), "httproute": route}
        return service(other_namespace, router, make_role(port=port), name="chat")

    follows = new({"refs": [{"name": "chat-httproute", "namespace": stack.namespace}]})
    leads = new(make_router()["httproute"])
    stack.deploy(make_router(), make_role(port=port), name="chat")
    with Traffic(stack.cluster, stack.namespace, other_namespace, port=port, host=HOST) as traffic:
        traffic.wait(ENOUGH)
        for share in (0, 50, 100):
            stack.deploy_services(follows, old(share))
            traffic.wait(10)
            namespaces = {item.namespace for item in traffic.wait(ENOUGH)}
            wanted = {stack.namespace: share < 100, other_namespace: share > 0}
            assert namespaces == {name for name, serves in wanted.items() if serves}
        stack.deploy_services(leads, old(100))
        traffic.wait(ENOUGH)
        stack.deploy_services(leads)
        assert {item.namespace for item in traffic.wait(ENOUGH)} == {other_namespace}
    assert traffic.count_errors() == {}
    assert stack.list_objects() == []
    stack.assert_objects(leads, other_namespace)


@pytest.mark.verifies(f"One `up` adds or removes a service and its share of requests ({STAND_IN})")
@pytest.mark.parametrize("last", [True, False])
def test_share_and_service_are_added_and_removed(stack: Stack, port: int, *, last: bool) -> None:
    stack.cluster.add_nodes(2)
    alone = stack.service(make_router(), make_role(port=port), name="chat")
    split = make_router(split=[{"service": "chat-next", "weight": 50}])
    shared = stack.service(split, make_role(port=port), name="chat")
    follows = {**make_router(), "httproute": {"routedBy": "chat"}}
    target = stack.service(follows, make_role(port=port), name="chat-next")
    stack.deploy_services(alone)
    with Traffic(stack.cluster, stack.namespace, port=port, host=HOST) as traffic:
        traffic.wait(ENOUGH)
        stack.deploy_services(*([shared, target] if last else [target, shared]))
        traffic.wait(10)
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat", "chat-next"}
        stack.deploy_services(alone)
        traffic.wait(10)
        assert set(count_services(traffic.wait(ENOUGH))) == {"chat"}
    assert traffic.count_errors() == {}
    stack.assert_objects(alone)
