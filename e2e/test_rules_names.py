"""Names that the library rejects, on the real components."""

from __future__ import annotations

import pytest

from e2e import inputs
from e2e.harness import Cluster, Object
from e2e.live import LiveService
from e2e.rejections import Change, assert_rejected


def make_service(nodes: int, length: int, replicas: int = 1) -> Object:
    """Return a service whose longest LeaderWorkerSet name has this length."""
    suffix = len(f"-role-{replicas - 1}")
    role = inputs.role("role", "worker", replicas, nodes, gpus=0)
    return inputs.service("s" * (length - suffix), role, gangPolicy={"mode": "Off"})


FIRST_LETTERS = "mnopqrstuvwx"
"""First letters of names. The appended revision hash has eight to ten characters, so one name in
three works although it is one character too long. Of this many names, some fail."""


@pytest.mark.verifies("LeaderWorkerSet names beyond 50 or 52 characters mostly get no pods")
@pytest.mark.parametrize(("nodes", "limit"), [(2, 50), (1, 52)])
def test_name_beyond_limit_gets_no_pods(
    cluster: Cluster, namespace: str, nodes: int, limit: int
) -> None:
    assert_rejected(make_service(nodes, limit + 1), "shorten the name")

    def copy_with_names(length: int) -> Change:
        def change(objects: list[Object]) -> list[Object]:
            (lws,) = (manifest for manifest in objects if manifest["kind"] == "LeaderWorkerSet")
            suffix = lws["metadata"]["name"][-(length - 1) :]
            names = [letter + suffix.rjust(length - 1, "s") for letter in FIRST_LETTERS]
            assert {len(name) for name in names} == {length}
            return [{**lws, "metadata": {**lws["metadata"], "name": name}} for name in names]

        return change

    service = LiveService(cluster, namespace, make_service(nodes, limit))
    service.apply(change=copy_with_names(limit))
    cluster.wait(lambda: len(service.pods()) == nodes * len(FIRST_LETTERS), 60, service.read_uids)

    LiveService(cluster, namespace, service.manifest).apply(change=copy_with_names(limit + 1))
    events = cluster.wait(
        lambda: [
            event["message"]
            for event in cluster.list("v1/Event", namespace)
            if event["reason"] == "FailedCreate"
        ],
        60,
        lambda: [e["message"] for e in cluster.list("v1/Event", namespace)],
    )
    assert "must be no more than 63" in events[0]


@pytest.mark.verifies("Roles `decode` and `decode-1` of several nodes share a StatefulSet name")
def test_shared_stateful_set_name_loses_pods(cluster: Cluster, namespace: str) -> None:
    def make_roles(name: str) -> list[Object]:
        return [
            inputs.role("decode", "worker", 2, 2, gpus=0),
            inputs.role(name, "worker", 1, 2, gpus=0),
        ]

    assert_rejected(
        inputs.service("svc", *make_roles("decode-1")), "would also belong to role decode"
    )
    service = LiveService(cluster, namespace, inputs.service("svc", *make_roles("decode-x")))

    def collide(objects: list[Object]) -> list[Object]:
        return [
            {**manifest, "metadata": {**manifest["metadata"], "name": "svc-decode-1-0"}}
            if manifest["metadata"]["name"] == "svc-decode-x-0"
            else manifest
            for manifest in objects
        ]

    service.apply(change=collide)
    cluster.wait(lambda: len(service.pods()) >= 4, message=service.pods)
    cluster.wait_scheduling_cycles(15)
    assert len(service.pods()) < service.plan.total_pods, sorted(service.read_uids())


@pytest.mark.verifies(
    "A service with an equal LeaderWorkerSet name takes over the LeaderWorkerSet of the first one"
)
def test_equal_lws_names_take_over_pods(cluster: Cluster, namespace: str) -> None:
    first = inputs.service("a", inputs.role("b-c", "worker", gpus=0))
    second = inputs.service("a-b", inputs.role("c", "worker", gpus=0))
    owner = LiveService(cluster, namespace, first)
    owner.apply()
    cluster.wait(owner.pods)
    LiveService(cluster, namespace, second).apply()
    cluster.wait(lambda: not owner.pods(), message=owner.pods)
