"""Accelerators of services against the quotas of a cluster: ResourceQuotas and Kueue's.

The API server does not create pods beyond a ResourceQuota, and Kueue does not start replicas beyond
the quota of their ClusterQueue. Both happen after an update has registered its objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.checks.between_services import count_groups
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
    """Compare plans with the quotas of a cluster, and return warnings for each plan.

    The same update may raise a quota. A quota that several services exceed together is reported for
    the last of them. Reads that the credentials do not allow are in `api.unread`.

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
                    in_use = f" ({quantity.write(others)} in use by others)" if others else ""
                    name = quota["metadata"]["name"]
                    message = (
                        f"ResourceQuota {name} in {namespace} allows {quantity.write(allowed)} "
                        f"{resource}{in_use}, and {_services_ask(users)} for {amount}: pods beyond "
                        "it are not created"
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
    counts = Counter[str]()
    for pod in pods:
        # Quotas count no pod that has ended.
        ended = (pod.get("status") or {}).get("phase") in _ENDED
        if pod["metadata"]["labels"][labels.SERVICE] in services and not ended:
            counts += _count_accelerators(pod)
    return counts


def _over_kueue(api: KubernetesApi, plans: Sequence[ServicePlan]) -> _Found:
    group = KUEUE.group
    by_cluster_queue: dict[str, list[ServicePlan]] = {}
    for (namespace, name), users in group_by_local_queue(plans).items():
        queue = api.get(group, "LocalQueue", namespace, name)
        if queue is None:
            continue
        if cluster_queue_name := queue["spec"].get("clusterQueue"):
            by_cluster_queue.setdefault(cluster_queue_name, []).extend(users)
        for condition in (queue.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Active" and condition["status"] == "False":
                message = (
                    f"LocalQueue {name} in {namespace} is not active: {condition['message']}; "
                    "Kueue starts no replica that waits in it"
                )
                yield users, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    for name, users in by_cluster_queue.items():
        if (cluster_queue := api.get(group, "ClusterQueue", None, name)) is not None:
            yield from _over_cluster_queue(cluster_queue, users)


_QUEUE = ("schedulingStrategy", "queue")


def _over_cluster_queue(cluster_queue: Object, users: list[ServicePlan]) -> _Found:
    """Yield what a ClusterQueue lacks; one in a cohort may borrow, so its amounts say nothing."""
    name, spec = cluster_queue["metadata"]["name"], cluster_queue["spec"]
    groups = spec.get("resourceGroups") or ()
    nominal = {resource: Decimal(0) for group in groups for resource in group["coveredResources"]}
    for resource in sorted(set().union(*map(_requested, users)) - set(nominal)):
        askers = [plan for plan in users if resource in _requested(plan)]
        message = (
            f"ClusterQueue {name} has no quota of {resource}, which {_services_ask(askers)} for: "
            "Kueue starts no replica with it"
        )
        yield askers, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    # v1beta1 calls it `cohort`.
    if spec.get("cohortName") or spec.get("cohort"):
        return
    for flavor in (flavor for group in groups for flavor in group["flavors"]):
        for quota in flavor["resources"]:
            nominal[quota["name"]] += quantity.parse(quota["nominalQuota"])
    for resource, amount in sum((_accelerators(plan) for plan in users), Counter[str]()).items():
        if resource in nominal and nominal[resource] < amount:
            message = (
                f"ClusterQueue {name} allows {quantity.write(nominal[resource])} {resource}, and "
                f"{_services_ask(users)} for {amount}: replicas beyond it wait"
            )
            yield users, warning(QUOTA_TOO_SMALL, _QUEUE, message)


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


def _count_accelerators(pod: Object) -> Counter[str]:
    requests = pod_requests(pod).items()
    return Counter({name: int(amount) for name, amount in requests if is_accelerator(name)})


def _accelerators(plan: ServicePlan) -> Counter[str]:
    """Count the accelerators of all pods of a service, by resource name.

    Autoscaled roles count with `maxReplicas`, and replicas that an update adds count as well.
    """
    needed = Counter[str]()
    for role in plan.roles:
        replicas = sum(count_groups(plan.rollout, role, lws) for lws in role.lws)
        for template, count in ((role.leader_template, 1), (role.worker_template, role.nodes - 1)):
            for resource, amount in _count_accelerators(template).items():
                needed[resource] += amount * count * replicas
    return +needed


def _requested(plan: ServicePlan) -> set[str]:
    return {
        resource
        for role in plan.roles
        for template in (role.leader_template, role.worker_template)
        for resource, amount in pod_requests(template).items()
        if amount and role.replicas
    }


def _services_ask(users: Sequence[ServicePlan]) -> str:
    """Write subject and verb of a sentence: `a asks`, `a, b ask`."""
    names = ", ".join(dict.fromkeys(plan.service for plan in users))
    return f"{names} ask{'s' if len(users) == 1 else ''}"
