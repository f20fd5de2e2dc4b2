"""Services converted from other systems' manifests, on the real schedulers."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster
from e2e.live import get_task
from fusioninfer_pulumi.checks.plan_service import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MANIFESTS = {**DOCUMENTS, **acceptable(), "edited presets": edited()}


@pytest.mark.verifies(
    "Pods of Kthena's, KServe's and Modelplane's documented manifests are scheduled"
)
@pytest.mark.parametrize("name", MANIFESTS)
def test_documented_manifests_are_scheduled(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.add_nodes(6)
    (args,) = load(MANIFESTS[name], allow_lossy=True)
    plan = plan_service(args)
    objects = [item for item in render(plan) if item["kind"] != "Deployment"]
    cluster.apply(inputs.with_namespace(objects, namespace))

    def bound() -> list[str]:
        return [get_task(pod) for pod in cluster.bound_pods(namespace)]

    cluster.wait(lambda: len(bound()) == plan.total_pods, 120, bound)
