"""Checks of a cluster for missing prerequisites: gang backends, quota, referenced objects.

Without these checks an update registers its objects first, and then waits for pods that a
ResourceQuota rejects or that Kueue does not admit.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

import yaml

from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.checks.cross_service_checks import count_max_replicas
from fusioninfer_pulumi.checks.object_checks import find_user_field
from fusioninfer_pulumi.checks.server_dry_run import FALLBACK_NAMESPACE, list_dry_run_objects
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import labels, quantity, supported_products
from fusioninfer_pulumi.kube.client import KubernetesApi, Object
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import is_accelerator, pod_requests
from fusioninfer_pulumi.kube.supported_products import CLUSTER_SCOPED, REFERENCES, iterate_field
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import NAMED_OBJECT_MISSING

GANG_BACKEND_MISSING = Rule("gang-backend-missing")
VOLCANO, KUEUE = GangBackend.VOLCANO.value, GangBackend.KUEUE.value
NATIVE = GangBackend.NATIVE.value
#: API group of each backend, with the version by which Native gangs are recognized.
_GROUPS = {
    VOLCANO: (supported_products.VOLCANO.group, None),
    KUEUE: (supported_products.KUEUE.group, None),
    NATIVE: (supported_products.NATIVE_GANGS.group, "v1beta1"),
}
#: Name of LeaderWorkerSets in the configuration of Kueue's manager.
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
_BACKEND = ("schedulingStrategy", "gangPolicy", "backend")
#: The user's fields from which names of referenced objects are generated, by kind.
_FIELDS: Mapping[str, Location] = {
    "Queue": ("schedulingStrategy", "queue"),
    "LocalQueue": ("schedulingStrategy", "queue"),
    "PriorityClass": ("schedulingStrategy", "priorityClassName"),
    "StorageClass": ("model", "cache"),
}


def check_cluster(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    namespace: str = FALLBACK_NAMESPACE,
    *,
    registered: Iterable[Mapping[str, Any]] = (),
    kueue_namespace: str = supported_products.KUEUE.namespace,
) -> list[tuple[Finding, ...]]:
    """Return each plan's findings: missing gang backends, exceeded quotas and missing objects.

    Reads that the credentials do not allow are in `api.unread`.

    Args:
        api: The cluster.
        plans: Plans without errors.
        namespace: Namespace of services whose own is not known before the update.
        registered: Further objects that the same program creates.
        kueue_namespace: Namespace of Kueue's manager.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    return [
        tuple(chain(*findings))
        for findings in zip(
            check_gang_backends(api, plans, kueue_namespace),
            check_quotas(api, plans),
            check_named_objects(api, plans, namespace, registered),
            strict=True,
        )
    ]


def _get_backend(plan: ServicePlan) -> str | None:
    if plan.shape.local_queue is not None:
        return KUEUE
    if plan.gang is None:
        return None
    return NATIVE if plan.gang.is_native else VOLCANO


def check_gang_backends(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    kueue_namespace: str = supported_products.KUEUE.namespace,
) -> list[tuple[Finding, ...]]:
    """Return the findings of each plan about a missing gang backend.

    It is an error if the cluster has another backend, or a Kueue that does not manage
    LeaderWorkerSets. If it has no backend, the same program may install one, so only Kueue yields a
    warning.
    """
    # `versions` is empty only if the credentials may not read them.
    if not any(map(_get_backend, plans)) or not api.versions:
        return [() for _ in plans]
    installed = {
        backend
        for backend, (group, version) in _GROUPS.items()
        if group in api.versions and (version is None or version in api.versions[group])
    }
    unmanaged = KUEUE in installed and is_lws_managed_by_kueue(api, kueue_namespace) is False
    return [
        tuple(_check_backend(_get_backend(plan), installed, unmanaged=unmanaged)) for plan in plans
    ]


