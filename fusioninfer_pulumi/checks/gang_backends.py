"""Whether a cluster has what starts a service's pods together, and what it has instead."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import yaml

from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube import prerequisites
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan

GANG_BACKEND_MISSING = Rule("gang-backend-missing")
VOLCANO, KUEUE = GangBackend.VOLCANO.value, GangBackend.KUEUE.value
NATIVE = GangBackend.NATIVE.value
#: Group of each backend, and the version that shows it where the group is not its own.
_GROUPS = {
    VOLCANO: (prerequisites.VOLCANO.group, None),
    KUEUE: (prerequisites.KUEUE.group, None),
    NATIVE: (prerequisites.NATIVE_GANGS.group, "v1beta1"),
}
#: LeaderWorkerSets in the configuration of Kueue's manager.
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
_AT = ("schedulingStrategy", "gangPolicy", "backend")


def backend_of(plan: ServicePlan) -> str | None:
    """What starts a service's pods together, None where nothing does."""
    if plan.shape.local_queue is not None:
        return KUEUE
    if plan.gang is None:
        return None
    return NATIVE if plan.gang.native else VOLCANO


def _backends_of(apis: Mapping[str, Collection[str]]) -> set[str]:
    """Returns the backends that a cluster with these API groups and versions has."""
    return {
        backend
        for backend, (group, version) in _GROUPS.items()
        if group in apis and (version is None or version in apis[group])
    }


def _proposal(plan: ServicePlan, backends: Collection[str], queues: Collection[str]) -> str:
    """What a service could write for a cluster without its backend; empty if there is nothing.

    Args:
        plan: A service with a backend.
        backends: Those that the cluster has.
        queues: Names of the LocalQueues in the namespace of the service.
    """
    others = set(backends) - {backend_of(plan)}
    if VOLCANO in others:
        return "gangPolicy.backend: Volcano"
    gang = plan.gang
    # Only Volcano knows a minimum of each role, and HyperNodes.
    if gang is not None and (gang.partial or gang.topology is not None):
        return ""
    if KUEUE in others:
        named = " or ".join(sorted(queues)) or "a LocalQueue, of which the namespace has none"
        return f"gangPolicy.backend: Kueue with queue: {named}"
    return "gangPolicy.backend: Native" if NATIVE in others else ""


def gang_backend_findings(
    api: KubernetesApi,
    plans: Sequence[ServicePlan],
    namespace: str,
    kueue_namespace: str = prerequisites.KUEUE.namespace,
) -> list[tuple[Finding, ...]]:
    """Returns findings of each plan: the cluster lacks its backend, but has another one.

    Where the cluster has no backend at all, the same program may install it first.

    Args:
        api: The cluster.
        plans: Plans without errors.
        namespace: Namespace of services whose own is not known before the update.
        kueue_namespace: Namespace of Kueue's manager.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    gangs = [plan for plan in plans if backend_of(plan) is not None]
    backends = _backends_of(api.versions) if gangs else set()
    # A cluster always has API groups, but for credentials that may not read them.
    known = bool(gangs and api.versions)
    unmanaged = KUEUE in backends and manages_lws(api, kueue_namespace) is False
    queues: dict[str, list[str]] = {}
    findings: list[tuple[Finding, ...]] = []
    for plan in plans:
        backend = backend_of(plan)
        place = namespace if is_output(plan.namespace) else str(plan.namespace)
        needs_queues = known and backend not in (None, *backends) and KUEUE in backends
        if needs_queues and place not in queues:
            listed = api.objects(prerequisites.KUEUE.group, "LocalQueue", place) or ()
            queues[place] = sorted(item["metadata"]["name"] for item in listed)
        found = _findings(plan, backends, queues.get(place, ()), unmanaged=unmanaged)
        findings.append(tuple(found) if known else ())
    return findings


def _findings(
    plan: ServicePlan, backends: Collection[str], queues: Sequence[str], *, unmanaged: bool
) -> Iterator[Finding]:
    """Yields findings of one plan; `queues` are the LocalQueues of its namespace."""
    backend = backend_of(plan)
    if backend is not None and backend not in backends:
        others = set(backends) - ({KUEUE} if unmanaged else set())
        instead = _proposal(plan, others, queues)
        text = f"the cluster does not have {backend}"
        if instead:
            yield error(GANG_BACKEND_MISSING, _AT, f"{text}, but another one: {instead}")
        elif backend == KUEUE:
            yield warning(
                GANG_BACKEND_MISSING, _AT, f"{text}: without it pods start one by one, in no queue"
            )
    elif backend == KUEUE and unmanaged:
        yield error(
            GANG_BACKEND_MISSING,
            _AT,
            "Kueue does not manage LeaderWorkerSets here, and pods would start one by one; add "
            f"{KUEUE_FRAMEWORK} to integrations.frameworks in its configuration and restart its "
            "manager",
        )


def manages_lws(api: KubernetesApi, namespace: str) -> bool | None:
    """Returns whether Kueue's manager is configured for LeaderWorkerSets, None if unknown."""
    frameworks = [
        integrations.get("frameworks") or ()
        for configuration in configurations(api, namespace, "config.kueue.x-k8s.io/")
        if isinstance(integrations := configuration.get("integrations") or {}, Mapping)
    ]
    return KUEUE_FRAMEWORK in chain(*frameworks) if frameworks else None


def configurations(api: KubernetesApi, namespace: str, group: str) -> Iterator[Mapping[str, Any]]:
    """Yields a manager's configurations of an API group, which are texts in ConfigMaps."""
    for config_map in api.objects("v1", "ConfigMap", namespace) or ():
        for text in (config_map.get("data") or {}).values():
            if group in text:
                # Other texts of a ConfigMap, such as templates, need not be YAML.
                with contextlib.suppress(Exception):
                    for document in list(yaml.safe_load_all(text)):
                        is_mapping = isinstance(document, Mapping)
                        if is_mapping and str(document.get("apiVersion")).startswith(group):
                            yield document
