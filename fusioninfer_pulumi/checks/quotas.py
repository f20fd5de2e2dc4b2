"""Accelerators of services against the quotas of a cluster: ResourceQuotas and Kueue's.

The API server does not create pods beyond a ResourceQuota, and Kueue does not start replicas beyond
the quota of their ClusterQueue. Both happen after an update has registered its objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.checks.name_checks import count_groups
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import is_accelerator, pod_requests
from fusioninfer_pulumi.kube.supported_products import KUEUE
from fusioninfer_pulumi.plan.service_plan import ServicePlan

Object = Mapping[str, Any]
#: Namespace and name.
Key = tuple[str, str]

QUOTA_TOO_SMALL = Rule("quota-too-small")

_ENDED = ("Succeeded", "Failed")


def quota_namespaces(plans: Iterable[ServicePlan]) -> list[str]:
    """Return the namespaces whose quotas matter: those of pods with accelerators."""
    namespaces = (plan.namespace for plan in plans if plan.total_accelerators)
    return sorted({name for name in namespaces if not is_output(name)})


def group_by_local_queue(plans: Iterable[ServicePlan]) -> dict[Key, list[ServicePlan]]:
    """Return Kueue's LocalQueues that services name, with the services."""
    by_queue: dict[Key, list[ServicePlan]] = {}
    for plan in plans:
        key = (plan.namespace, plan.shape.local_queue)
        if plan.shape.local_queue is not None and not any(map(is_output, key)):
            by_queue.setdefault((plan.namespace, plan.shape.local_queue), []).append(plan)
    return by_queue


def check_quotas(api: KubernetesApi, plans: Sequence[ServicePlan]) -> list[tuple[Finding, ...]]:
    """Read the quotas of a cluster, and returns warnings for each plan.

    The same update may raise a quota. What several services exceed together is said of the last of
    them. What the credentials do not allow is in `api.unread`.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    findings: dict[int, list[Finding]] = {id(plan): [] for plan in plans}
    for users, finding in (*_over_resource_quotas(api, plans), *_over_kueue(api, plans)):
        findings[id(users[-1])].append(finding)
    return [tuple(findings[id(plan)]) for plan in plans]


#: Findings, each with the services that it is about.
_Found = Iterator[tuple[list[ServicePlan], Finding]]


def _over_resource_quotas(api: KubernetesApi, plans: Sequence[ServicePlan]) -> _Found:
    for namespace in quota_namespaces(plans):
        users = [plan for plan in plans if namespace in quota_namespaces([plan])]
        needed = sum((_accelerators(plan) for plan in users), Counter[str]())
        limited = [
            (quota, limits)
            for quota in api.objects("v1", "ResourceQuota", namespace) or ()
            if (limits := _limits(quota))
        ]
        own = _running(api, namespace, users) if limited else None
        held = own or Counter[str]()
        for quota, limits in limited:
            # Of what is used, the part of these services is known only where pods were read.
            used = {} if own is None else (quota.get("status") or {}).get("used") or {}
            for resource, allowed in limits.items():
                amount = needed[resource]
                all_used = quantity.parse(used.get(f"requests.{resource}", 0))
                others = max(all_used - held[resource], Decimal(0))
                if amount and allowed < amount + others:
                    in_use = f" beside {_write(others)} in use by others" if others else ""
                    message = (
                        f"ResourceQuota {quota['metadata']['name']} in {namespace} allows "
                        f"{_write(allowed)} {resource}{in_use}, and {_services_ask(users)} for "
                        f"{amount}: pods beyond it are not created"
                    )
                    yield users, warning(QUOTA_TOO_SMALL, ("metadata", "namespace"), message)


def _running(
    api: KubernetesApi, namespace: str, plans: Sequence[ServicePlan]
) -> Counter[str] | None:
    """Count the accelerators of existing pods of services; None if pods cannot be read."""
    pods = api.objects("v1", "Pod", namespace, labelSelector=labels.SERVICE)
    if pods is None:
        return None
    services = {plan.service for plan in plans}
    own = (pod for pod in pods if pod["metadata"]["labels"][labels.SERVICE] in services)
    return sum(map(_count_pod, own), Counter[str]())


@dataclass(frozen=True)
class _Kueue:
    """Kueue's ClusterQueues and Cohorts, by name."""

    cluster_queues: Mapping[str, Object]
    cohorts: Mapping[str, Object]


def _over_kueue(api: KubernetesApi, plans: Sequence[ServicePlan]) -> _Found:
    queues = group_by_local_queue(plans)
    if not queues:
        return
    group = KUEUE.group
    kueue = _Kueue(
        *(_by_name(api.objects(group, kind) or ()) for kind in ("ClusterQueue", "Cohort"))
    )
    by_cluster_queue: dict[str, list[ServicePlan]] = {}
    for (namespace, name), users in queues.items():
        queue = api.get(group, "LocalQueue", namespace, name)
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
        if (cluster_queue := kueue.cluster_queues.get(name)) is not None:
            yield from _over_cluster_queue(cluster_queue, users, kueue)


