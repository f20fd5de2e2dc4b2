"""Gangs of Kubernetes (backend Native) on kube-scheduler."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e import inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS, Cluster, Object
from e2e.harness.resources import read_objects
from e2e.live import TIMEOUT, LiveService
from fusioninfer_pulumi.checks.cluster_checks import list_prerequisites
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.component.diagnosis import explain_gang, read_service
from fusioninfer_pulumi.component.status import explain_blocked_gang, find_unaccepted
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.plan.service_plan import compute_capacity_for_gpus

pytestmark = pytest.mark.long

KUBERNETES = "kubernetes-1.37"
POD_GROUP = "scheduling.k8s.io/v1beta1/PodGroup"
CASE = "e2e.fusioninfer.io/case"
GPUS = (80, 64, 48, 32, 16)
FULL = {"prefill-0": 2, "decode-0": 4, "decode-1": 4}
NOTHING = dict.fromkeys(FULL, 0)
LAYOUTS = pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])


@pytest.fixture(scope="module")
def gangs() -> Iterator[Cluster]:
    with create_cluster() as cluster:
        yield cluster


def create_cluster() -> Cluster:
    if not tool(KUBERNETES).is_built:
        pytest.skip(f"Kubernetes 1.37 is not built: python -m e2e.build_tools --only {KUBERNETES}")
    gates = {"GenericWorkload": True}
    return Cluster({LWS, KUBE_SCHEDULER, KWOK}, kubernetes=KUBERNETES, gates=gates)


def make_native(service: Object, **spec: Any) -> Object:
    strategy = {"gangPolicy": {"backend": "Native"}}
    return {**service, "spec": {**service["spec"], "schedulingStrategy": strategy, **spec}}


class NativeService(LiveService):
    """A service with a separate namespace and nodes."""

    def __init__(self, cluster: Cluster, **spec: Any) -> None:
        self.case = cluster.new_namespace()
        super().__init__(cluster, self.case, self.make_manifest(**spec))

    def make_manifest(
        self, decode: int = 2, image: str = "registry.example.com/engine:1", **spec: Any
    ) -> Object:
        service = copy.deepcopy(inputs.prefill_decode(decode=decode))
        for role in service["spec"]["roles"]:
            pod = role["template"]["spec"]
            pod["nodeSelector"] = {CASE: self.case}
            pod["containers"][0]["image"] = image
        return make_native(service, **spec)

    def add_nodes(self, count: int) -> list[str]:
        return self.cluster.add_nodes(count, labels={CASE: self.case})

    def pod_group(self) -> Object | None:
        """Return the live PodGroup of Kubernetes, not Volcano's."""
        return self._read(POD_GROUP, "svc")

    def assert_stays_bound(self, wanted: Mapping[str, int]) -> None:
        """Assert that this many pods are bound after the scheduler has bound other pods."""
        for _ in range(3):
            (pod,) = read_objects("pod without a gang", namespace=self.namespace)
            marker = self.cluster.create(pod)["metadata"]["name"]
            self.cluster.wait(
                lambda: self._read("v1/Pod", marker)["spec"].get("nodeName"),  # type: ignore[index]  # noqa: B023  # waited for
                TIMEOUT,
                "a pod without a gang",
            )
            self.cluster.delete("v1/Pod", marker, self.namespace, now=True)
        bound = self.count_bound()
        assert bound == wanted, f"bound {bound}, wanted {dict(wanted)}"

    def wait_blocked(self) -> None:
        self.cluster.wait(lambda: explain_blocked_gang(self.pod_group()), TIMEOUT, self.pod_group)


def start_service(cluster: Cluster, nodes: int = 10, **spec: Any) -> NativeService:
    service = NativeService(cluster, **spec)
    service.add_nodes(nodes)
    service.apply()
    service.wait_bound(FULL)
    return service


