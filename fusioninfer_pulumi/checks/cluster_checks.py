"""What a cluster lacks for services: gang backends, quota, and objects that services name."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import yaml

from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.checks.object_checks import find_user_field
from fusioninfer_pulumi.checks.quotas import check_quotas
from fusioninfer_pulumi.checks.server_dry_run import (
    FALLBACK_NAMESPACE,
    list_dry_run_objects,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import supported_products
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.supported_products import CLUSTER_WIDE, REFERENCES, iterate_field
from fusioninfer_pulumi.plan.service_objects import render
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import NAMED_OBJECT_MISSING

GANG_BACKEND_MISSING = Rule("gang-backend-missing")
VOLCANO, KUEUE = GangBackend.VOLCANO.value, GangBackend.KUEUE.value
NATIVE = GangBackend.NATIVE.value
#: Group of each backend, and the version that shows it where the group is not its own.
_GROUPS = {
    VOLCANO: (supported_products.VOLCANO.group, None),
    KUEUE: (supported_products.KUEUE.group, None),
    NATIVE: (supported_products.NATIVE_GANGS.group, "v1beta1"),
}
#: LeaderWorkerSets in the configuration of Kueue's manager.
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
_BACKEND = ("schedulingStrategy", "gangPolicy", "backend")
#: Fields of a service that become names in generated objects.
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
    """Return what the cluster lacks for each plan: gang backend, quota, objects that it names.

    What the credentials may not read is in `api.unread`.

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
        tuple(chain(*of_plan))
        for of_plan in zip(
            check_gang_backends(api, plans, kueue_namespace),
            check_quotas(api, plans),
            check_named_objects(api, plans, namespace, registered),
            strict=True,
        )
    ]


def _backend_of(plan: ServicePlan) -> str | None:
    """Return the backend that gang-schedules a service's pods, None for none."""
    if plan.shape.local_queue is not None:
        return KUEUE
    if plan.gang is None:
        return None
    return NATIVE if plan.gang.native else VOLCANO


def check_gang_backends(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    kueue_namespace: str = supported_products.KUEUE.namespace,
) -> list[tuple[Finding, ...]]:
    """Return findings of each plan whose gang backend the cluster lacks, but has another one.

    Where the cluster has no backend at all, the same program may install it first.
    """
    # A cluster always has API groups, but for credentials that may not read them.
    if not any(map(_backend_of, plans)) or not api.versions:
        return [() for _ in plans]
    installed = {
        backend
        for backend, (group, version) in _GROUPS.items()
        if group in api.versions and (version is None or version in api.versions[group])
    }
    unmanaged = KUEUE in installed and is_lws_managed_by_kueue(api, kueue_namespace) is False
    return [
        tuple(_backend_findings(_backend_of(plan), installed, unmanaged=unmanaged))
        for plan in plans
    ]


def _backend_findings(
    backend: str | None, installed: Collection[str], *, unmanaged: bool
) -> Iterator[Finding]:
    if backend is not None and backend not in installed:
        text = f"the cluster does not have {backend}"
        usable = [name for name in _GROUPS if name in installed]
        if unmanaged:
            usable.remove(KUEUE)
        if usable:
            message = f"{text}; install it, or use backend {' or '.join(usable)}"
            yield error(GANG_BACKEND_MISSING, _BACKEND, message)
        elif backend == KUEUE:
            message = f"{text}: without it pods start one by one, in no queue"
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
        for configuration in configurations(api, namespace, "config.kueue.x-k8s.io/")
        if isinstance(integrations := configuration.get("integrations") or {}, Mapping)
    ]
    return KUEUE_FRAMEWORK in chain(*frameworks) if frameworks else None


def configurations(api: KubernetesApi, namespace: str, group: str) -> Iterator[Mapping[str, Any]]:
    """Yield a manager's configurations of an API group, which are texts in ConfigMaps."""
    for config_map in api.objects("v1", "ConfigMap", namespace) or ():
        for text in (config_map.get("data") or {}).values():
            if group in text:
                # Other texts of a ConfigMap, such as templates, need not be YAML.
                with contextlib.suppress(Exception):
                    for document in list(yaml.safe_load_all(text)):
                        is_mapping = isinstance(document, Mapping)
                        if is_mapping and str(document.get("apiVersion")).startswith(group):
                            yield document


class Reference(NamedTuple):
    """An object that a service names; its namespace is None for a kind without namespaces."""

    api: str
    kind: str
    namespace: str | None
    name: str


def check_named_objects(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    namespace: str,
    registered: Iterable[Mapping[str, Any]] = (),
) -> list[tuple[Finding, ...]]:
    """Return a finding for each object that a plan names and the cluster does not have.

    Objects of the plans themselves exist after the update, and so do those of namespaces that the
    update creates. Arguments are those of `check_cluster`.
    """
    created = {
        (item["kind"], item["metadata"].get("name"))
        for item in (*registered, *(item for plan in plans for item in render(plan)))
    }
    existing: dict[Reference, bool] = {}
    findings: list[tuple[Finding, ...]] = []
    for plan in plans:
        missing: dict[Reference, Finding] = {}
        for reference, at, exact in references(plan, namespace):
            if (reference.kind, reference.name) in created or (reference in missing and not exact):
                continue
            place = reference.namespace
            if reference not in existing:
                # The update may create the namespace and what is in it.
                absent = place is not None and api.has("v1", "Namespace", None, place) is False
                existing[reference] = absent or api.has(*reference) is not False
            if not existing[reference]:
                # The driver of devices is installed apart from services.
                make_finding = error if reference.kind == "DeviceClass" else warning
                where = "the cluster" if place is None else f"namespace {place}"
                missing[reference] = make_finding(
                    NAMED_OBJECT_MISSING,
                    at,
                    f"{where} has no {reference.kind} {reference.name}: create it, or correct the "
                    "name",
                )
        findings.append(tuple(missing.values()))
    return findings


def references(plan: ServicePlan, namespace: str) -> Iterator[tuple[Reference, Location, bool]]:
    """Yield the objects that a plan names: each with its field, and whether users wrote that."""
    for tried in list_dry_run_objects(plan):
        own = tried.manifest["metadata"].get("namespace")
        own = namespace if is_output(own) else own
        for (api, kind), fields in REFERENCES.items():
            for at, name, parent in (
                value for field in fields for value in iterate_field(field, tried.manifest)
            ):
                if isinstance(name, str) and name and parent.get("optional") is not True:
                    where = None if kind in CLUSTER_WIDE else parent.get("namespace") or own
                    user_field, exact = find_user_field(tried.in_rendered(at), tried.rendered, plan)
                    user_field = user_field if exact else _FIELDS.get(kind, user_field)
                    yield Reference(api, kind, where, name), user_field, exact
