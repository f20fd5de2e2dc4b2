"""Kthena's scaled and split services on the real API server, scheduler and autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.test_manifests import assert_accepted, room
from fusioninfer_pulumi import loads
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests import kthena_samples as samples

__all__ = ["room"]

TWO = {"minRoleReplicas": {"server": 2}}
LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
PROMETHEUS = {"serverURL": "http://prometheus:9090", "query": "sum(rate(requests[2m]))"}
PACE = {
    "scaleUp": {"stablePolicy": {"instances": 2, "period": "30s", "selectPolicy": "And"}},
    "scaleDown": {"instances": 0, "percent": 0, "stabilizationWindow": "10m"},
}
PAIR = samples.serving(samples.role("prefill", replicas=1), samples.role("decode", replicas=2))
ROLES = {
    "prefill": {"minReplicas": 1, "maxReplicas": 3},
    "decode": {"minReplicas": 2, "maxReplicas": 6},
}


def of_queries() -> Object:
    sources = {"metricSources": {"waiting": {"prometheus": PROMETHEUS}}}
    roles = {name: {**bounds, **sources} for name, bounds in ROLES.items()}
    return samples.policy(disaggregatedTarget=samples.scaled(roles), behavior=PACE)


def objects_of(*documents: Object) -> list[list[Object]]:
    """The objects of each service that is made of documents."""
    return [list(render(plan_service(args))) for args in loads(inputs.text(*documents))]


POLICIES: dict[str, list[Object]] = {
    "pods": [PAIR, samples.policy(disaggregatedTarget=samples.scaled(ROLES), behavior=PACE)],
    "queries": [PAIR, of_queries()],
    "tolerance": [samples.serving(), samples.policy(tolerancePercent=5)],
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("Kthena's autoscaled services are accepted unchanged")
@pytest.mark.parametrize("name", POLICIES)
def test_scaled_services_are_accepted(cluster: Cluster, room: str, name: str) -> None:
    (objects,) = objects_of(*POLICIES[name])
    kinds = {manifest["kind"] for manifest in objects}
    assert kinds & {"HorizontalPodAutoscaler", "ScaledObject"}
    assert_accepted(cluster, objects, room)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("Bounds of Kthena's autoscaling policy scale the LeaderWorkerSet")
def test_a_policy_scales_a_role(cluster: Cluster, namespace: str) -> None:
    (objects,) = objects_of(*POLICIES["pods"])
    cluster.add_nodes(10, 1)
    cluster.apply(inputs.with_namespace(objects, namespace))
    cluster.wait(lambda: len(cluster.bound(namespace)) == 3, 60, lambda: cluster.bound(namespace))
    bounds = {"spec": {"minReplicas": 4}}
    cluster.patch(HPA, "ms-0-decode", bounds, namespace)
    cluster.wait(
        lambda: (
            cluster.get(LWS, "ms-0-decode", namespace)["spec"]["replicas"] == 4
            and len(cluster.bound(namespace)) == 5
        ),
        90,
        lambda: cluster.get(HPA, "ms-0-decode", namespace).get("status"),
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("A Kthena group of single pods is scheduled as a gang")
@pytest.mark.parametrize(
    ("policy", "free", "running"), [(None, 6, 4), (None, 3, 0), (TWO, 3, 3), (TWO, 1, 0)]
)
def test_a_group_of_single_pods_is_a_gang(
    cluster: Cluster, namespace: str, policy: Object | None, free: int, running: int
) -> None:
    group = {} if policy is None else {"gangPolicy": policy}
    serving = samples.serving(samples.role(replicas=4), group=group, replicas=2)
    (objects,) = objects_of(serving)
    cluster.add_nodes(free, 1)
    cluster.apply(inputs.with_namespace(objects, namespace))
    cluster.wait(lambda: len(cluster.pods(namespace)) == 8, 120)
    cluster.wait(lambda: len(cluster.bound(namespace)) == running, 60)
    cluster.settle(5)
    bound = [pod["metadata"]["labels"][labels.GROUP_INDEX] for pod in cluster.bound(namespace)]
    assert len(bound) == running
    assert len(set(bound)) <= 1


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("Services of a weighted Kthena ModelRoute are accepted unchanged")
def test_weights_are_accepted(cluster: Cluster, room: str) -> None:
    name = "modelserving.volcano.sh/name"
    shares: list[dict[str, Any]] = [
        {"modelServerName": "srv", "weight": 90}, {"modelServerName": "new", "weight": 10}
    ]  # fmt: skip
    made = objects_of(
        samples.serving(),
        samples.serving(name="next"),
        samples.server(),
        samples.server("new", {name: "next"}),
        samples.route(samples.rule(*shares), parentRefs=[{"name": "gateway"}]),
    )
    routes = [
        manifest for objects in made for manifest in objects if manifest["kind"] == "HTTPRoute"
    ]
    assert [ref["weight"] for ref in routes[0]["spec"]["rules"][0]["backendRefs"]] == [90, 10]
    assert len(routes) == 1
    for objects in made:
        assert_accepted(cluster, objects, room)