@pytest.mark.verifies("kube-scheduler starts what the plan says for Native gangs, in both layouts")
@LAYOUTS
def test_native_gang_starts_as_planned(gangs: Cluster, layout: str) -> None:
    table = {}
    for gpus in GPUS:
        service = NativeService(gangs, layout=layout)
        (model,) = compute_capacity_for_gpus(service.plan, [gpus])
        service.add_nodes(gpus // 8)
        service.apply()
        fits = model.running == {"prefill": 1, "decode": 2}
        assert model.exact
        assert fits or not any(model.running.values())
        if not fits:
            service.wait_blocked()
        service.wait_bound(FULL if fits else NOTHING)
        table[gpus] = fits
        if not fits:
            service.add_nodes((80 - gpus) // 8)
            service.wait_bound(FULL)
        service.delete()
    assert table == {80: True, 64: False, 48: False, 32: False, 16: False}


@pytest.mark.verifies("An unschedulable Native gang gives its reason in status, waits and failures")
def test_unschedulable_gang_gives_its_reason(gangs: Cluster) -> None:
    service = NativeService(gangs, wait={"level": "Scheduled"})
    service.add_nodes(9)
    service.apply()
    service.wait_blocked()
    group = service.pod_group()
    assert group is not None
    reason = explain_blocked_gang(group)
    active = service.status()["conditions"][1]
    assert (active["reason"], active["message"]) == ("GangNotScheduled", reason)
    assert find_unaccepted(service.plan, [group], {"svc": group}) == f"PodGroup svc: {reason}"
    seen = read_service(KubernetesApi(str(gangs.kubeconfig), None), service.namespace, "svc")
    lines = explain_gang(seen)
    assert f"PodGroup svc: {reason}" in lines
    assert not seen.unread


@pytest.mark.verifies("Native gang: LeaderReady deadlocks")
@pytest.mark.parametrize("setting", ["startupPolicy", "exclusive-topology"])
def test_late_workers_deadlock_native_gang(gangs: Cluster, setting: str) -> None:
    service = NativeService(gangs)
    service.add_nodes(10)

    def delay_workers(objects: list[Object]) -> list[Object]:
        changed = copy.deepcopy(objects)
        for lws in (item for item in changed if item["kind"] == "LeaderWorkerSet"):
            if setting == "startupPolicy":
                lws["spec"]["startupPolicy"] = "LeaderReady"
            else:
                key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
                lws["metadata"].setdefault("annotations", {})[key] = CASE
        return changed

    service.apply(change=delay_workers)
    gangs.wait(lambda: len(service.pods()) == 3, TIMEOUT, service.count_bound)
    service.assert_stays_bound({"prefill-0": 0, "decode-0": 0, "decode-1": 0})
    assert len(service.pods()) == 3


@pytest.mark.verifies("Native gang: each serving group starts as a whole")
def test_each_serving_group_starts_as_a_whole(gangs: Cluster) -> None:
    service = NativeService(gangs, groups=2)
    plan = service.plan
    assert plan.total_pods == 20
    (model,) = compute_capacity_for_gpus(plan, [120])
    service.add_nodes(15)
    service.apply()

    def bound() -> list[int]:
        counts = Counter({"0": 0, "1": 0})
        index = "fusioninfer.io/group-index"
        counts.update(
            pod["metadata"]["labels"][index]
            for pod in service.pods()
            if pod["spec"].get("nodeName")
        )
        return sorted(counts.values())

    gangs.wait(lambda: bound() == [0, 10], TIMEOUT, bound)
    assert (model.running, model.groups, model.exact) == ({"prefill": 1, "decode": 2}, 1, True)
    service.add_nodes(5)
    gangs.wait(lambda: bound() == [10, 10], TIMEOUT, bound)


@pytest.mark.verifies("ServingPrerequisites detects the Native API, but not the scheduler's gate")
def test_native_api_is_detected(gangs: Cluster) -> None:
    plan = inputs.build_plan(make_native(inputs.prefill_decode()))
    live = LiveCluster(KubernetesApi(str(gangs.kubeconfig), None), [plan])
    (gate,) = [text for text in map(str, list_prerequisites(live)) if "Kubernetes gangs" in text]
    assert gate.startswith("warning: ")
    assert "also need the feature gate GenericWorkload in the scheduler" in gate
