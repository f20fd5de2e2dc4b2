"""`wait.level: Serving` on the engine; the gateway's controller is played by a stand-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.engine.endpoint import EndpointStandIn
from e2e.engine.gateway import GATEWAYS, POOLS, ROUTES, GatewayStandIn
from e2e.engine.project import ENGINE, Project
from e2e.engine.services import QUICK, role, service
from e2e.harness import Cluster

Make = Callable[..., Project]
SERVING = {"level": "Serving", "timeout": "60s"}


def routed(namespace: str, *, wait: Any = SERVING, port: int = 8080, **route: Any) -> Any:
    """A service with a router and a Gateway of its own."""
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
@pytest.mark.proves(
    f"wait.level Serving waits for Gateway, pool, route and /v1/models ({STAND_IN})",
    needs=ENGINE,
)
def test_router_is_waited_for(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    with EndpointStandIn(unready=4) as endpoint:
        stack.write(routed(namespace, port=endpoint.port))
        with GatewayStandIn(cluster, namespace, delay=3) as gateway:
            stack.preview()
            assert endpoint.asked == []
            stack.up().assert_fine()
        assert set(gateway.spoke) == {
            "Gateway/svc-gateway@1", "HTTPRoute/svc-httproute@1", "InferencePool/svc-pool@1",
        }  # fmt: skip
        answers = [status for _, status in endpoint.asked]
        assert answers[0] == 503
        assert answers[-1] == 200
        assert max(gateway.spoke.values()) < endpoint.asked[0][0]
        # The address was not known when the Gateway was made.
        assert stack.output("endpoint") == f"http://127.0.0.1:{endpoint.port}"
        for _ in range(2):
            assert stack.preview() == {}
            stack.up().assert_fine()
            assert stack.changes() == {}
    # Nothing is left of the waits where they are not wanted any more.
    stack.write(routed(namespace, port=endpoint.port, wait=QUICK))
    stack.up().assert_fine()
    for kind in (GATEWAYS, ROUTES, POOLS):
        (each,) = cluster.list(kind, namespace)
        assert "pulumi.com/waitFor" not in each["metadata"].get("annotations", {})


@pytest.mark.proves(f"A changed route is awaited again ({STAND_IN})", needs=ENGINE)
def test_a_changed_route(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    with GatewayStandIn(cluster, namespace, delay=0.5) as gateway, EndpointStandIn() as endpoint:
        stack.write(routed(namespace, port=endpoint.port))
        stack.up().assert_fine()
        gateway.delay = 6
        path = [{"path": {"type": "PathPrefix", "value": "/v1"}}]
        stack.write(routed(namespace, port=endpoint.port, rules=[{"matches": path}]))
        stack.up().assert_fine()
        assert "HTTPRoute/svc-httproute@2" in gateway.spoke
        assert stack.preview() == {}


@pytest.mark.proves(f"A route that its Gateway rejects fails the update ({STAND_IN})", needs=ENGINE)
def test_a_refused_route(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    short = {"level": "Serving", "timeout": "12s"}
    with GatewayStandIn(cluster, namespace) as gateway, EndpointStandIn() as endpoint:
        gateway.refused["HTTPRoute"] = "NotAllowedByListeners"
        stack.write(routed(namespace, port=endpoint.port, wait=short))
        told = stack.up()
        assert told.status != 0
        assert "svc: HTTPRoute svc-httproute at svc-gateway: not Accepted" in told.text
        assert endpoint.asked == []
        # At another level the outputs say what the controller said.
        stack.write(routed(namespace, port=endpoint.port, wait=QUICK))
        stack.up().assert_fine()
        stack.refresh().assert_fine()
        stack.up().assert_fine()
        active = next(c for c in stack.output("status")["conditions"] if c["type"] == "Active")
        assert (active["status"], active["reason"]) == ("False", "RouteNotAccepted")
        assert "NotAllowedByListeners" in active["message"]
        gateway.refused.clear()
        stack.write(routed(namespace, port=endpoint.port))
        stack.up().assert_fine()
        assert stack.preview() == {}
        active = next(c for c in stack.output("status")["conditions"] if c["type"] == "Active")
        assert active["status"] == "True"


@pytest.mark.proves(
    "A reachable endpoint that does not serve fails the update with its answer", needs=ENGINE
)
def test_an_endpoint_that_does_not_serve(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    short = {"level": "Serving", "timeout": "12s"}
    with GatewayStandIn(cluster, namespace), EndpointStandIn(unready=600) as endpoint:
        stack.write(routed(namespace, port=endpoint.port, wait=short))
        told = stack.up()
    assert told.status != 0
    url = f"http://127.0.0.1:{endpoint.port}/v1/models"
    assert f"{url} is not ready after 12s (wait.timeout)" in told.text
    assert "HTTP status 503" in told.text
    assert "Traceback" not in told.text


@pytest.mark.proves(
    "wait.level Serving without a router reports that cluster-internal names cannot be probed",
    needs=ENGINE,
)
def test_without_a_router(cluster: Cluster, namespace: str, project: Make) -> None:
    cluster.add_nodes(1)
    stack = project()
    stack.write(service(namespace, role(replicas=1), wait={"level": "Serving", "timeout": "15s"}))
    told = stack.up().assert_fine()
    assert "the endpoint was not checked" in told.text
    assert stack.preview() == {}
