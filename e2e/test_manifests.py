"""The API server, with LWS's webhooks, takes every object as it was rendered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from e2e import checks, inputs
from e2e.harness import Cluster, Object
from tests.strategies import Manifest, services

RANDOM, RANDOM_LONG = 40, 200
COMMON = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def room(cluster: Cluster) -> Iterator[str]:
    """A namespace for objects that are never stored, and the PriorityClass that some name."""
    name = cluster.new_namespace()
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 10}
    cluster.apply([{**priority, "metadata": {"name": "high"}}])
    yield name
    cluster.delete("PriorityClass", "high")
    cluster.delete_namespace(name)


def pods_described_by(leader_worker_set: Object) -> Iterator[Object]:
    """The pods that LWS would make; the server checks templates far less than pods."""
    group = leader_worker_set["spec"]["leaderWorkerTemplate"]
    for key in ("leaderTemplate", "workerTemplate"):
        if key in group:
            template = group[key]
            metadata = {**template["metadata"], "name": leader_worker_set["metadata"]["name"]}
            yield {
                "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"],
            }  # fmt: skip


def assert_accepted(cluster: Cluster, objects: list[Object], namespace: str) -> None:
    for sent in inputs.with_namespace(objects, namespace):
        (stored,) = cluster.apply([sent], dry_run=True)
        checks.stored_is_what_was_sent(sent, stored)
        if sent["kind"] == "ServiceAccount":
            cluster.apply([sent])  # without it the server refuses the pods
        if sent["kind"] == "LeaderWorkerSet":
            for pod in pods_described_by(sent):
                cluster.create(pod, namespace=namespace, dry_run=True)


@pytest.mark.proves("Every manifest of the FusionInfer documents is accepted unchanged")
@pytest.mark.parametrize("name", inputs.DOCUMENTS)
def test_the_documents_inputs_are_accepted(cluster: Cluster, room: str, name: str) -> None:
    objects = inputs.objects_of(inputs.plan_of(inputs.DOCUMENTS[name]))
    assert_accepted(cluster, objects, room)


@pytest.mark.proves("Objects of every example program are accepted unchanged")
@pytest.mark.parametrize("name", inputs.EXAMPLES)
def test_the_examples_are_accepted(cluster: Cluster, room: str, name: str) -> None:
    assert_accepted(cluster, inputs.example_objects(name), room)


@pytest.mark.proves(f"{RANDOM} random valid services are accepted unchanged")
@settings(COMMON, max_examples=RANDOM)
@given(manifest=services(extras=True))
def test_random_services_are_accepted(cluster: Cluster, room: str, manifest: Manifest) -> None:
    assert_accepted(cluster, inputs.objects_of(inputs.plan_of(manifest)), room)


@pytest.mark.long
@pytest.mark.proves(f"{RANDOM_LONG} random valid services are accepted unchanged")
@settings(COMMON, max_examples=RANDOM_LONG)
@given(manifest=services(extras=True))
def test_many_random_services_are_accepted(cluster: Cluster, room: str, manifest: Manifest) -> None:
    assert_accepted(cluster, inputs.objects_of(inputs.plan_of(manifest)), room)


@pytest.mark.proves("Applying the same objects again changes nothing")
def test_applying_twice_changes_nothing(cluster: Cluster, namespace: str) -> None:
    story = inputs.plan_of(inputs.DOCUMENTS["fusioninfer-story-4-disaggregated-multinode"])
    objects = inputs.with_namespace(inputs.objects_of(story), namespace)

    def apply() -> list[tuple[str, int]]:
        stored = cluster.apply(objects)
        for sent, kept in zip(objects, stored, strict=True):
            checks.stored_is_what_was_sent(sent, kept)
        # Volcano writes a PodGroup's status as part of the object, which counts as a generation.
        lws = [kept for kept in stored if kept["kind"] != "PodGroup"]
        return [(k["metadata"]["name"], k["metadata"].get("generation", 0)) for k in lws]

    assert apply() == apply()
