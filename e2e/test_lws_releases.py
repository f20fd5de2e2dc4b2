"""Supported LeaderWorkerSet releases."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e import inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS as MANAGER, VOLCANO, ApiError, Cluster, Object
from e2e.live import LiveService, wait_for_images

pytestmark = pytest.mark.long

TIMEOUT = 120.0
FIRST_IMAGE, LATEST = "registry.example.com/engine:1", "lws-0.9"
SECOND_IMAGE = "registry.example.com/engine:2"


@pytest.fixture(scope="module", params=["lws-0.7", "lws-0.8", LATEST])
def release(request: pytest.FixtureRequest) -> str:
    if not tool(request.param).is_built:
        pytest.skip(f"not built: python -m e2e.build_tools --only {request.param}")
    return str(request.param)


@pytest.fixture(scope="module")
def installed(release: str) -> Iterator[Cluster]:
    with Cluster({MANAGER, KUBE_SCHEDULER, VOLCANO, KWOK}, lws=release) as cluster:
        cluster.add_nodes(12, 8)
        yield cluster


def wait_for_pods(cluster: Cluster, namespace: str, images: dict[str, str], pods: int) -> None:
    """Wait until only these LeaderWorkerSets exist and run this many pods with their images."""
    wait_for_images(cluster, namespace, images)
    cluster.wait(lambda: len(cluster.pods(namespace)) == pods, TIMEOUT)


def with_image(service: Object, image: str) -> Object:
    changed = copy.deepcopy(service)
    for role in changed["spec"]["roles"]:
        role["template"]["spec"]["containers"][0]["image"] = image
    return changed


@pytest.mark.verifies(
    "LeaderWorkerSet 0.7, 0.8 and 0.9: services with a common `restartPolicy` work"
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_common_restart_policy_works_with_all_releases(installed: Cluster, nodes: int) -> None:
    namespace = installed.new_namespace()
    policy: Object = {"restartPolicy": "RecreateGroupOnPodRestart"} if nodes > 1 else {}
    service = inputs.service(
        "svc", inputs.role("inference", "worker", 2, nodes, **policy), gangPolicy={"mode": "Off"}
    )
    names = [f"svc-inference-{index}" for index in range(3)]
    live = LiveService(installed, namespace, service)
    live.apply()
    wait_for_pods(installed, namespace, dict.fromkeys(names[:2], FIRST_IMAGE), 2 * nodes)
    service = with_image(service, SECOND_IMAGE)
    live.apply(service)
    wait_for_pods(installed, namespace, dict.fromkeys(names[:2], SECOND_IMAGE), 2 * nodes)
    service["spec"]["roles"][0]["replicas"] = 3
    live.apply(service)
    wait_for_pods(installed, namespace, dict.fromkeys(names, SECOND_IMAGE), 3 * nodes)
    service["spec"]["roles"][0]["replicas"] = 1
    live.apply(service)
    wait_for_pods(installed, namespace, {names[0]: SECOND_IMAGE}, nodes)
    installed.delete_namespace(namespace)


@pytest.mark.verifies(
    "LeaderWorkerSet 0.7 and 0.8 reject RecreateGroupAfterStart and lack observedGeneration"
)
def test_older_releases_lack_features(installed: Cluster, release: str) -> None:
    namespace = installed.new_namespace()
    several = inputs.service("several", inputs.role("inference", "worker", 1, 2))
    several["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    single = inputs.service("svc", inputs.role("inference", "worker", 1))
    if release == LATEST:
        LiveService(installed, namespace, several).apply()
        wait_for_pods(installed, namespace, {"several-inference-0": FIRST_IMAGE}, 2)
    else:
        with pytest.raises(ApiError, match="RecreateGroupAfterStart"):
            LiveService(installed, namespace, several).apply()
        LiveService(installed, namespace, single).apply()
        wait_for_pods(installed, namespace, {"svc-inference-0": FIRST_IMAGE}, 1)
    (lws,) = installed.list("LeaderWorkerSet", namespace)
    assert ("observedGeneration" in lws["status"]) == (release == LATEST)
    installed.delete_namespace(namespace)
