"""`wait.level: Serving`, with a stand-in for the gateway controller."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.engine.gateway import GATEWAYS, POOLS, ROUTES, EndpointStandIn, GatewayStandIn
from e2e.engine.services import QUICK, Stack, role, service

SERVING = {"level": "Serving", "timeout": "60s"}


def make_routed(namespace: str, *, wait: Any = SERVING, port: int = 8080, **route: Any) -> Any:
    router = {
        "name": "router",
        "componentType": "router",
        "gateway": {
            "gatewayClassName": "stand-in",
            "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}],
        },
        **({"httproute": route} if route else {}),
    }
    return service(namespace, router, role(replicas=1), wait=wait, rollout=QUICK)


STAND_IN = "stand-in controller"


@pytest.mark.core
@pytest.mark.verifies(
    f"wait.level Serving waits for Gateway, pool, route and /v1/models ({STAND_IN})"
)
def test_serving_waits_for_router(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    with EndpointStandIn(delay=4) as endpoint:
        stack.write(make_routed(stack.namespace, port=endpoint.port))
        with GatewayStandIn(stack.cluster, stack.namespace, delay=3) as gateway:
            stack.preview()
            assert endpoint.probes == []
            stack.up().assert_succeeded()
        assert set(gateway.status_times) == {
            "Gateway/svc-gateway@1", "HTTPRoute/svc-httproute@1", "InferencePool/svc-pool@1",
        }  # fmt: skip
        answers = [status for _, status in endpoint.probes]
        assert answers[0] == 503
        assert answers[-1] == 200
        assert max(gateway.status_times.values()) < endpoint.probes[0][0]
        # The Gateway has no address when it is created.
        assert stack.read_output("endpoint") == f"http://127.0.0.1:{endpoint.port}"
        for _ in range(2):
            assert stack.preview() == {}
            stack.up().assert_succeeded()
            assert stack.read_changes() == {}
    # Objects that are no longer awaited have no wait annotations.
    stack.deploy_services(make_routed(stack.namespace, port=endpoint.port, wait=QUICK))
    for kind in (GATEWAYS, ROUTES, POOLS):
        (item,) = stack.cluster.list(kind, stack.namespace)
        assert "pulumi.com/waitFor" not in item["metadata"].get("annotations", {})


@pytest.mark.verifies(f"A changed route is awaited again ({STAND_IN})")
def test_changed_route_is_awaited(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    with (
        GatewayStandIn(stack.cluster, stack.namespace, delay=0.5) as gateway,
        EndpointStandIn() as endpoint,
    ):
        stack.deploy_services(make_routed(stack.namespace, port=endpoint.port))
        gateway.delay = 6
        path = [{"path": {"type": "PathPrefix", "value": "/v1"}}]
        stack.deploy_services(
            make_routed(stack.namespace, port=endpoint.port, rules=[{"matches": path}])
        )
        assert "HTTPRoute/svc-httproute@2" in gateway.status_times
        assert stack.preview() == {}


@pytest.mark.verifies(f"A route that its Gateway rejects fails the update ({STAND_IN})")
def test_rejected_route_fails_update(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    short = {"level": "Serving", "timeout": "12s"}
    with GatewayStandIn(stack.cluster, stack.namespace) as gateway, EndpointStandIn() as endpoint:
        gateway.rejected["HTTPRoute"] = "NotAllowedByListeners"
        stack.write(make_routed(stack.namespace, port=endpoint.port, wait=short))
        result = stack.up().assert_failed()
        assert "svc: HTTPRoute svc-httproute at svc-gateway: not Accepted" in result.text
        assert endpoint.probes == []
        # At other levels, outputs contain the controller's message.
        stack.deploy_services(make_routed(stack.namespace, port=endpoint.port, wait=QUICK))
        stack.refresh().assert_succeeded()
        stack.up().assert_succeeded()
        active = next(c for c in stack.read_output("status")["conditions"] if c["type"] == "Active")
        assert (active["status"], active["reason"]) == ("False", "RouteNotAccepted")
        assert "NotAllowedByListeners" in active["message"]
        gateway.rejected.clear()
        stack.deploy_services(make_routed(stack.namespace, port=endpoint.port))
        assert stack.preview() == {}
        active = next(c for c in stack.read_output("status")["conditions"] if c["type"] == "Active")
        assert active["status"] == "True"


@pytest.mark.verifies("A reachable endpoint that does not serve fails the update with its answer")
def test_endpoint_that_does_not_serve_fails_update(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    short = {"level": "Serving", "timeout": "12s"}
    with GatewayStandIn(stack.cluster, stack.namespace), EndpointStandIn(delay=600) as endpoint:
        stack.write(make_routed(stack.namespace, port=endpoint.port, wait=short))
        result = stack.up()
    assert result.status != 0
    url = f"http://127.0.0.1:{endpoint.port}/v1/models"
    assert f"{url} is not ready after 12s (wait.timeout)" in result.text
    assert "HTTP status 503" in result.text
    assert "Traceback" not in result.text


@pytest.mark.verifies(
    "wait.level Serving without a router reports that cluster-internal names cannot be probed"
)
def test_serving_without_router_is_not_probed(stack: Stack) -> None:
    stack.cluster.add_nodes(1)
    stack.write(stack.service(role(replicas=1), wait={"level": "Serving", "timeout": "15s"}))
    result = stack.up().assert_succeeded()
    assert "the endpoint was not checked" in result.text
    assert stack.preview() == {}