def _check_backend(
    backend: str | None, installed: Collection[str], *, unmanaged: bool
) -> Iterator[Finding]:
    if backend is not None and backend not in installed:
        missing = f"the cluster does not have {backend}"
        usable = [name for name in _GROUPS if name in installed]
        if unmanaged:
            usable.remove(KUEUE)
        if usable:
            message = f"{missing}; install it, or use backend {' or '.join(usable)}"
            yield error(GANG_BACKEND_MISSING, _BACKEND, message)
        elif backend == KUEUE:
            message = f"{missing}: pods would be scheduled one by one and not queued; install it"
            yield warning(GANG_BACKEND_MISSING, _BACKEND, message)
    elif backend == KUEUE and unmanaged:
        yield error(
            GANG_BACKEND_MISSING,
            _BACKEND,
            "Kueue does not manage LeaderWorkerSets here, and pods would start one by one; add "
            f"{KUEUE_FRAMEWORK} to integrations.frameworks in its configuration and restart its "
            "manager",
        )


def is_lws_managed_by_kueue(api: KubernetesApi, namespace: str) -> bool | None:
    """Return whether Kueue's manager is configured for LeaderWorkerSets, None if unknown."""
    frameworks = [
        integrations.get("frameworks") or ()
        for configuration in find_configurations(api, namespace, "config.kueue.x-k8s.io/")
        if isinstance(integrations := configuration.get("integrations") or {}, Mapping)
    ]
    return KUEUE_FRAMEWORK in chain(*frameworks) if frameworks else None


def find_configurations(
    api: KubernetesApi, namespace: str, group: str
) -> Iterator[Mapping[str, Any]]:
    """Yield the documents with an apiVersion of `group` in the namespace's ConfigMaps."""
    for config_map in api.objects("v1", "ConfigMap", namespace) or ():
        for text in (config_map.get("data") or {}).values():
            if group in text:
                # ConfigMaps may also contain text that is not YAML, such as templates.
                with contextlib.suppress(Exception):
                    for document in list(yaml.safe_load_all(text)):
                        is_mapping = isinstance(document, Mapping)
                        if is_mapping and str(document.get("apiVersion")).startswith(group):
                            yield document


#: API, kind, namespace (None for cluster-scoped kinds) and name of an object.
Reference = tuple[str, str, str | None, str]


def check_named_objects(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    namespace: str,
    registered: Iterable[Mapping[str, Any]] = (),
) -> list[tuple[Finding, ...]]:
    """Return a finding for each object that a plan refers to and the cluster does not have.

    Objects that the update creates are not reported, nor any in namespaces that do not exist yet.
    Arguments are as in `check_cluster`.
    """
    created = {
        (item["kind"], item["metadata"].get("name"))
        for item in (*registered, *(item for plan in plans for item in render(plan)))
    }
    existing: dict[Reference, bool] = {}
    findings: list[tuple[Finding, ...]] = []
    for plan in plans:
        missing: dict[Reference, Finding] = {}
        for reference, at, is_exact in find_references(plan, namespace):
            _, kind, home, name = reference
            if (kind, name) in created or (reference in missing and not is_exact):
                continue
            if reference not in existing:
                # The update may create a missing namespace and its objects.
                is_absent = home is not None and api.has("v1", "Namespace", None, home) is False
                existing[reference] = is_absent or api.has(*reference) is not False
            if not existing[reference]:
                # DeviceClasses are installed with a device driver, never by a service's program.
                make_finding = error if kind == "DeviceClass" else warning
                scope = "the cluster" if home is None else f"namespace {home}"
                missing[reference] = make_finding(
                    NAMED_OBJECT_MISSING,
                    at,
                    f"{scope} has no {kind} {name}: create it, or correct the name",
                )
        findings.append(tuple(missing.values()))
    return findings


def find_references(
    plan: ServicePlan, namespace: str
) -> Iterator[tuple[Reference, Location, bool]]:
    """Yield each object that a plan refers to, and the user's field as from `find_user_field`."""
    for dry_run in list_dry_run_objects(plan):
        home = dry_run.manifest["metadata"].get("namespace")
        home = namespace if is_output(home) else home
        for (api, kind), fields in REFERENCES.items():
            for at, name, parent in (
                value for field in fields for value in iterate_field(field, dry_run.manifest)
            ):
                if isinstance(name, str) and name and parent.get("optional") is not True:
                    scope = None if kind in CLUSTER_SCOPED else parent.get("namespace") or home
                    rendered_field = (*dry_run.template, *at)
                    user_field, is_exact = find_user_field(rendered_field, dry_run.rendered, plan)
                    user_field = user_field if is_exact else _FIELDS.get(kind, user_field)
                    yield (api, kind, scope, name), user_field, is_exact


