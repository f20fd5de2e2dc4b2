"""Whether a cluster has what starts a service's pods together, and what it has instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import quote

from fusioninfer_pulumi.api.scheduling import GangBackend
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube.client import KubernetesApi
from fusioninfer_pulumi.kube.configurations import configurations
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan

GANG_BACKEND_MISSING = Rule(
    "gang-backend-missing",
    ("error", "warning"),
    "The cluster has what `gangPolicy.backend` names, and the LocalQueue of a service.",
    remedy="Use the backend that the cluster has, or install the other one first.",
)
VOLCANO, KUEUE = GangBackend.VOLCANO.value, GangBackend.KUEUE.value
NATIVE = GangBackend.NATIVE.value
KUEUE_GROUP = "kueue.x-k8s.io"
#: Group of each backend, and the version that shows it where the group is not its own.
_GROUPS = {
    VOLCANO: ("scheduling.volcano.sh", None),
    KUEUE: (KUEUE_GROUP, None),
    NATIVE: ("scheduling.k8s.io", "v1beta1"),
}
#: API groups that a cluster serves, each with its versions, the preferred one first.
Apis = Mapping[str, Collection[str]]
#: Where Kueue's manager runs by default, the group of its configuration, and the name of
#: LeaderWorkerSets in it.
KUEUE_NAMESPACE, _KUEUE_CONFIGURATION = "kueue-system", "config.kueue.x-k8s.io/"
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
_AT = ("schedulingStrategy", "gangPolicy", "backend")


def backend_of(plan: ServicePlan) -> str | None:
    """What starts a service's pods together, None where nothing does."""
    if plan.local_queue is not None:
        return KUEUE
    if plan.gang is None:
        return None
    return NATIVE if plan.gang.native else VOLCANO


def backends_of(apis: Apis) -> set[str]:
    """Returns the backends that a cluster with these APIs has."""
    return {
        backend
        for backend, (group, version) in _GROUPS.items()
        if group in apis and (version is None or version in apis[group])
    }


def proposal(plan: ServicePlan, backends: Collection[str], queues: Collection[str]) -> str:
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
    api: KubernetesApi, plans: Sequence[ServicePlan], namespace: str
) -> list[tuple[Finding, ...]]:
    """Returns findings of each plan: the cluster lacks its backend, or its LocalQueue.

    Where the cluster has no backend at all, the same program may install it first.

    Args:
        api: The cluster.
        plans: Plans without errors.
        namespace: Namespace of services whose own is not known before the update.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    gangs = [plan for plan in plans if backend_of(plan) is not None]
    apis = _apis(api) if gangs else {}
    if not apis:
        return [() for _ in plans]
    queues = _queues(api, apis, {_namespace(plan, namespace) for plan in gangs})
    unmanaged = KUEUE_GROUP in apis and _manages(api) is False
    return [
        tuple(
            _findings(
                plan,
                backends_of(apis),
                queues.get(_namespace(plan, namespace)),
                unmanaged=unmanaged,
            )
        )
        for plan in plans
    ]


def _findings(
    plan: ServicePlan,
    backends: Collection[str],
    queues: Collection[str] | None,
    *,
    unmanaged: bool,
) -> Iterator[Finding]:
    """Findings of one plan; `queues` are the LocalQueues of its namespace, None if not known."""
    backend = backend_of(plan)
    if backend is None:
        return
    if backend not in backends:
        others = set(backends) - ({KUEUE} if unmanaged else set())
        instead = proposal(plan, others, queues or ())
        text = f"the cluster does not have {backend}"
        if instead:
            yield error(GANG_BACKEND_MISSING, _AT, f"{text}, but another one: {instead}")
        elif backend == KUEUE:
            yield warning(
                GANG_BACKEND_MISSING, _AT, f"{text}: without it pods start one by one, in no queue"
            )
        return
    if backend != KUEUE:
        return
    if unmanaged:
        yield error(
            GANG_BACKEND_MISSING,
            _AT,
            "Kueue does not manage LeaderWorkerSets here, and pods would start one by one; add "
            f"{KUEUE_FRAMEWORK} to integrations.frameworks in its configuration",
        )
    if queues is not None and not is_output(plan.local_queue) and plan.local_queue not in queues:
        there = f"; it has {', '.join(sorted(queues))}" if queues else ""
        yield warning(
            GANG_BACKEND_MISSING,
            ("schedulingStrategy", "queue"),
            f"the namespace has no LocalQueue {plan.local_queue}: no replica is admitted without "
            f"it{there}",
        )


def frameworks_of(config_maps: Iterable[Mapping[str, Any]]) -> frozenset[str] | None:
    """Kinds that the configuration of Kueue's manager has switched on, None where it has none."""
    frameworks = [
        integrations.get("frameworks") or ()
        for configuration in configurations(config_maps, _KUEUE_CONFIGURATION)
        if isinstance(integrations := configuration.get("integrations") or {}, Mapping)
    ]
    return frozenset(map(str, chain(*frameworks))) if frameworks else None


def _manages(api: KubernetesApi) -> bool | None:
    """Whether Kueue's manager is configured for LeaderWorkerSets, None where that is not known."""
    code, answer = api.request("GET", f"/api/v1/namespaces/{KUEUE_NAMESPACE}/configmaps")
    frameworks = frameworks_of(answer.get("items") or () if code == 200 else ())
    return None if frameworks is None else KUEUE_FRAMEWORK in frameworks


def queues_for(api: KubernetesApi, plans: Iterable[ServicePlan]) -> dict[str, frozenset[str]]:
    """Names of LocalQueues by namespace, for services whose pods start together."""
    gangs = [plan for plan in plans if backend_of(plan) is not None]
    namespaces = {str(plan.namespace) for plan in gangs if not is_output(plan.namespace)}
    return _queues(api, _apis(api), namespaces)


def _queues(api: KubernetesApi, apis: Apis, namespaces: Iterable[str]) -> dict[str, frozenset[str]]:
    listed = {name: _local_queues(api, apis, name) for name in sorted(namespaces)}
    return {name: queues for name, queues in listed.items() if queues is not None}


def _namespace(plan: ServicePlan, otherwise: str) -> str:
    return otherwise if is_output(plan.namespace) else str(plan.namespace)


def _apis(api: KubernetesApi) -> Apis:
    """The API groups that the cluster serves; empty if that may not be read."""
    code, answer = api.request("GET", "/apis")
    groups = answer.get("groups") or () if code == 200 else ()
    return {
        group["name"]: [
            version["version"] for version in (group["preferredVersion"], *group["versions"])
        ]
        for group in groups
    }


def _local_queues(api: KubernetesApi, apis: Apis, namespace: str) -> frozenset[str] | None:
    """Names of the LocalQueues in a namespace, None where they cannot be read."""
    if KUEUE_GROUP not in apis:
        return None
    version = next(iter(apis[KUEUE_GROUP]))
    path = f"/apis/{KUEUE_GROUP}/{version}/namespaces/{quote(namespace, safe='')}/localqueues"
    code, answer = api.request("GET", path)
    if code != 200:
        return None
    return frozenset(item["metadata"]["name"] for item in answer.get("items") or ())
