"""Services converted from other systems' manifests, on the real schedulers."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.live import task_of
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests import kthena_samples as samples
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MANIFESTS = {**DOCUMENTS, **acceptable(), "edited presets": edited()}
TWO = {"minRoleReplicas": {"server": 2}}


def start(cluster: Cluster, namespace: str, manifest: Object) -> int:
    """Apply a manifest's objects without its endpoint picker; return the number of pods."""
    (args,) = load(manifest, allow_lossy=True)
    plan = plan_service(args)
    objects = [item for item in render(plan) if item["kind"] != "Deployment"]
    cluster.apply(inputs.with_namespace(objects, namespace))
    return plan.total_pods


@pytest.mark.proves(
    "Pods of Kthena's, KServe's and Modelplane's documented manifests are scheduled"
)
@pytest.mark.parametrize("name", MANIFESTS)
def test_documented_manifests_are_scheduled(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.add_nodes(6)
    total = start(cluster, namespace, MANIFESTS[name])

    def bound() -> list[str]:
        return [task_of(pod) for pod in cluster.bound(namespace)]

    cluster.wait(lambda: len(bound()) == total, 120, bound)


@pytest.mark.proves("A Kthena group of single pods is scheduled as a gang")
@pytest.mark.parametrize(
    ("policy", "free", "running"), [(None, 6, 4), (None, 3, 0), (TWO, 3, 3), (TWO, 1, 0)]
)
def test_kthena_group_is_gang_scheduled(
    cluster: Cluster, namespace: str, policy: Object | None, free: int, running: int
) -> None:
    group = {} if policy is None else {"gangPolicy": policy}
    cluster.add_nodes(free, 1)
    start(cluster, namespace, samples.serving(samples.role(replicas=4), group=group, replicas=2))
    cluster.wait(lambda: len(cluster.pods(namespace)) == 8, 120)
    cluster.wait(lambda: len(cluster.bound(namespace)) == running, 60)
    cluster.settle(5)
    bound = [pod["metadata"]["labels"][labels.GROUP_INDEX] for pod in cluster.bound(namespace)]
    assert len(bound) == running
    assert len(set(bound)) <= 1
