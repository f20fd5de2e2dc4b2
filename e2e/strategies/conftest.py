"""Fleets that tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.harness import Cluster, Object
from e2e.routers import make_disaggregated
from e2e.strategies.fleet import Change, Fleet

REWRITES = "inference.networking.x-k8s.io/v1alpha2/InferenceModelRewrite"


@contextmanager
def deploy_fleet(cluster: Cluster, service: Change, pods: int) -> Iterator[Fleet]:
    nodes = {node["metadata"]["name"] for node in cluster.list("v1/Node")}
    namespace = cluster.new_namespace()
    with Fleet(cluster, namespace, service) as fleet:
        fleet.deploy("svc", pods=pods)
        yield fleet
    cluster.delete_namespace(namespace)
    cluster.remove_nodes({node["metadata"]["name"] for node in cluster.list("v1/Node")} - nodes)


@pytest.fixture(scope="package")
def shared(cluster: Cluster) -> Iterator[Fleet]:
    with deploy_fleet(cluster, _set_three_replicas, 3) as fleet:
        yield fleet


@pytest.fixture(scope="package")
def pairing(cluster: Cluster) -> Iterator[Fleet]:
    with deploy_fleet(cluster, _make_pairs, 6) as fleet:
        yield fleet


@pytest.fixture
def fleet(shared: Fleet) -> Iterator[Fleet]:
    """Return three idle pods without model rewrites."""
    shared.load()
    yield shared
    for rewrite in shared.cluster.list(REWRITES, shared.namespace):
        shared.cluster.delete(REWRITES, rewrite["metadata"]["name"], shared.namespace)


def _set_three_replicas(manifest: Object) -> Object:
    manifest["spec"]["roles"][1]["replicas"] = 3
    return manifest


def _make_pairs(manifest: Object) -> Object:
    (router, _) = manifest["spec"]["roles"]
    namespace = manifest["metadata"]["namespace"]
    three = {"replicas": 3}
    pairs = make_disaggregated(namespace, prefill=three, decode=three)
    pairs["spec"]["roles"][0] = router
    return pairs
