"""Accelerators of services against the quotas of a cluster: ResourceQuotas and Kueue's.

The API server does not create pods beyond a ResourceQuota, and Kueue does not start replicas beyond
the quota of their ClusterQueue. Both happen after an update has registered its objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.client import KubernetesApi, items
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.resources import is_accelerator, pod_requests
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Object = Mapping[str, Any]
#: Namespace and name.
Key = tuple[str, str]

QUOTA_TOO_SMALL = Rule(
    "quota-too-small",
    "warning",
    "ResourceQuotas of a namespace, and Kueue's ClusterQueues, allow the accelerators of services.",
    remedy="Raise the quota, or run fewer replicas.",
    source="https://kubernetes.io/docs/concepts/policy/resource-quotas/, and Kueue 0.15.2",
)

_KUEUE = "kueue.x-k8s.io"
#: Versions of its kinds, the latest first.
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Quotas:
    """What a cluster allows.

    Attributes:
        resource_quotas: ResourceQuotas by namespace; one that is missing could not be read.
        running: Accelerators of pods that exist, by namespace and service; a namespace that is
            missing could not be read.
        local_queues: Kueue's LocalQueues by namespace and name.
        cluster_queues: Its ClusterQueues by name.
        cohorts: Its Cohorts by name.
    """

    resource_quotas: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    running: Mapping[str, Mapping[str, Counter[str]]] = field(default_factory=dict)
    local_queues: Mapping[Key, Object] = field(default_factory=dict)
    cluster_queues: Mapping[str, Object] = field(default_factory=dict)
    cohorts: Mapping[str, Object] = field(default_factory=dict)


def quota_namespaces(plans: Iterable[ServicePlan]) -> list[str]:
    """Returns the namespaces whose quotas matter: those of pods with accelerators."""
    namespaces = (plan.namespace for plan in plans if plan.total_accelerators)
    return sorted({name for name in namespaces if not is_output(name)})


def queues_of(plans: Iterable[ServicePlan]) -> dict[Key, list[ServicePlan]]:
    """Returns Kueue's LocalQueues that services name, with the services."""
    by_queue: dict[Key, list[ServicePlan]] = {}
    for plan in plans:
        key = (plan.namespace, plan.local_queue)
        if plan.local_queue is not None and not any(map(is_output, key)):
            by_queue.setdefault((plan.namespace, plan.local_queue), []).append(plan)
    return by_queue


