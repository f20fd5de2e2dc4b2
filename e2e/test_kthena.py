"""Kthena's scaled and split services on the real API server, scheduler and autoscaler."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from fusioninfer_pulumi import loads
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests import kthena_samples as samples

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

TWO = {"minRoleReplicas": {"server": 2}}
LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
HPA = "autoscaling/v2/HorizontalPodAutoscaler"
PAIR = samples.serving(samples.role("prefill", replicas=1), samples.role("decode", replicas=2))
ROLES = {
    "prefill": {"minReplicas": 1, "maxReplicas": 3},
    "decode": {"minReplicas": 2, "maxReplicas": 6},
}


def objects_of(*documents: Object) -> list[list[Object]]:
    """The objects of each service that is made of documents."""
    return [list(render(plan_service(args))) for args in loads(inputs.text(*documents))]


@pytest.mark.proves("Bounds of Kthena's autoscaling policy scale the LeaderWorkerSet")
def test_kthena_policy_scales_role(cluster: Cluster, namespace: str) -> None:
    (objects,) = objects_of(PAIR, samples.policy(disaggregatedTarget=samples.scaled(ROLES)))
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


@pytest.mark.proves("A Kthena group of single pods is scheduled as a gang")
@pytest.mark.parametrize(
    ("policy", "free", "running"), [(None, 6, 4), (None, 3, 0), (TWO, 3, 3), (TWO, 1, 0)]
)
def test_kthena_group_is_gang_scheduled(
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
