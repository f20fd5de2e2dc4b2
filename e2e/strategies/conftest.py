"""One fleet for all tests that need nothing but three single-node replicas."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.harness import Cluster, Object
from e2e.routers import disaggregated
from e2e.strategies.fleet import Fleet

REWRITES = "inference.networking.x-k8s.io/v1alpha2/InferenceModelRewrite"


@pytest.fixture(scope="package")
def shared(cluster: Cluster) -> Iterator[Fleet]:
    nodes = {node["metadata"]["name"] for node in cluster.list("v1/Node")}
    namespace = cluster.new_namespace()
    with Fleet(cluster, namespace, _three) as fleet:
        fleet.deploy("svc", pods=3)
        yield fleet
    cluster.delete_namespace(namespace)
    cluster.remove_nodes({node["metadata"]["name"] for node in cluster.list("v1/Node")} - nodes)


@pytest.fixture(scope="package")
def pairing(cluster: Cluster) -> Iterator[Fleet]:
    """Three prefill and three decode pods of a service."""
    nodes = {node["metadata"]["name"] for node in cluster.list("v1/Node")}
    namespace = cluster.new_namespace()
    with Fleet(cluster, namespace, _pairs) as fleet:
        fleet.deploy("svc", pods=6)
        yield fleet
    cluster.delete_namespace(namespace)
    cluster.remove_nodes({node["metadata"]["name"] for node in cluster.list("v1/Node")} - nodes)


@pytest.fixture
def fleet(shared: Fleet) -> Iterator[Fleet]:
    """The same three pods, with nothing to do and under the names that they serve."""
    shared.load()
    yield shared
    for rewrite in shared.cluster.list(REWRITES, shared.namespace):
        shared.cluster.delete(REWRITES, rewrite["metadata"]["name"], shared.namespace)


def _three(manifest: Object) -> Object:
    manifest["spec"]["roles"][1]["replicas"] = 3
    return manifest


def _pairs(manifest: Object) -> Object:
    (router, _) = manifest["spec"]["roles"]
    namespace = manifest["metadata"]["namespace"]
    three = {"replicas": 3}
    pairs = disaggregated(namespace, prefill=three, decode=three)
    pairs["spec"]["roles"][0] = router
    return pairs