_QUEUE = ("schedulingStrategy", "queue")


def _over_cluster_queue(cluster_queue: Object, users: list[ServicePlan], kueue: _Kueue) -> _Found:
    name = cluster_queue["metadata"]["name"]
    groups = cluster_queue["spec"].get("resourceGroups") or ()
    covered = {resource for group in groups for resource in group["coveredResources"]}
    for resource in sorted(set().union(*map(_requested, users)) - covered):
        askers = [plan for plan in users if resource in _requested(plan)]
        message = (
            f"ClusterQueue {name} has no quota of {resource}, which {_services_ask(askers)} for: "
            "Kueue starts no replica with it"
        )
        yield askers, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    needed = sum((_accelerators(plan) for plan in users), Counter[str]())
    for resource, amount in needed.items():
        most = _admissible(cluster_queue, resource, kueue)
        if resource in covered and most < amount:
            borrowed = " with what it may borrow" if _cohort(cluster_queue) else ""
            message = (
                f"ClusterQueue {name} allows {_write(most)} {resource}{borrowed}, and "
                f"{_services_ask(users)} for {amount}: replicas beyond it wait"
            )
            yield users, warning(QUOTA_TOO_SMALL, _QUEUE, message)


def _admissible(cluster_queue: Object, resource: str, kueue: _Kueue) -> Decimal:
    """Return the most that a ClusterQueue can admit while no other uses the cohort's quota."""
    cohort = _root(_cohort(cluster_queue), kueue)
    members = [(_cohort(other), other) for other in kueue.cluster_queues.values()]
    lenders = [
        holder
        for name, holder in (*members, *kueue.cohorts.items())
        if holder is not cluster_queue and cohort and _root(name, kueue) == cohort
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
    """Yield the quotas of one resource in a ClusterQueue or a Cohort, by flavor."""
    for group in (holder.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                if quota["name"] == resource:
                    yield flavor["name"], quota


def _cohort(cluster_queue: Object) -> str:
    """Return the cohort of a ClusterQueue, empty for none."""
    # v1beta1 calls it `cohort`.
    spec = cluster_queue["spec"]
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def _root(cohort: str, kueue: _Kueue) -> str:
    passed: set[str] = set()
    while cohort not in passed and cohort in kueue.cohorts:
        passed.add(cohort)
        spec = kueue.cohorts[cohort].get("spec") or {}
        cohort = spec.get("parentName") or spec.get("parent") or cohort
    return cohort


def _limits(quota: Object) -> dict[str, Decimal]:
    """Return the accelerators that a ResourceQuota allows, by name; none if it has a scope."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    return {
        resource: quantity.parse(allowed)
        for name, allowed in (spec.get("hard") or {}).items()
        if is_accelerator(resource := name.removeprefix("requests.")) and resource != name
    }


def _count_pod(pod: Object) -> Counter[str]:
    """Count the accelerators of a pod as quotas do: none once it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return Counter()
    requests = pod_requests(pod).items()
    return Counter({name: int(amount) for name, amount in requests if is_accelerator(name)})


def _accelerators(plan: ServicePlan) -> Counter[str]:
    """Count the accelerators of all pods of a service, by resource name.

    Autoscaled roles count with `maxReplicas`, and replicas that an update adds count as well.
    """
    needed = Counter[str]()
    for role in plan.roles:
        replicas = sum(count_groups(plan.rollout, role, lws) for lws in role.lws)
        pods = ((role.leader_template, 1), (role.worker_template, role.nodes - 1))
        for template, count in pods:
            for resource, amount in pod_requests(template).items():
                if is_accelerator(resource):
                    needed[resource] += int(amount) * count * replicas
    return +needed


def _requested(plan: ServicePlan) -> set[str]:
    return {
        resource
        for role in plan.roles
        for template in (role.leader_template, role.worker_template)
        for resource, amount in pod_requests(template).items()
        if amount and role.replicas
    }


def _by_name(objects: Iterable[Object]) -> dict[str, Object]:
    return {item["metadata"]["name"]: item for item in objects}


def _services_ask(users: Sequence[ServicePlan]) -> str:
    """Write subject and verb of a sentence: `a asks`, `a, b ask`."""
    names = ", ".join(dict.fromkeys(plan.service for plan in users))
    return f"{names} ask{'s' if len(users) == 1 else ''}"


def _write(amount: Decimal) -> str:
    return quantity.write(amount)