QUOTA_TOO_SMALL = Rule("quota-too-small")


def _group(
    plans: Iterable[ServicePlan], find_key: Callable[[ServicePlan], tuple[Any, ...]]
) -> dict[tuple[Any, ...], list[ServicePlan]]:
    """Group services by key; drop services whose key has an unset or unknown part."""
    groups: dict[tuple[Any, ...], list[ServicePlan]] = {}
    for plan in plans:
        key = find_key(plan)
        if not any(part is None or is_output(part) for part in key):
            groups.setdefault(key, []).append(plan)
    return groups


def check_quotas(api: KubernetesApi, plans: Sequence[ServicePlan]) -> list[tuple[Finding, ...]]:
    """Return each plan's warnings about exceeded quotas.

    They are not errors, because the same update may raise a quota. If several services exceed a
    quota together, the last one gets the warning. Reads that the credentials do not allow are in
    `api.unread`.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    findings: dict[int, list[Finding]] = {id(plan): [] for plan in plans}
    for services, finding in (*_check_resource_quotas(api, plans), *_check_kueue_quota(api, plans)):
        findings[id(services[-1])].append(finding)
    return [tuple(findings[id(plan)]) for plan in plans]


#: Findings, each with the services that it is about.
_QuotaFindings = Iterator[tuple[list[ServicePlan], Finding]]


def _check_resource_quotas(api: KubernetesApi, plans: Sequence[ServicePlan]) -> _QuotaFindings:
    requesters = [plan for plan in plans if plan.total_accelerators]
    for (namespace,), services in _group(requesters, lambda plan: (plan.namespace,)).items():
        needed = sum((_sum_accelerators(plan) for plan in services), Counter[str]())
        limited = [
            (quota, limits)
            for quota in api.objects("v1", "ResourceQuota", namespace) or ()
            if (limits := _read_accelerator_limits(quota))
        ]
        running = _count_used_accelerators(api, namespace, services) if limited else None
        in_services = running or Counter[str]()
        for quota, limits in limited:
            # If pods cannot be read, it is unknown how much others use, and their use is ignored.
            used = {} if running is None else (quota.get("status") or {}).get("used") or {}
            for resource, allowed in limits.items():
                amount = needed[resource]
                all_used = quantity.parse(used.get(f"requests.{resource}", 0))
                elsewhere = max(all_used - in_services[resource], Decimal(0))
                if amount and allowed < amount + elsewhere:
                    in_use = f" ({quantity.write(elsewhere)} in use by others)" if elsewhere else ""
                    name = quota["metadata"]["name"]
                    message = (
                        f"ResourceQuota {name} in {namespace} allows {quantity.write(allowed)} "
                        f"{resource}{in_use}, but {_format_requesters(services)} {amount}: pods "
                        "above the quota are not created"
                    )
                    yield services, warning(QUOTA_TOO_SMALL, ("metadata", "namespace"), message)


def _count_used_accelerators(
    api: KubernetesApi, namespace: str, plans: Sequence[ServicePlan]
) -> Counter[str] | None:
    """Count the accelerators of the services' existing pods; None if pods cannot be read."""
    pods = api.objects("v1", "Pod", namespace, labelSelector=labels.SERVICE)
    if pods is None:
        return None
    services = {plan.service for plan in plans}
    counts = Counter[str]()
    for pod in pods:
        # Quotas do not count pods that have ended.
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if pod["metadata"]["labels"][labels.SERVICE] in services and not ended:
            counts += _count_accelerators(pod)
    return counts


