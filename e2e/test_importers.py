"""Services that were read from other systems' manifests, on the real schedulers."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster
from e2e.live import task_of
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MANIFESTS = {**DOCUMENTS, **acceptable(), "edited presets": edited()}


def start(cluster: Cluster, namespace: str, name: str) -> int:
    """Apply a manifest's objects without its endpoint picker; return the number of pods."""
    (args,) = load(MANIFESTS[name], allow_lossy=True)
    plan = plan_service(args)
    objects = [each for each in render(plan) if each["kind"] != "Deployment"]
    cluster.apply(inputs.with_namespace(objects, namespace))
    return plan.total_pods


@pytest.mark.proves(
    "Pods of Kthena's, KServe's and Modelplane's documented manifests are scheduled"
)
@pytest.mark.parametrize("name", MANIFESTS)
def test_documented_manifests_are_scheduled(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.add_nodes(6)
    total = start(cluster, namespace, name)

    def bound() -> list[str]:
        return [task_of(pod) for pod in cluster.bound(namespace)]

    cluster.wait(lambda: len(bound()) == total, 120, bound)


@pytest.mark.proves("The Kthena article's sample needs capacity for four pods")
@pytest.mark.parametrize(("free", "running"), [(4, 4), (3, 0)])
def test_sample_gang_starts_with_its_minimum(
    cluster: Cluster, namespace: str, free: int, running: int
) -> None:
    cluster.add_nodes(free, 1)
    start(cluster, namespace, "kthena-model-serving-sample")
    cluster.wait(lambda: len(cluster.pods(namespace)) == 8, 120)
    cluster.wait(lambda: len(cluster.bound(namespace)) == running, 60)
    cluster.settle(5)
    assert len(cluster.bound(namespace)) == running
