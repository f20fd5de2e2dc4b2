"""What works with releases of LeaderWorkerSet, and what their APIs reject."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e import inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, VOLCANO, ApiError, Cluster, Object
from e2e.harness import LWS as MANAGER
from e2e.live import await_images

pytestmark = pytest.mark.long

WAIT = 120.0
SECOND = "registry.example.com/engine:2"


LATEST = "lws-0.9"


@pytest.fixture(scope="module", params=["lws-0.7", "lws-0.8", LATEST])
def release(request: pytest.FixtureRequest) -> str:
    if not tool(request.param).is_built:
        pytest.skip(f"not built: python -m e2e.build_tools --only {request.param}")
    return str(request.param)


@pytest.fixture(scope="module")
def installed(release: str) -> Iterator[Cluster]:
    """A cluster with that release of LeaderWorkerSet, Kubernetes' own scheduler and Volcano's."""
    with Cluster({MANAGER, KUBE_SCHEDULER, VOLCANO, KWOK}, lws=release) as cluster:
        cluster.add_nodes(12, 8)
        yield cluster


def put(cluster: Cluster, namespace: str, service: Object) -> None:
    """Apply a service, and remove the sets that it has no more."""
    objects = inputs.objects_of(inputs.plan_of(service))
    cluster.apply(inputs.with_namespace(objects, namespace))
    names = {
        manifest["metadata"]["name"]
        for manifest in objects
        if manifest["kind"] == "LeaderWorkerSet"
    }
    for lws in cluster.list("LeaderWorkerSet", namespace):
        if lws["metadata"]["name"] not in names:
            cluster.delete("LeaderWorkerSet", lws["metadata"]["name"], namespace)


def serves(cluster: Cluster, namespace: str, images: dict[str, str], pods: int) -> None:
    """Wait until exactly these sets are available, with pods of these images alone."""
    await_images(cluster, namespace, images)
    cluster.wait(lambda: len(cluster.pods(namespace)) == pods, WAIT)


def with_image(service: Object, image: str) -> Object:
    changed = copy.deepcopy(service)
    for role in changed["spec"]["roles"]:
        role["template"]["spec"]["containers"][0]["image"] = image
    return changed


@pytest.mark.proves("LeaderWorkerSet 0.7, 0.8 and 0.9: services with a common `restartPolicy` work")
@pytest.mark.parametrize("nodes", [1, 2])
def test_common_restart_policy_works_with_all_releases(installed: Cluster, nodes: int) -> None:
    namespace = installed.new_namespace()
    policy: Object = {"restartPolicy": "RecreateGroupOnPodRestart"} if nodes > 1 else {}
    service = inputs.service(
        "svc",
        inputs.role("inference", "worker", 2, nodes, **policy),
        gangPolicy={"mode": "Off"},
    )
    first = "registry.example.com/engine:1"
    names = [f"svc-inference-{index}" for index in range(3)]
    put(installed, namespace, service)
    serves(installed, namespace, dict.fromkeys(names[:2], first), 2 * nodes)
    service = with_image(service, SECOND)
    put(installed, namespace, service)
    serves(installed, namespace, dict.fromkeys(names[:2], SECOND), 2 * nodes)
    service["spec"]["roles"][0]["replicas"] = 3
    put(installed, namespace, service)
    serves(installed, namespace, dict.fromkeys(names, SECOND), 3 * nodes)
    service["spec"]["roles"][0]["replicas"] = 1
    put(installed, namespace, service)
    serves(installed, namespace, {names[0]: SECOND}, nodes)
    installed.delete_namespace(namespace)


@pytest.mark.proves(
    "LeaderWorkerSet 0.7 and 0.8 reject RecreateGroupAfterStart and lack observedGeneration"
)
def test_older_releases_lack_features(installed: Cluster, release: str) -> None:
    namespace = installed.new_namespace()
    first = "registry.example.com/engine:1"
    several = inputs.service("several", inputs.role("inference", "worker", 1, 2))
    several["spec"]["schedulingStrategy"] = {"gangPolicy": {"mode": "Off"}}
    single = inputs.service("svc", inputs.role("inference", "worker", 1))
    if release == LATEST:
        put(installed, namespace, several)
        serves(installed, namespace, {"several-inference-0": first}, 2)
    else:
        with pytest.raises(ApiError, match="RecreateGroupAfterStart"):
            put(installed, namespace, several)
        put(installed, namespace, single)
        serves(installed, namespace, {"svc-inference-0": first}, 1)
    (lws,) = installed.list("LeaderWorkerSet", namespace)
    assert ("observedGeneration" in lws["status"]) == (release == LATEST)
    installed.delete_namespace(namespace)