def _check_kueue_quota(api: KubernetesApi, plans: Sequence[ServicePlan]) -> _QuotaFindings:
    group = supported_products.KUEUE.group
    by_cluster_queue: dict[str, list[ServicePlan]] = {}
    by_queue = _group(plans, lambda plan: (plan.namespace, plan.shape.local_queue))
    for (namespace, name), services in by_queue.items():
        queue = api.get(group, "LocalQueue", namespace, name)
        if queue is None:
            continue
        if cluster_queue_name := queue["spec"].get("clusterQueue"):
            by_cluster_queue.setdefault(cluster_queue_name, []).extend(services)
        for condition in (queue.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Active" and condition["status"] == "False":
                message = (
                    f"LocalQueue {name} in {namespace} is not active: {condition['message']}; "
                    "Kueue admits no replica that waits in it"
                )
                yield services, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    for name, services in by_cluster_queue.items():
        if (cluster_queue := api.get(group, "ClusterQueue", None, name)) is not None:
            yield from _check_cluster_queue(cluster_queue, services)


_QUEUE = ("schedulingStrategy", "queue")


def _check_cluster_queue(cluster_queue: Object, services: list[ServicePlan]) -> _QuotaFindings:
    """Check the quota of a ClusterQueue; amounts only if it cannot borrow from a cohort."""
    name, spec = cluster_queue["metadata"]["name"], cluster_queue["spec"]
    groups = spec.get("resourceGroups") or ()
    nominal = {resource: Decimal(0) for group in groups for resource in group["coveredResources"]}
    for resource in sorted(set().union(*map(_list_requested_resources, services)) - set(nominal)):
        requesters = [plan for plan in services if resource in _list_requested_resources(plan)]
        message = (
            f"ClusterQueue {name} has no quota for {resource}, which "
            f"{_format_requesters(requesters)}: Kueue admits none of these replicas"
        )
        yield requesters, warning(QUOTA_TOO_SMALL, _QUEUE, message)
    # v1beta1 calls it `cohort`.
    if spec.get("cohortName") or spec.get("cohort"):
        return
    for flavor in (flavor for group in groups for flavor in group["flavors"]):
        for quota in flavor["resources"]:
            nominal[quota["name"]] += quantity.parse(quota["nominalQuota"])
    for resource, amount in sum(
        (_sum_accelerators(plan) for plan in services), Counter[str]()
    ).items():
        if resource in nominal and nominal[resource] < amount:
            message = (
                f"ClusterQueue {name} allows {quantity.write(nominal[resource])} {resource}, but "
                f"{_format_requesters(services)} {amount}: replicas above the quota wait"
            )
            yield services, warning(QUOTA_TOO_SMALL, _QUEUE, message)


def _read_accelerator_limits(quota: Object) -> dict[str, Decimal]:
    """Return a ResourceQuota's limits of accelerators; a quota with a scope is not checked."""
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return {}
    return {
        resource: quantity.parse(allowed)
        for name, allowed in (spec.get("hard") or {}).items()
        if is_accelerator(resource := name.removeprefix("requests.")) and resource != name
    }


def _count_accelerators(pod: Mapping[str, Any]) -> Counter[str]:
    requests = pod_requests(pod).items()
    return Counter({name: int(amount) for name, amount in requests if is_accelerator(name)})


def _sum_accelerators(plan: ServicePlan) -> Counter[str]:
    """Count the accelerators of all pods of a service, by resource name.

    Autoscaled roles count with `maxReplicas`. Surge replicas of an update are counted as well.
    """
    needed = Counter[str]()
    for role in plan.roles:
        replicas = sum(count_max_replicas(role, lws) for lws in role.lws)
        for template, count in ((role.leader_template, 1), (role.worker_template, role.nodes - 1)):
            for resource, amount in _count_accelerators(template).items():
                needed[resource] += amount * count * replicas
    return +needed


def _list_requested_resources(plan: ServicePlan) -> set[str]:
    return {
        resource
        for role in plan.roles
        for template in (role.leader_template, role.worker_template)
        for resource, amount in pod_requests(template).items()
        if amount and role.replicas
    }


def _format_requesters(services: Sequence[ServicePlan]) -> str:
    """Return subject and verb of a sentence: `a requests`, `a, b request`."""
    names = ", ".join(dict.fromkeys(plan.service for plan in services))
    return f"{names} request{'s' if len(services) == 1 else ''}"
