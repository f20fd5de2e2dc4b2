"""Checks of quotas for accelerators: ResourceQuotas and Kueue's ClusterQueues.

Without these checks an update registers its objects first, and then waits for pods that a
ResourceQuota rejects or that Kueue does not admit. A small quota is a warning, because the same
update may raise it. The last of the services that share a quota gets the warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.checks.cross_service_checks import count_max_replicas
from fusioninfer_pulumi.checks.live_cluster import ClusterFindings, LiveCluster
from fusioninfer_pulumi.findings import Rule, warning
from fusioninfer_pulumi.kube import labels, quantity
from fusioninfer_pulumi.kube.client import Object
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import is_accelerator, pod_requests
from fusioninfer_pulumi.kube.supported_products import KUEUE
from fusioninfer_pulumi.plan.service_plan import ServicePlan

QUOTA_TOO_SMALL = Rule("quota-too-small")
_QUEUE_FIELD = ("schedulingStrategy", "queue")


def check_resource_quotas(cluster: LiveCluster) -> ClusterFindings:
    """Yield a warning for each ResourceQuota that is too small for its namespace's services."""
    plans_by_namespace: dict[str, list[ServicePlan]] = {}
    for plan in cluster.plans_with_namespace:
        if plan.total_accelerators and plan.namespace is not None:  # for mypy: it is set
            plans_by_namespace.setdefault(plan.namespace, []).append(plan)
    for namespace, plans in plans_by_namespace.items():
        quotas = cluster.api.list_objects("v1", "ResourceQuota", namespace) or ()
        limits_by_quota = [(quota, _get_accelerator_limits(quota)) for quota in quotas]
        if not any(limits for _, limits in limits_by_quota):
            continue
        needed = _sum_accelerators(plans)
        used_by_services = _count_used_accelerators(cluster, namespace, plans)
        for quota, limits in limits_by_quota:
            all_used = (quota.get("status") or {}).get("used") or {}
            for resource, allowed in limits.items():
                used_by_others = Decimal(0)
                # If pods cannot be read, the usage by other pods is unknown and ignored.
                if used_by_services is not None:
                    used = quantity.parse(all_used.get(f"requests.{resource}", 0))
                    used_by_others = max(used - used_by_services[resource], Decimal(0))
                amount = needed[resource]
                if amount and allowed < amount + used_by_others:
                    used_text = quantity.write(used_by_others)
                    in_use = f" ({used_text} in use by others)" if used_by_others else ""
                    message = (
                        f"ResourceQuota {quota['metadata']['name']} in {namespace} allows "
                        f"{quantity.write(allowed)} {resource}{in_use}, but "
                        f"{_format_requests(plans)} {amount}: pods above the quota are not "
                        "created"
                    )
                    location = ("metadata", "namespace")
                    yield plans[-1], warning(QUOTA_TOO_SMALL, location, message)


def _count_used_accelerators(
    cluster: LiveCluster, namespace: str, plans: Sequence[ServicePlan]
) -> Counter[str] | None:
    """Count the accelerators of the services' existing pods, or return None if unreadable."""
    pods = cluster.api.list_objects("v1", "Pod", namespace, labelSelector=labels.SERVICE)
    if pods is None:
        return None
    service_names = {plan.service for plan in plans}
    counts = Counter[str]()
    for pod in pods:
        # Quotas do not count pods that have ended.
        has_ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if pod["metadata"]["labels"][labels.SERVICE] in service_names and not has_ended:
            counts += _count_accelerators(pod)
    return counts