def read_quotas(api: KubernetesApi, plans: Sequence[ServicePlan]) -> Quotas:
    """Reads what `check_quotas` needs: one list for each namespace, and Kueue's where it is used.

    What the credentials do not allow is in `api.unread`.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    core = api.client.CoreV1Api(api.connection)
    resource_quotas: dict[str, Sequence[Object]] = {}
    running: dict[str, Mapping[str, Counter[str]]] = {}
    for namespace in quota_namespaces(plans):
        listed = api.get(
            f"ResourceQuotas in {namespace}", core.list_namespaced_resource_quota, namespace
        )
        resource_quotas[namespace] = items(listed)
        if any(_limits(quota) for quota in items(listed)):
            pods = api.get(
                f"pods in {namespace}",
                core.list_namespaced_pod,
                namespace,
                label_selector=labels.SERVICE,
            )
            if isinstance(pods, dict):
                running[namespace] = _running(items(pods))
    return Quotas(resource_quotas, running, **_read_kueue(api, plans))


def _read_kueue(api: KubernetesApi, plans: Sequence[ServicePlan]) -> dict[str, Any]:
    queues = queues_of(plans)
    custom = api.client.CustomObjectsApi(api.connection)
    for version in _KUEUE_VERSIONS if queues else ():
        cluster_queues = _list_kueue(api, version, "clusterqueues")
        if cluster_queues is None:
            continue  # not served
        local_queues = {
            (namespace, name): api.get(
                f"LocalQueue {name}",
                custom.get_namespaced_custom_object,
                *(_KUEUE, version, namespace, "localqueues", name),
            )
            for namespace, name in queues
        }
        return {
            "local_queues": {
                key: queue for key, queue in local_queues.items() if isinstance(queue, dict)
            },
            "cluster_queues": _by_name(items(cluster_queues)),
            "cohorts": _by_name(items(_list_kueue(api, version, "cohorts"))),
        }
    return {}


def _list_kueue(api: KubernetesApi, version: str, plural: str) -> Any:
    listing = api.client.CustomObjectsApi(api.connection).list_cluster_custom_object
    return api.get(f"Kueue's {plural}", listing, _KUEUE, version, plural)


def _running(pods: Iterable[Object]) -> dict[str, Counter[str]]:
    """Accelerators of pods by their service."""
    by_service: dict[str, Counter[str]] = {}
    for pod in pods:
        service = pod["metadata"]["labels"][labels.SERVICE]
        by_service.setdefault(service, Counter()).update(_held(pod))
    return by_service


def check_quotas(plans: Sequence[ServicePlan], quotas: Quotas) -> list[tuple[Finding, ...]]:
    """Returns warnings for each plan; the same update may raise a quota.

    What several services exceed together is said of the last of them.
    """
    findings: dict[int, list[Finding]] = {id(plan): [] for plan in plans}
    for users, finding in (*_over_resource_quotas(plans, quotas), *_over_kueue(plans, quotas)):
        findings[id(users[-1])].append(finding)
    return [tuple(findings[id(plan)]) for plan in plans]


def quota_findings(api: KubernetesApi, plans: Sequence[ServicePlan]) -> list[tuple[Finding, ...]]:
    """Reads the quotas of a cluster, and returns the findings of each plan."""
    return check_quotas(plans, read_quotas(api, plans))


#: Findings, each with the services that it is about.
_Found = Iterator[tuple[list[ServicePlan], Finding]]


def _over_resource_quotas(plans: Sequence[ServicePlan], quotas: Quotas) -> _Found:
    for namespace, resource_quotas in quotas.resource_quotas.items():
        users = [plan for plan in plans if namespace in quota_namespaces([plan])]
        if not users:
            continue
        needed = sum((_accelerators(plan) for plan in users), Counter[str]())
        by_service = quotas.running.get(namespace)
        own = sum(
            ((by_service or {}).get(plan.service, Counter()) for plan in users), Counter[str]()
        )
        for quota in resource_quotas:
            # Of what is used, the part of these services is known only where pods were read.
            status = {} if by_service is None else quota.get("status") or {}
            used = status.get("used") or {}
            for resource, allowed in _limits(quota).items():
                amount = needed[resource]
                all_used = quantity.parse(used.get(f"requests.{resource}", 0))
                others = max(all_used - own[resource], Decimal(0))
                if amount and allowed < amount + others:
                    beside = f" beside {_text(others)} in use by others" if others else ""
                    message = (
                        f"ResourceQuota {quota['metadata']['name']} in {namespace} allows "
                        f"{_text(allowed)} {resource}{beside}, and {_ask(users)} for {amount}: "
                        "pods beyond it are not created"
                    )
                    yield users, warning(QUOTA_TOO_SMALL, ("metadata", "namespace"), message)


def _over_kueue(plans: Sequence[ServicePlan], quotas: Quotas) -> _Found:
    by_cluster_queue: dict[str, list[ServicePlan]] = {}
    for (namespace, name), users in queues_of(plans).items():
        queue = quotas.local_queues.get((namespace, name))
        if queue is None:
            continue
        by_cluster_queue.setdefault(queue["spec"].get("clusterQueue") or "", []).extend(users)
        for condition in (queue.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Active" and condition["status"] == "False":
                message = (
                    f"LocalQueue {name} in {namespace} is not active: {condition['message']}; "
                    "Kueue starts no replica that waits in it"
                )
                yield users, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    for name, users in by_cluster_queue.items():
        if (cluster_queue := quotas.cluster_queues.get(name)) is not None:
            yield from _over_cluster_queue(cluster_queue, users, quotas)


_QUEUE = ("schedulingStrategy", "queue")


def _over_cluster_queue(cluster_queue: Object, users: list[ServicePlan], quotas: Quotas) -> _Found:
    name = cluster_queue["metadata"]["name"]
    groups = cluster_queue["spec"].get("resourceGroups") or ()
    covered = {resource for group in groups for resource in group["coveredResources"]}
    for resource in sorted(set().union(*map(_requested, users)) - covered):
        askers = [plan for plan in users if resource in _requested(plan)]
        message = (
            f"ClusterQueue {name} has no quota of {resource}, which {_ask(askers)} for: "
            "Kueue starts no replica with it"
        )
        yield askers, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    needed = sum((_accelerators(plan) for plan in users), Counter[str]())
    for resource, amount in needed.items():
        most = _most(cluster_queue, resource, quotas)
        if resource in covered and most < amount:
            borrowed = " with what it may borrow" if _cohort(cluster_queue) else ""
            message = (
                f"ClusterQueue {name} allows {_text(most)} {resource}{borrowed}, and "
                f"{_ask(users)} for {amount}: replicas beyond it wait"
            )
            yield users, warning(QUOTA_TOO_SMALL, _QUEUE, message)


def _most(cluster_queue: Object, resource: str, quotas: Quotas) -> Decimal:
    """The most that a ClusterQueue can ever admit, while no other uses the cohort's quota."""
    cohort = _root(_cohort(cluster_queue), quotas)
    members = [(_cohort(other), other) for other in quotas.cluster_queues.values()]
    lenders = [
        holder
        for name, holder in (*members, *quotas.cohorts.items())
        if holder is not cluster_queue and cohort and _root(name, quotas) == cohort
    ]
    most = Decimal(0)
    for flavor, quota in _flavors(cluster_queue, resource):
        lent = Decimal(0)
        for lender in lenders:
            for other_flavor, other in _flavors(lender, resource):
                if other_flavor == flavor:
                    nominal = quantity.parse(other["nominalQuota"])
                    limit = other.get("lendingLimit")
                    lent += nominal if limit is None else min(nominal, quantity.parse(limit))
        limit = quota.get("borrowingLimit")
        most += quantity.parse(quota["nominalQuota"])
        most += lent if limit is None else min(lent, quantity.parse(limit))
    return most


