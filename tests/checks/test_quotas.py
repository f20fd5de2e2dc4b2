"""Quotas of a cluster, compared with the services' requests."""

from __future__ import annotations

from typing import Any

import pytest
import samples
from clusters import FakeCluster, stored
from rows import each_row

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.cluster_checks import check_cluster
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.quota_checks import check_kueue_quotas, check_resource_quotas
from fusioninfer_pulumi.findings import Finding, Severity
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput

GPU = "nvidia.com/gpu"
HARD = f"requests.{GPU}"
QUEUED = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
BEYOND = ": pods above the quota are not created"


def plan(
    name: str,
    *,
    replicas: int = 2,
    gpus: Any = 4,
    namespace: Any = "prod",
    scheduling: Any = None,
    layout: str | None = None,
    **role: Any,
) -> Any:
    container = samples.container(gpus=gpus)
    serving = samples.role(replicas=replicas, template=samples.template(container), **role)
    spec = {"namespace": namespace, "roles": [serving], "schedulingStrategy": scheduling or {}}
    spec |= {} if layout is None else {"layout": layout}
    return plan_service(InferenceServiceArgs.model_validate(spec), name)


def queued(name: str, **more: Any) -> Any:
    return plan(name, scheduling=QUEUED, **more)


def resource_quota(hard: Any, used: Any = None, **spec: Any) -> Any:
    status = {"used": used} if used else {}
    spec = {"hard": hard, **spec}
    return stored("v1", "ResourceQuota", "gpus", "prod", spec=spec, status=status)


def pod(service: str, gpus: str, phase: str = "Running") -> Any:
    metadata = {"labels": {"fusioninfer.io/service": service}}
    spec = {"containers": [samples.container(gpus=gpus)]}
    fields = {"metadata": metadata, "spec": spec, "status": {"phase": phase}}
    return stored("v1", "Pod", service, "prod", **fields)


def check_quotas(api: FakeCluster, plans: Any) -> list[list[Finding]]:
    return check_cluster(LiveCluster(api, plans), [check_resource_quotas, check_kueue_quotas])[0]


def messages(plans: Any, *objects: Any, **cluster: Any) -> list[list[str]]:
    """Return the messages about each service."""
    results = check_quotas(FakeCluster(*objects, **cluster), plans)
    assert {item.severity for result in results for item in result} <= {Severity.WARNING}
    return [[finding.message for finding in result] for result in results]


def test_requests_of_services_in_a_namespace_are_added() -> None:
    plans = [
        plan("one"),
        plan("two", replicas=1, multinode={"nodeCount": 2}),
        plan("elsewhere", namespace="dev"),
        plan("cpu", gpus=None),
    ]
    assert messages(plans, resource_quota({HARD: "16"})) == [[], [], [], []]
    text = f"ResourceQuota gpus in prod allows 15 {GPU}, but one, two request 16{BEYOND}"
    assert messages(plans, resource_quota({HARD: "15"})) == [[], [text], [], []]


def test_only_pods_of_other_services_use_quota() -> None:
    used = {HARD: "12"}
    pods = [pod("one", "4"), pod("one", "4"), pod("one", "2", "Failed"), pod("two", "1")]
    assert messages([plan("one")], resource_quota({HARD: 12}, used), *pods) == [[]]
    ((text,),) = messages([plan("one")], resource_quota({HARD: 11}, used), *pods)
    assert text == (
        f"ResourceQuota gpus in prod allows 11 {GPU} (4 in use by others), but one requests "
        f"8{BEYOND}"
    )
    # Without permission to list pods, the owner of the used quota is unknown.
    quota = resource_quota({HARD: 11}, used)
    assert messages([plan("one")], quota, *pods, denied=["/pods"]) == [[]]


def test_quota_covers_autoscaled_and_surge_replicas() -> None:
    metric = {"name": "waiting", "target": "5"}
    scaled = plan("one", autoscaling={"maxReplicas": 3, "metrics": [metric]})
    ((text,),) = messages([scaled], resource_quota({HARD: "11"}))
    assert f"one requests 12{BEYOND}" in text
    surging = plan("one", rollout={"maxSurge": 1}, layout="PerRole")
    ((text,),) = messages([surging], resource_quota({HARD: "11"}))
    assert f"one requests 12{BEYOND}" in text
    assert messages([surging], resource_quota({HARD: "12"})) == [[]]


