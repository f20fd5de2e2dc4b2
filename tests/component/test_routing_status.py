"""Objects that gateways reject, and their effect on the service's status."""

from __future__ import annotations

from typing import Any

from routed import routed
from rows import each_row
from samples import plan_of

from fusioninfer_pulumi.component.status import compute_status, find_rejection

GATEWAY = {
    "gatewayClassName": "istio",
    "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
}
PLAN = plan_of(routed(httproute={}, gateway=GATEWAY))
READY = {"status": {"readyReplicas": 1, "conditions": [{"type": "Available", "status": "True"}]}}


def condition(kind: str, status: str = "False", *, observed: int | None = 2) -> dict[str, Any]:
    expected = {"type": kind, "status": status, "reason": "Because", "message": "of that"}
    return expected if observed is None else {**expected, "observedGeneration": observed}


def of_gateway(*conditions: Any) -> dict[str, Any]:
    return {"metadata": {"generation": 2}, "status": {"conditions": list(conditions)}}


def of_parent(*conditions: Any, name: str = "svc-gateway") -> dict[str, Any]:
    parent = {"parentRef": {"name": name}, "conditions": list(conditions)}
    return {"metadata": {"generation": 2}, "status": {"parents": [parent]}}


@each_row(
    ("name", "look", "reason", "message"),
    [
        ("svc-gateway", of_gateway(condition("Accepted")), "GatewayNotReady",
         "Gateway svc-gateway: not Accepted, Because: of that"),
        ("svc-gateway", of_gateway(condition("Programmed")), "GatewayNotReady",
         "Gateway svc-gateway: not Programmed, Because: of that"),
        ("svc-httproute", of_parent(condition("Accepted")), "RouteNotAccepted",
         "HTTPRoute svc-httproute at svc-gateway: not Accepted, Because: of that"),
        ("svc-httproute", of_parent(condition("ResolvedRefs")), "RouteNotAccepted",
         "HTTPRoute svc-httproute at svc-gateway: not ResolvedRefs, Because: of that"),
        ("svc-pool", of_parent(condition("Accepted", observed=None)), "PoolNotAccepted",
         "InferencePool svc-pool at svc-gateway: not Accepted, Because: of that"),
        ("svc-pool", of_parent({"type": "Accepted", "status": "False"}), "PoolNotAccepted",
         "InferencePool svc-pool at svc-gateway: not Accepted, no reason given"),
    ],
)  # fmt: skip
def test_false_condition_makes_service_inactive(
    name: str, look: Any, reason: str, message: str
) -> None:
    assert find_rejection(PLAN, {name: look}) == (reason, message)
    status = compute_status(PLAN, {"svc-inference-0": READY, name: look})
    assert status["conditions"][1] == {
        "type": "Active",
        "status": "False",
        "reason": reason,
        "message": message,
    }


@each_row(
    "look",
    [
        None,
        {},
        {"status": None},
        {"metadata": {"generation": 2}, "status": {"parents": []}},
        of_parent(condition("Accepted", "True")),
        of_parent(condition("Accepted", "Unknown")),
        of_parent(condition("Exported")),  # requests do not depend on it
        of_parent(condition("Accepted"), name="another"),
        of_parent(condition("Accepted", observed=1)),  # about an older spec
        {**of_parent(condition("Accepted", observed=1)), "metadata": {"generation": 2.0}},
    ],
)
def test_missing_or_outdated_condition_is_ignored(look: Any) -> None:
    assert find_rejection(PLAN, {"svc-httproute": look, "svc-pool": look}) is None
    status = compute_status(PLAN, {"svc-inference-0": READY, "svc-httproute": look})
    assert status["conditions"][1]["reason"] == "InferenceServiceAvailable"


def test_unready_pods_take_precedence_over_route() -> None:
    rejected = of_parent(condition("Accepted"))
    live = {"svc-inference-0": {"status": {}}, "svc-httproute": rejected}
    status = compute_status(PLAN, live)
    assert status["conditions"][1]["reason"] == "InferenceServiceProcessing"


def test_pool_without_route_is_ignored() -> None:
    alone = plan_of(routed(httproute=None))
    assert alone.routing is not None
    assert alone.routing.route is None
    assert find_rejection(alone, {"svc-pool": of_parent(condition("Accepted"))}) is None