def _flavors(holder: Object, resource: str) -> Iterator[tuple[str, Object]]:
    """The quotas of one resource in a ClusterQueue or a Cohort, by flavor."""
    for group in (holder.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                if quota["name"] == resource:
                    yield flavor["name"], quota


def _cohort(cluster_queue: Object) -> str:
    """The cohort of a ClusterQueue, empty for none."""
    # v1beta1 calls it `cohort`.
    spec = cluster_queue["spec"]
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _root(cohort: str, quotas: Quotas) -> str:
    """The root of a cohort's tree."""
    passed: set[str] = set()
    while cohort not in passed and cohort in quotas.cohorts:
        passed.add(cohort)
        spec = quotas.cohorts[cohort].get("spec") or {}
        cohort = spec.get("parentName") or spec.get("parent") or cohort
    return cohort


def _limits(quota: Object) -> dict[str, Decimal]:
    """Accelerators that a ResourceQuota allows, by name; none if it counts some pods only."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    return {
        resource: quantity.parse(allowed)
        for name, allowed in (spec.get("hard") or {}).items()
        if is_accelerator(resource := name.removeprefix("requests.")) and resource != name
    }


def _held(pod: Object) -> Counter[str]:
    """Accelerators of a pod as quotas count them: none once it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return Counter()
    requests = pod_requests(pod).items()
    return Counter({name: int(amount) for name, amount in requests if is_accelerator(name)})


def _accelerators(plan: ServicePlan) -> Counter[str]:
    """Accelerators of all pods of a service, by the name of the resource."""
    needed = Counter[str]()
    for role in plan.roles:
        pods = ((role.leader_template, 1), (role.worker_template, role.nodes - 1))
        for template, count in pods:
            for resource, amount in pod_requests(template).items():
                if is_accelerator(resource):
                    needed[resource] += int(amount) * count * len(role.replicas)
    return +needed


def _requested(plan: ServicePlan) -> set[str]:
    """Names of the resources that pods of a service request."""
    return {
        resource
        for role in plan.roles
        for template in (role.leader_template, role.worker_template)
        for resource, amount in pod_requests(template).items()
        if amount and role.replicas
    }


def _by_name(objects: Iterable[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in objects}


def _ask(users: Sequence[ServicePlan]) -> str:
    """Subject and verb of a sentence: `a asks`, `a, b ask`."""
    names = ", ".join(dict.fromkeys(plan.service for plan in users))
    return f"{names} ask{'s' if len(users) == 1 else ''}"


def _text(amount: Decimal) -> str:
    return quantity.write(amount)