@each_row(
    "harmless",
    [
        resource_quota({"requests.amd.com/gpu": 1}),
        resource_quota({"requests.cpu": "1"}),
        resource_quota({HARD: "1"}, scopes=["BestEffort"]),
        resource_quota({HARD: "1"}, scopeSelector={"matchExpressions": []}),
        stored("v1", "ResourceQuota", "empty", "prod"),
    ],
)
def test_unrelated_quotas_are_ignored(harmless: Any) -> None:
    assert messages([plan("one")], harmless) == [[]]


def test_unknown_namespace_is_not_read() -> None:
    api = FakeCluster()
    assert check_quotas(api, [plan("one", namespace=UnknownOutput())]) == [[]]
    assert api.requests == []


def cluster_queue(name: str, quotas: Any, *, resource: str = GPU, **spec: Any) -> Any:
    """Return a ClusterQueue with the quotas of each flavor."""
    flavors = [
        {"name": flavor, "resources": [{"name": resource, **quota}]}
        for flavor, quota in quotas.items()
    ]
    spec = {"resourceGroups": [{"coveredResources": [resource], "flavors": flavors}], **spec}
    return stored("kueue.x-k8s.io/v1beta2", "ClusterQueue", name, spec=spec)


def kueue_messages(plans: Any, queue: Any, **status: Any) -> list[list[str]]:
    """Return the messages if each namespace has a LocalQueue `team` for the ClusterQueue."""
    spec = {"clusterQueue": queue["metadata"]["name"]}
    api = "kueue.x-k8s.io/v1beta2"
    queues = [
        stored(api, "LocalQueue", "team", namespace, spec=spec, status=status)
        for namespace in ("prod", "dev")
    ]
    return messages(plans, *queues, queue)


WAIT = ": replicas above the quota wait"


def nominal(amount: int) -> Any:
    return {"nominalQuota": str(amount)}


def test_requests_of_services_in_a_cluster_queue_are_added() -> None:
    plans = [queued("one"), queued("two", namespace="dev"), plan("unqueued")]
    flavors = {"h100": nominal(8), "h200": nominal(8)}
    assert kueue_messages(plans, cluster_queue("all", flavors)) == [[], [], []]
    flavors["h200"] = nominal(7)
    text = f"ClusterQueue all allows 15 {GPU}, but one, two request 16{WAIT}"
    assert kueue_messages(plans, cluster_queue("all", flavors)) == [[], [text], []]


@pytest.mark.parametrize("key", ["cohortName", "cohort"])
def test_queue_in_a_cohort_may_borrow(key: str) -> None:
    queue = cluster_queue("own", {"h100": nominal(4)}, **{key: "research"})
    assert kueue_messages([queued("one", replicas=3)], queue) == [[]]


def test_resource_without_kueue_quota_is_reported() -> None:
    one = [queued("one")]
    text = (
        f"ClusterQueue cpus has no quota for {GPU}, but one requests it: "
        "Kueue admits none of these replicas"
    )
    assert kueue_messages(one, cluster_queue("cpus", {"any": nominal(64)}, resource="cpu")) == [
        [text]
    ]


def test_inactive_queue_is_reported() -> None:
    condition = {"type": "Active", "status": "False", "message": "Can't submit new workloads"}
    full = cluster_queue("all", {"h100": nominal(64)})
    ((text,),) = kueue_messages([queued("one")], full, conditions=[condition])
    assert text == (
        "LocalQueue team in prod is not active: Can't submit new workloads; "
        "Kueue admits no replica that waits in it"
    )


def test_only_relevant_quotas_are_read() -> None:
    quota = stored("v1", "ResourceQuota", "pods", "prod", spec={"hard": {"pods": 3}})
    api = FakeCluster(quota)
    check_quotas(api, [plan("one"), plan("cpu", gpus=None, namespace="dev")])
    quotas = "/api/v1/namespaces/prod/resourcequotas"
    assert [path for _, path in api.requests] == ["/api/v1", quotas]
    assert messages([queued("one")], without=["kueue.x-k8s.io"]) == [[]]
