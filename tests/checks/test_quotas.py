"""Quotas of a cluster against what services ask for."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import samples

from fusioninfer_pulumi import plan_service
from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.checks.quotas import Quotas, check_quotas, quota_namespaces, read_quotas
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.kube.outputs import UnknownOutput

GPU = "nvidia.com/gpu"
HARD = f"requests.{GPU}"
QUEUED = {"queue": "team", "gangPolicy": {"backend": "Kueue"}}
BEYOND = ": pods beyond it are not created"


def plan(
    name: str,
    *,
    replicas: int = 2,
    gpus: Any = 4,
    namespace: Any = "prod",
    scheduling: Any = None,
    **role: Any,
) -> Any:
    container = samples.container(gpus=gpus)
    own = samples.role(replicas=replicas, template=samples.template(container), **role)
    spec = {"namespace": namespace, "roles": [own], "schedulingStrategy": scheduling or {}}
    return plan_service(InferenceServiceArgs.model_validate(spec), name)


def queued(name: str, **more: Any) -> Any:
    return plan(name, scheduling=QUEUED, **more)


def resource_quota(hard: Any, used: Any = None, **spec: Any) -> Any:
    status = {"used": used} if used else {}
    return {"metadata": {"name": "gpus"}, "spec": {"hard": hard, **spec}, "status": status}


def messages(plans: Any, quotas: Quotas) -> list[list[str]]:
    """What is said of each service."""
    findings = check_quotas(plans, quotas)
    assert {finding.severity for said in findings for finding in said} <= {Severity.WARNING}
    return [[finding.message for finding in said] for said in findings]


def of_prod(plans: Any, *resource_quotas: Any, **more: Any) -> list[list[str]]:
    return messages(plans, Quotas({"prod": resource_quotas}, **more))


def test_the_services_of_a_namespace_are_added_up() -> None:
    plans = [
        plan("one"),
        plan("two", replicas=1, multinode={"nodeCount": 2}),
        plan("elsewhere", namespace="dev"),
        plan("cpu", gpus=None),
    ]
    assert quota_namespaces(plans) == ["dev", "prod"]
    assert of_prod(plans, resource_quota({HARD: "16"})) == [[], [], [], []]
    text = f"ResourceQuota gpus in prod allows 15 {GPU}, and one, two ask for 16{BEYOND}"
    assert of_prod(plans, resource_quota({HARD: "15"})) == [[], [text], [], []]


def test_pods_of_others_take_their_part_and_those_of_the_service_do_not() -> None:
    used = {HARD: "12"}
    running = {"prod": {"one": Counter({GPU: 8})}}
    assert of_prod([plan("one")], resource_quota({HARD: 12}, used), running=running) == [[]]
    ((text,),) = of_prod([plan("one")], resource_quota({HARD: 11}, used), running=running)
    assert text == (
        f"ResourceQuota gpus in prod allows 11 {GPU} beside 4 in use by others, and one asks for "
        f"8{BEYOND}"
    )
    # Whose pods they are is not known without the right to list them.
    assert of_prod([plan("one")], resource_quota({HARD: 11}, used)) == [[]]


@pytest.mark.parametrize(
    "harmless",
    [
        resource_quota({"requests.amd.com/gpu": 1}),
        resource_quota({"requests.cpu": "1"}),
        resource_quota({HARD: "1"}, scopes=["BestEffort"]),
        resource_quota({HARD: "1"}, scopeSelector={"matchExpressions": []}),
        {"metadata": {"name": "empty"}},
    ],
)
def test_quotas_of_other_pods_do_not_count(harmless: Any) -> None:
    assert of_prod([plan("one")], harmless) == [[]]


def test_a_namespace_that_is_not_known_is_not_read() -> None:
    assert quota_namespaces([plan("one", namespace=UnknownOutput())]) == []


def cluster_queue(name: str, quotas: Any, *, resource: str = GPU, **spec: Any) -> Any:
    """A ClusterQueue, or a Cohort, with the quotas of each flavor."""
    flavors = [
        {"name": flavor, "resources": [{"name": resource, **quota}]}
        for flavor, quota in quotas.items()
    ]
    groups = [{"coveredResources": [resource], "flavors": flavors}] if flavors else []
    return {"metadata": {"name": name}, "spec": {"resourceGroups": groups, **spec}}


def of_kueue(plans: Any, *holders: Any, cohorts: Any = (), **status: Any) -> list[list[str]]:
    """What is said where LocalQueue `team` of each namespace leads to the first ClusterQueue."""
    queue = {"spec": {"clusterQueue": holders[0]["metadata"]["name"]}, "status": status}
    return messages(
        plans,
        Quotas(
            local_queues={(namespace, "team"): queue for namespace in ("prod", "dev")},
            cluster_queues={holder["metadata"]["name"]: holder for holder in holders},
            cohorts={cohort["metadata"]["name"]: cohort for cohort in cohorts},
        ),
    )


WAIT = ": replicas beyond it wait"


def nominal(amount: int, **more: int) -> Any:
    return {"nominalQuota": str(amount), **more}


def test_services_of_all_queues_of_a_cluster_queue_are_added_up() -> None:
    plans = [queued("one"), queued("two", namespace="dev"), plan("unqueued")]
    flavors = {"h100": nominal(8), "h200": nominal(8)}
    assert of_kueue(plans, cluster_queue("all", flavors)) == [[], [], []]
    flavors["h200"] = nominal(7)
    text = f"ClusterQueue all allows 15 {GPU}, and one, two ask for 16{WAIT}"
    assert of_kueue(plans, cluster_queue("all", flavors)) == [[], [text], []]


@pytest.mark.parametrize("key", ["cohortName", "cohort"])
def test_what_a_cohort_lends_is_allowed(key: str) -> None:
    one = [queued("one", replicas=3)]
    cohort = {key: "research"}

    def said(own: Any, *others: Any, cohorts: Any = ()) -> list[list[str]]:
        return of_kueue(one, cluster_queue("own", own, **cohort), *others, cohorts=cohorts)

    lender = cluster_queue("lender", {"h100": nominal(8), "other": nominal(8)}, **cohort)
    assert said({"h100": nominal(4)}, lender) == [[]]
    borrowed = f"allows {{}} {GPU} with what it may borrow, and one asks for 12{WAIT}"
    assert said({"h100": nominal(3)}, lender) == [["ClusterQueue own " + borrowed.format(11)]]
    little = {"h100": nominal(4, borrowingLimit=7)}
    assert said(little, lender) == [["ClusterQueue own " + borrowed.format(11)]]
    kept = cluster_queue("lender", {"h100": nominal(8, lendingLimit=1)}, **cohort)
    assert said({"h100": nominal(4)}, kept) == [["ClusterQueue own " + borrowed.format(5)]]
    stranger = cluster_queue("stranger", {"h100": nominal(8)}, **{key: "another"})
    assert said({"h100": nominal(4)}, stranger) == [["ClusterQueue own " + borrowed.format(4)]]
    # Cohorts have quotas of their own, and parents.
    parent = cluster_queue("company", {"h100": nominal(8)})
    child = cluster_queue("research", {}, parentName="company")
    assert said({"h100": nominal(4)}, cohorts=(parent, child)) == [[]]


def test_a_resource_without_quota_starts_nothing() -> None:
    one = [queued("one")]
    text = (
        f"ClusterQueue cpus has no quota of {GPU}, which one asks for: "
        "Kueue starts no replica with it"
    )
    assert of_kueue(one, cluster_queue("cpus", {"any": nominal(64)}, resource="cpu")) == [[text]]


def test_a_queue_that_is_not_active_is_said() -> None:
    condition = {"type": "Active", "status": "False", "message": "Can't submit new workloads"}
    full = cluster_queue("all", {"h100": nominal(64)})
    ((text,),) = of_kueue([queued("one")], full, conditions=[condition])
    assert text == (
        "LocalQueue team in prod is not active: Can't submit new workloads; "
        "Kueue starts no replica that waits in it"
    )


class FakeApi:
    """A cluster whose lists are those of `answers`, by what is read."""

    connection = None

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()
        core = SimpleNamespace(list_namespaced_resource_quota=None, list_namespaced_pod=None)
        custom = SimpleNamespace(list_cluster_custom_object=None, get_namespaced_custom_object=None)
        self.client = SimpleNamespace(CoreV1Api=lambda _: core, CustomObjectsApi=lambda _: custom)

    def get(self, what: str, _call: Any, *_args: Any, **_kwargs: Any) -> Any:
        self.asked.append(what)
        return self.answers.get(what)


def test_one_list_is_read_where_no_quota_counts_accelerators() -> None:
    api: Any = FakeApi({"ResourceQuotas in prod": {"items": [resource_quota({"pods": 3})]}})
    assert read_quotas(api, [plan("one"), plan("cpu", gpus=None, namespace="dev")]).running == {}
    assert api.asked == ["ResourceQuotas in prod"]


def pod(service: str, gpus: str, phase: str = "Running") -> Any:
    metadata = {"labels": {"fusioninfer.io/service": service}}
    container = samples.container(gpus=gpus)
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase}}


def test_pods_are_read_where_a_quota_counts_accelerators() -> None:
    pods = [pod("one", "4"), pod("one", "4"), pod("one", "2", "Failed"), pod("two", "1")]
    answers = {"ResourceQuotas in prod": {"items": [resource_quota({HARD: 3})]}}
    api: Any = FakeApi({**answers, "pods in prod": {"items": pods}})
    read = read_quotas(api, [plan("one")])
    assert read.running == {"prod": {"one": {GPU: 8}, "two": {GPU: 1}}}
    api = FakeApi({**answers, "pods in prod": "refused"})
    assert read_quotas(api, [plan("one")]).running == {}


def test_kueue_is_read_only_for_services_in_its_queues() -> None:
    found = cluster_queue("all", {})
    queue = {"spec": {"clusterQueue": "all"}}
    api: Any = FakeApi({"Kueue's clusterqueues": {"items": [found]}, "LocalQueue team": queue})
    read = read_quotas(api, [queued("one")])
    assert read.local_queues == {("prod", "team"): queue}
    assert read.cluster_queues == {"all": found}
    api = FakeApi({})
    assert read_quotas(api, [queued("one")]).cluster_queues == {}
    assert api.asked[1:] == ["Kueue's clusterqueues"] * 2  # one for each version