def check_kueue_quotas(cluster: LiveCluster) -> ClusterFindings:
    """Yield warnings about inactive LocalQueues and about ClusterQueues that are too small."""
    plans_by_queue: dict[tuple[str, str], list[ServicePlan]] = {}
    for plan in cluster.plans_with_namespace:
        name = plan.shape.local_queue
        if name is not None and not is_output(name):
            plans_by_queue.setdefault((plan.namespace, str(name)), []).append(plan)
    plans_by_cluster_queue: dict[str, list[ServicePlan]] = {}
    for (namespace, name), plans in plans_by_queue.items():
        queue = cluster.api.get(KUEUE.group, "LocalQueue", namespace, name)
        if queue is None:
            continue
        if cluster_queue_name := queue["spec"].get("clusterQueue"):
            plans_by_cluster_queue.setdefault(cluster_queue_name, []).extend(plans)
        for condition in (queue.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Active" and condition["status"] == "False":
                message = (
                    f"LocalQueue {name} in {namespace} is not active: {condition['message']}; "
                    "Kueue admits no replica that waits in it"
                )
                # QUOTA_TOO_SMALL includes inactive queues, which admit nothing.
                yield plans[-1], warning(QUOTA_TOO_SMALL, _QUEUE_FIELD, message)
    for name, plans in plans_by_cluster_queue.items():
        cluster_queue = cluster.api.get(KUEUE.group, "ClusterQueue", None, name)
        if cluster_queue is not None:
            yield from _check_cluster_queue(cluster_queue, plans)


def _check_cluster_queue(cluster_queue: Object, plans: list[ServicePlan]) -> ClusterFindings:
    """Check that a ClusterQueue covers the requested resources and has enough accelerators."""
    name, spec = cluster_queue["metadata"]["name"], cluster_queue["spec"]
    groups = spec.get("resourceGroups") or ()
    totals = {resource: Decimal(0) for group in groups for resource in group["coveredResources"]}
    requested = {resource for plan in plans for resource in _list_requested_resources(plan)}
    for resource in sorted(requested - set(totals)):
        requesters = [plan for plan in plans if resource in _list_requested_resources(plan)]
        message = (
            f"ClusterQueue {name} has no quota for {resource}, but "
            f"{_format_requests(requesters)} it: Kueue admits none of these replicas"
        )
        yield requesters[-1], warning(QUOTA_TOO_SMALL, _QUEUE_FIELD, message)
    # A queue in a cohort (`cohortName`, or `cohort` in v1beta1) may borrow from other queues.
    if spec.get("cohortName") or spec.get("cohort"):
        return
    flavor_quotas = [
        quota for group in groups for flavor in group["flavors"] for quota in flavor["resources"]
    ]
    for quota in flavor_quotas:
        totals[quota["name"]] += quantity.parse(quota["nominalQuota"])
    for resource, amount in _sum_accelerators(plans).items():
        if resource in totals and totals[resource] < amount:
            message = (
                f"ClusterQueue {name} allows {quantity.write(totals[resource])} {resource}, but "
                f"{_format_requests(plans)} {amount}: replicas above the quota wait"
            )
            yield plans[-1], warning(QUOTA_TOO_SMALL, _QUEUE_FIELD, message)


def _get_accelerator_limits(quota: Object) -> dict[str, Decimal]:
    """Return a ResourceQuota's limits of accelerators; empty if its scope may exclude the pods."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    return {
        resource: quantity.parse(allowed)
        for name, allowed in (spec.get("hard") or {}).items()
        if name.startswith("requests.") and is_accelerator(resource := name[len("requests.") :])
    }


def _count_accelerators(pod: Mapping[str, Any]) -> Counter[str]:
    requests = pod_requests(pod).items()
    return Counter({name: int(amount) for name, amount in requests if is_accelerator(name)})


def _sum_accelerators(plans: Sequence[ServicePlan]) -> Counter[str]:
    """Count the accelerators of all pods of services, by resource name.

    Autoscaled roles count with `maxReplicas`. Surge replicas of an update are counted as well.
    """
    needed = Counter[str]()
    roles = [role for plan in plans for role in plan.roles]
    for role in roles:
        replicas = sum(count_max_replicas(role, lws) for lws in role.lws)
        for template, count in ((role.leader_template, 1), (role.worker_template, role.nodes - 1)):
            for resource, amount in _count_accelerators(template).items():
                needed[resource] += amount * count * replicas
    return +needed  # without zero counts


def _list_requested_resources(plan: ServicePlan) -> set[str]:
    return {
        resource
        for role in plan.roles
        for template in (role.leader_template, role.worker_template)
        for resource, amount in pod_requests(template).items()
        if amount and role.replicas
    }


def _format_requests(plans: Sequence[ServicePlan]) -> str:
    """Return subject and verb of a sentence: `a requests`, `a, b request`."""
    # Services in different namespaces may have the same name.
    names = list(dict.fromkeys(plan.service for plan in plans))
    return f"{', '.join(names)} {'requests' if len(names) == 1 else 'request'}"
