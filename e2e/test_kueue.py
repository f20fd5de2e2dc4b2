"""Services in Kueue's queues."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import checks, inputs
from e2e.catalog import tool
from e2e.harness import KUBE_SCHEDULER, KUEUE, KWOK, LWS, Cluster, Object
from e2e.harness.resources import read_objects
from e2e.live import wait_for_images
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.quota_checks import check_kueue_quotas
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.plan.service_plan import ServicePlan, compute_capacity_for_gpus

pytestmark = pytest.mark.long

CASE = "e2e.fusioninfer.io/case"
GPU = "nvidia.com/gpu"
QUEUE = "team"
WORKLOAD = "kueue.x-k8s.io/v1beta2/Workload"
TIMEOUT = 120.0
GPUS = (80, 64, 48, 32, 16)
IMAGE = "registry.example.com/engine:1"


@pytest.fixture(scope="module")
def kueue() -> Iterator[Cluster]:
    if not tool("kueue").is_built:
        pytest.skip("Kueue is not built: python -m e2e.build_tools --only kueue")
    with Cluster({LWS, KUBE_SCHEDULER, KWOK, KUEUE}) as cluster:
        yield cluster


def with_queue(service: Object, **spec: Any) -> Object:
    changed = copy.deepcopy(service)
    strategy = {"queue": QUEUE, "gangPolicy": {"backend": "Kueue"}}
    changed["spec"] |= {"schedulingStrategy": strategy, **spec}
    return changed


def open_queue(cluster: Cluster, namespace: str, gpus: int, flavor: str | None = None) -> None:
    """Add nodes of eight accelerators, a ClusterQueue with quota for them, and a LocalQueue."""
    flavor = flavor or namespace
    cluster.add_nodes(gpus // 8, 8, labels={CASE: flavor})
    queue = {"namespace": namespace, "flavor": flavor, "gpus": str(gpus), "queue": QUEUE}
    cluster.apply(read_objects("Kueue queue", **queue))


def apply_service(cluster: Cluster, namespace: str, service: Object) -> ServicePlan:
    plan = inputs.build_plan(service)
    cluster.apply(inputs.with_namespace(inputs.render_objects(plan), namespace))
    return plan


def read_quota_status(workload: Object) -> str | None:
    """Return the status of a Workload's quota, `True` or `False`; None before Kueue's decision."""
    for condition in workload.get("status", {}).get("conditions") or ():
        # The status is also False while the queue does not exist.
        if condition["type"] == "QuotaReserved" and (
            condition["status"] == "True" or "insufficient" in condition["message"]
        ):
            return str(condition["status"])
    return None


def count_running(cluster: Cluster, namespace: str, plan: ServicePlan) -> dict[str, int]:
    """Return running replicas by role, after Kueue has tried to admit all of them."""

    def have_decisions() -> bool:
        statuses = [read_quota_status(workload) for workload in cluster.list(WORKLOAD, namespace)]
        replicas = sum(len(role.replicas) for role in plan.roles)
        return len(statuses) == replicas and None not in statuses

    cluster.wait(have_decisions, TIMEOUT, lambda: str(cluster.list(WORKLOAD, namespace)))
    sizes = {replica.name: role.nodes for role in plan.roles for replica in role.replicas}

    def are_complete() -> bool:
        bound = Counter(checks.get_replica(pod) for pod in cluster.bound_pods(namespace))
        admitted = sum(
            pod_set["count"]
            for workload in cluster.list(WORKLOAD, namespace)
            if read_quota_status(workload) == "True"
            for pod_set in workload["spec"]["podSets"]
        )
        return sum(bound.values()) == admitted and all(
            count == sizes[name] for name, count in bound.items()
        )

    cluster.wait(are_complete, TIMEOUT, lambda: str(len(cluster.bound_pods(namespace))))
    bound = {checks.get_replica(pod) for pod in cluster.bound_pods(namespace)}
    return {
        role.name: sum(replica.name in bound for replica in role.replicas) for role in plan.roles
    }


@pytest.mark.verifies("Kueue admits what the plan says at 16 to 80 GPUs, in both layouts")
@pytest.mark.parametrize("layout", ["PerReplica", "PerRole"])
def test_kueue_admits_as_planned(kueue: Cluster, layout: str) -> None:
    service = with_queue(inputs.prefill_decode(), layout=layout)
    plan = inputs.build_plan(service)
    table = {}
    for gpus, model in zip(GPUS, compute_capacity_for_gpus(plan, GPUS), strict=True):
        namespace = kueue.new_namespace()
        apply_service(kueue, namespace, service)
        kueue.wait(
            lambda: len(kueue.pods(namespace)) == plan.total_pods,  # noqa: B023  # waited for
            TIMEOUT,
            "the pods",
        )
        # Created last, so that all replicas exist when the first is admitted.
        open_queue(kueue, namespace, gpus)
        replicas = count_running(kueue, namespace, plan)
        table[gpus] = (replicas["prefill"], replicas["decode"])
        if model.exact:
            assert replicas == model.running, gpus
        assert all(replicas[role] <= count for role, count in model.running.items()), gpus
    assert [table[gpus] for gpus in (80, 48, 16)] == [(1, 2), (1, 1), (1, 0)]
    # Kueue admits each replica separately, so the result depends on the order.
    assert table[64] in [(1, 1), (0, 2)]
    assert table[32] in [(1, 0), (0, 1)]


@pytest.mark.verifies("`plan --cluster` agrees with Kueue on quota and inactive queues")
def test_plan_agrees_with_kueue_quotas(kueue: Cluster) -> None:
    namespace = kueue.new_namespace()
    lender = kueue.new_namespace()
    service = with_queue(inputs.service("svc", inputs.role("serve", "worker", 6, 2, gpus=4)))
    service["metadata"]["namespace"] = namespace
    plan = inputs.build_plan(service)

    def read_messages() -> list[str]:
        api = KubernetesApi(str(kueue.kubeconfig), None)
        findings = [finding for _, finding in check_kueue_quotas(LiveCluster(api, [plan]))]
        assert not api.unread
        return [finding.message for finding in findings]

    def edit_cluster_queue(name: str, **spec: Any) -> None:
        stored = kueue.get("ClusterQueue", name)
        clean = {key: stored[key] for key in ("apiVersion", "kind")}
        metadata = {"name": name}
        kueue.apply([{**clean, "metadata": metadata, "spec": {**stored["spec"], **spec}}])

    open_queue(kueue, namespace, 16)
    open_queue(kueue, lender, 32, flavor=namespace)
    text = f"ClusterQueue {namespace} allows 16 {GPU}, but svc requests 48: "
    text += "replicas above the quota wait"
    # The queue is inactive until Kueue has seen its ClusterQueue.
    kueue.wait(lambda: read_messages() == [text], TIMEOUT, read_messages)
    apply_service(kueue, namespace, service)
    # 16 accelerators are enough for two of six replicas.
    assert count_running(kueue, namespace, plan) == {"serve": 2}
    edit_cluster_queue(namespace, cohortName=namespace)
    edit_cluster_queue(lender, cohortName=namespace)
    # A ClusterQueue in a cohort can borrow quota.
    kueue.wait(lambda: read_messages() == [], TIMEOUT, read_messages)

    other = kueue.new_namespace()
    cpus = inputs.service("cpus", inputs.role("serve", "worker", 1, 2, gpus=4))
    container = cpus["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    container["resources"]["requests"] = {"cpu": "1"}
    cpus["metadata"]["namespace"] = other
    plan = inputs.build_plan(with_queue(cpus))
    open_queue(kueue, other, 16)
    missing = (
        f"ClusterQueue {other} has no quota for cpu, but cpus requests it: "
        "Kueue admits none of these replicas"
    )
    kueue.wait(lambda: read_messages() == [missing], TIMEOUT, read_messages)
    apply_service(kueue, other, with_queue(cpus))

    def is_rejected() -> bool:
        return any(
            "resource cpu unavailable in ClusterQueue" in condition["message"]
            for workload in kueue.list(WORKLOAD, other)
            for condition in workload.get("status", {}).get("conditions") or ()
        )

    kueue.wait(is_rejected, TIMEOUT, lambda: str(kueue.list(WORKLOAD, other)))

    edit_cluster_queue(other, stopPolicy="Hold")
    kueue.wait(lambda: len(read_messages()) == 2, TIMEOUT, read_messages)
    assert read_messages()[0].startswith(f"LocalQueue {QUEUE} in {other} is not active: ")


@pytest.mark.verifies("Pods whose template has Kueue's queue label never start; imports omit it")
def test_pods_with_queue_label_never_start(kueue: Cluster) -> None:
    label = "kueue.x-k8s.io/queue-name"
    namespace = kueue.new_namespace()
    open_queue(kueue, namespace, 32)
    service = with_queue(inputs.service("svc", inputs.role("inference", "worker", 1, 2)))
    objects = inputs.with_namespace(inputs.render_objects(inputs.build_plan(service)), namespace)
    (lws,) = (manifest for manifest in objects if manifest["kind"] == "LeaderWorkerSet")
    for key in ("leaderTemplate", "workerTemplate"):
        lws["spec"]["leaderWorkerTemplate"][key]["metadata"]["labels"][label] = QUEUE
    kueue.apply(objects)
    (kserve,) = read_objects("LLMInferenceService with a queue label", queue=QUEUE, image=IMAGE)
    apply_service(kueue, namespace, kserve)
    wait_for_images(kueue, namespace, {"llm-main-0": IMAGE}, ignored={"svc-inference-0"})
    kueue.wait(
        lambda: all(
            read_quota_status(workload) == "True" for workload in kueue.list(WORKLOAD, namespace)
        ),
        TIMEOUT,
        "the quota of both",
    )
    pods = [pod for pod in kueue.pods(namespace) if checks.get_replica(pod) == "svc-inference-0"]
    assert len(pods) == 2
    for pod in pods:
        assert "kueue.x-k8s.io/admission" in {g["name"] for g in pod["spec"]["schedulingGates"]}
        # Kueue ignores the pod until it sets this label.
        assert "kueue.x-k8s.io/pod-group-name" not in pod["metadata"]["labels"]
