"""Endpoint pickers with generated flags, configuration and permissions."""

from __future__ import annotations

import pytest
import urllib3

from e2e.harness import Cluster, Object
from e2e.harness.processes import LOOPBACK
from e2e.harness.resources import read_objects
from e2e.routers import IMAGES, make_picker, make_routed, render_objects

VERSIONS = pytest.mark.parametrize("version", sorted(IMAGES))


@pytest.mark.verifies("Several picker replicas elect a leader with the generated Role")
@VERSIONS
def test_several_replicas_elect_a_leader(cluster: Cluster, namespace: str, version: str) -> None:
    picker = {"image": IMAGES[version], "replicas": 2, "leaderElection": True}
    objects = render_objects(make_routed(namespace, endpointPicker=picker))
    _apply_for_picker(cluster, objects)
    with make_picker(cluster, version, objects) as running:
        running.wait_serving()
        leases = cluster.list("coordination.k8s.io/v1/Lease", namespace)
        assert [lease["metadata"]["name"].split(".")[0] for lease in leases] == [
            f"epp-{namespace}-svc-pool"
        ]


@pytest.mark.verifies("Picker metrics are off, authenticated or open, as configured")
@VERSIONS
def test_picker_metrics_need_permission(cluster: Cluster, namespace: str, version: str) -> None:
    reader = read_objects("reader of metrics", namespace=namespace)
    for mode, codes in (("Off", {403, 500}), ("Authenticated", {200}), ("Unauthenticated", {200})):
        picker = {"image": IMAGES[version], "metrics": mode}
        objects = render_objects(make_routed(namespace, endpointPicker=picker))
        _apply_for_picker(cluster, [*objects, *reader])
        with make_picker(cluster, version, objects) as running:
            running.wait_serving()
            token = cluster.token_for(namespace, "scraper")
            answers = {
                "scraper": _get_metrics_status(running.metrics_port, token),
                "stranger": _get_metrics_status(running.metrics_port, None),
            }
        assert answers["scraper"] in codes, f"{mode}: {answers}"
        assert (answers["stranger"] == 200) == (mode == "Unauthenticated"), f"{mode}: {answers}"
    cluster.delete(
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding", f"fusioninfer:{namespace}:svc-epp"
    )
    for manifest in reader[1:]:
        cluster.delete(f"{manifest['apiVersion']}/{manifest['kind']}", manifest["metadata"]["name"])


def _apply_for_picker(cluster: Cluster, objects: list[Object]) -> None:
    kinds = ("ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding", "ClusterRole")
    cluster.apply(
        [manifest for manifest in objects if manifest["kind"] in (*kinds, "InferencePool")]
    )


def _get_metrics_status(port: int, token: str | None) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib3.PoolManager(retries=False, timeout=5) as pool:
        return pool.request("GET", f"http://{LOOPBACK}:{port}/metrics", headers=headers).status
