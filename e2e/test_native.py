"""What Kubernetes' own scheduler does with gangs of its own is what the library says."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from e2e import inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KWOK, LWS, ApiError, Cluster, Object, components
from e2e.live import PATIENCE, LiveService, task_of
from fusioninfer_pulumi.checks.prerequisite_checks import Prerequisites
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
    """Kubernetes 1.37 with its own gangs switched on, without Volcano."""
    with opened() as cluster:
        yield cluster


def opened() -> Cluster:
    if not tool(KUBERNETES).is_built:
        pytest.skip(f"Kubernetes 1.37 is not built: python -m e2e.build_tools --only {KUBERNETES}")
    gates = {"GenericWorkload": True}
    return Cluster({LWS, KUBE_SCHEDULER, KWOK}, kubernetes=KUBERNETES, gates=gates)


def native(service: Object, **spec: Any) -> Object:
    strategy = {"gangPolicy": {"backend": "Native"}}
    return {**service, "spec": {**service["spec"], "schedulingStrategy": strategy, **spec}}


class NativeService(LiveService):
    """A service in a namespace, and on nodes, of its own."""

    def __init__(self, cluster: Cluster, **spec: Any) -> None:
        self.case = cluster.new_namespace()
        super().__init__(cluster, self.case, self.changed(**spec))

    def changed(
        self,
        decode: int = 2,
        image: str = "registry.example.com/engine:1",
        **spec: Any,
    ) -> Object:
        """The service with other replicas, another image or other fields."""
        service = copy.deepcopy(inputs.prefill_decode(decode=decode))
        for role in service["spec"]["roles"]:
            pod = role["template"]["spec"]
            pod["nodeSelector"] = {CASE: self.case}
            pod["containers"][0]["image"] = image
        return native(service, **spec)

    def add_nodes(self, count: int) -> list[str]:
        """Nodes that nothing else uses."""
        return self.cluster.add_nodes(count, labels={CASE: self.case})

    def pod_group(self) -> Object | None:
        """The live PodGroup; there are two kinds of that name."""
        return self._read(POD_GROUP, "svc")

    def stays(self, wanted: Mapping[str, int]) -> None:
        """Demand that so many pods are bound after the scheduler has bound others, too."""
        for _ in range(3):
            marker = self.cluster.create(marker_pod(self.namespace))["metadata"]["name"]
            self.cluster.wait(
                lambda: self._read("v1/Pod", marker)["spec"].get("nodeName"),  # type: ignore[index]  # noqa: B023  # waited for
                PATIENCE,
                "a pod without a gang",
            )
            self.cluster.delete("v1/Pod", marker, self.namespace, now=True)
        found = self.bound()
        assert found == wanted, f"bound {found}, wanted {dict(wanted)}"

    def waits(self) -> None:
        """Wait until the scheduler says that the gang does not fit."""
        self.cluster.wait(lambda: explain_blocked_gang(self.pod_group()), PATIENCE, self.pod_group)


def marker_pod(namespace: str) -> Object:
    container = {"name": "main", "image": "registry.example.com/marker:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "marker-", "namespace": namespace},
        "spec": {"containers": [container], "nodeSelector": {CASE: namespace}},
    }


def started(cluster: Cluster, nodes: int = 10, **spec: Any) -> NativeService:
    service = NativeService(cluster, **spec)
    service.add_nodes(nodes)
    service.apply()
    service.becomes(FULL)
    return service


@pytest.mark.proves("kube-scheduler starts what the plan says for Native gangs, in both layouts")
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
            service.waits()
        service.becomes(FULL if fits else NOTHING)
        table[gpus] = fits
        if not fits:
            service.add_nodes((80 - gpus) // 8)
            service.becomes(FULL)
        service.delete()
    assert table == {80: True, 64: False, 48: False, 32: False, 16: False}


@LAYOUTS
@pytest.mark.proves("Native gang: after a lost node, restarting replicas wait until all fits")
def test_lost_replica_waits_until_whole_gang_fits(gangs: Cluster, layout: str) -> None:
    service = started(gangs, layout=layout)
    others = service.identities("prefill-0", "decode-0")
    lost = next(pod for pod in service.pods() if task_of(pod) == "decode-1")
    gangs.remove_nodes([str(lost["spec"]["nodeName"])])
    service.becomes({**FULL, "decode-1": 0})
    assert service.identities("prefill-0", "decode-0") == others

    leader = "svc-prefill-0-0" if layout == "PerReplica" else "svc-prefill-0"
    gangs.delete("v1/Pod", leader, service.namespace, now=True)
    service.becomes({"prefill-0": 0, "decode-0": 4, "decode-1": 0})

    service.add_nodes(1)
    service.becomes(FULL)
    assert service.identities("decode-0").items() <= others.items()


@pytest.mark.proves("Native gang: a raised minCount stops nothing that runs")
def test_raised_min_count_stops_nothing(gangs: Cluster) -> None:
    service = started(gangs)
    others = service.identities("decode-0", "decode-1")
    service.apply(service.changed(3))
    service.becomes({**FULL, "decode-2": 0})
    group = service.pod_group()
    assert group is not None
    assert group["spec"]["schedulingPolicy"]["gang"]["minCount"] == 14
    # It says so of the first time only.
    assert explain_blocked_gang(group) is None
    assert find_unaccepted(service.plan, [group], {"svc": group}) is None

    gangs.delete("v1/Pod", "svc-prefill-0-0", service.namespace, now=True)
    service.becomes({**FULL, "prefill-0": 0, "decode-2": 0})
    service.apply(service.changed())
    service.becomes(FULL)
    assert service.identities("decode-0", "decode-1") == others


@pytest.mark.proves("An unschedulable Native gang gives its reason in status, waits and failures")
def test_unschedulable_gang_gives_its_reason(gangs: Cluster) -> None:
    service = NativeService(gangs, wait={"level": "Scheduled"})
    service.add_nodes(9)
    service.apply()
    service.waits()
    group = service.pod_group()
    assert group is not None
    reason = explain_blocked_gang(group)
    active = service.status()["conditions"][1]
    assert (active["reason"], active["message"]) == ("GangNotScheduled", reason)
    assert find_unaccepted(service.plan, [group], {"svc": group}) == f"PodGroup svc: {reason}"
    seen = read_service(str(gangs.kubeconfig), None, service.namespace, "svc")
    lines = explain_gang(seen)
    assert f"PodGroup svc: {reason}" in lines
    assert not seen.unread


@pytest.mark.proves("Native gang: priorityClassName is immutable and must match the pods")
def test_priority_matches_pods_and_is_immutable(gangs: Cluster) -> None:
    for name in ("low", "high"):
        gangs.apply(
            [
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": 1000 if name == "high" else 10,
                }
            ]
        )
    service = NativeService(gangs)
    service.add_nodes(10)

    def of(name: str) -> Object:
        manifest = service.changed()
        manifest["spec"]["schedulingStrategy"]["priorityClassName"] = name
        return manifest

    def without_priority(objects: list[Object]) -> list[Object]:
        group, *others = copy.deepcopy(objects)
        del group["spec"]["priorityClassName"]
        return [group, *others]

    service.apply(of("low"), without_priority)
    service.waits()
    assert "priority" in (explain_blocked_gang(service.pod_group()) or "")
    service.stays(NOTHING)
    service.delete()
    gangs.wait(lambda: service.pod_group() is None, PATIENCE, service.pod_group)

    service.apply(of("low"))
    service.becomes(FULL)
    with pytest.raises(ApiError, match=r"priorityClassName.*immutable"):
        service.apply(of("high"))


@pytest.mark.proves("Native gang: LeaderReady deadlocks")
@pytest.mark.parametrize("way", ["startupPolicy", "exclusive-topology"])
def test_late_workers_deadlock_native_gang(gangs: Cluster, way: str) -> None:
    service = NativeService(gangs)
    service.add_nodes(10)

    def late(objects: list[Object]) -> list[Object]:
        changed = copy.deepcopy(objects)
        for lws in (each for each in changed if each["kind"] == "LeaderWorkerSet"):
            if way == "startupPolicy":
                lws["spec"]["startupPolicy"] = "LeaderReady"
            else:
                key = "leaderworkerset.sigs.k8s.io/exclusive-topology"
                lws["metadata"].setdefault("annotations", {})[key] = CASE
        return changed

    service.apply(change=late)
    gangs.wait(lambda: len(service.pods()) == 3, PATIENCE, service.bound)
    service.stays({"prefill-0": 0, "decode-0": 0, "decode-1": 0})
    assert len(service.pods()) == 3


@pytest.mark.proves("Native gang: each serving group starts as a whole")
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

    gangs.wait(lambda: bound() == [0, 10], PATIENCE, bound)
    assert (model.running, model.groups, model.exact) == ({"prefill": 1, "decode": 2}, 1, True)
    service.add_nodes(5)
    gangs.wait(lambda: bound() == [10, 10], PATIENCE, bound)


@pytest.mark.proves("Native gang: replicas above minCount are placed pod by pod")
def test_replicas_above_min_count_start_pod_by_pod(gangs: Cluster) -> None:
    service = started(gangs, nodes=12, layout="PerRole")
    scaled = {"spec": {"replicas": 3}}
    gangs.patch("LeaderWorkerSet", "svc-decode", scaled, service.namespace, subresource="scale")
    wanted = {**FULL, "decode-2": 2}
    gangs.wait(lambda: service.bound() == wanted, PATIENCE, service.bound)


@pytest.mark.proves("ServingPrerequisites detects the Native API, but not the scheduler's gate")
def test_native_api_is_detected(gangs: Cluster) -> None:
    plan = inputs.plan_of(native(inputs.prefill_decode()))
    checked = Prerequisites(KubernetesApi(str(gangs.kubeconfig), None), [plan])
    (gate,) = [text for text in map(str, checked.findings()) if "Gangs of Kubernetes" in text]
    assert gate.startswith("warning: ")
    assert "the feature gate GenericWorkload in the scheduler, too" in gate


@pytest.mark.proves("Without the scheduler's gate, Native pods start one by one")
def test_scheduler_without_gate_starts_pods_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    start = components.start_kube_scheduler
    monkeypatch.setattr(
        components,
        "start_kube_scheduler",
        lambda programs, plane: start(programs, replace(plane, gates={})),
    )
    with opened() as cluster:
        service = NativeService(cluster)
        service.add_nodes(5)
        service.apply()
        cluster.wait(
            lambda: sum(service.bound().values()) == 5 and len(service.pods()) == 10,
            PATIENCE,
            service.bound,
        )
