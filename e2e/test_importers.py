"""Services that were read from other systems' manifests, on the real API server and scheduler."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.live import task_of
from e2e.test_manifests import assert_accepted, room
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.loading import load
from fusioninfer_pulumi.plan.service_objects import render
from importers.tests.documents import DOCUMENTS
from importers.tests.kserve_documents import acceptable, edited

__all__ = ["room"]

ACCELERATORS = 8
PAGE = {**acceptable(), "edited presets and a route of its own": edited()}
"""What the page about KServe's LLMInferenceService shows, and what else users write."""


def objects_of(name: str) -> list[Object]:
    (args,) = load(DOCUMENTS[name], allow_lossy=True)
    return list(render(plan_service(args)))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("Kthena's and Modelplane's documented manifests are accepted unchanged")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_inputs_are_accepted(cluster: Cluster, room: str, name: str) -> None:
    assert_accepted(cluster, objects_of(name), room)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("Pods of Kthena's and Modelplane's documented manifests are scheduled")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_inputs_are_scheduled(cluster: Cluster, namespace: str, name: str) -> None:
    (args,) = load(DOCUMENTS[name], allow_lossy=True)
    plan = plan_service(args)
    cluster.add_nodes(plan.total_pods // ACCELERATORS + 1, ACCELERATORS)
    objects = [each for each in objects_of(name) if each["kind"] != "Deployment"]
    cluster.apply(inputs.with_namespace(objects, namespace))

    def bound() -> list[str]:
        return [task_of(pod) for pod in cluster.bound(namespace)]

    cluster.wait(lambda: len(bound()) == plan.total_pods, 120, bound)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("KServe's documented manifests are accepted unchanged and scheduled")
@pytest.mark.parametrize("name", PAGE)
def test_kserves_page_is_accepted_and_scheduled(
    cluster: Cluster, namespace: str, room: str, name: str
) -> None:
    (args,) = load(PAGE[name])
    plan = plan_service(args)
    objects = list(render(plan))
    assert_accepted(cluster, objects, room)
    cluster.add_nodes(1, ACCELERATORS)
    pods = [manifest for manifest in objects if manifest["kind"] != "Deployment"]
    cluster.apply(inputs.with_namespace(pods, namespace))
    cluster.wait(lambda: len(cluster.bound(namespace)) == plan.total_pods, 60)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.proves("The Kthena article's sample needs capacity for four pods")
@pytest.mark.parametrize(("free", "running"), [(4, 4), (3, 0)])
def test_the_articles_gang_starts_with_its_minimum(
    cluster: Cluster, namespace: str, free: int, running: int
) -> None:
    cluster.add_nodes(free, 1)
    objects = objects_of("kthena-model-serving-sample")
    cluster.apply(inputs.with_namespace(objects, namespace))
    cluster.wait(lambda: len(cluster.pods(namespace)) == 8, 120)
    cluster.wait(lambda: len(cluster.bound(namespace)) == running, 60)
    cluster.settle(5)
    assert len(cluster.bound(namespace)) == running
