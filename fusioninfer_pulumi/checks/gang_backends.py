"""Whether a cluster has what starts a service's pods together, and what it has instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import quote

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
#: API groups of the backends that are installed.
VOLCANO_GROUP, KUEUE_GROUP = "scheduling.volcano.sh", "kueue.x-k8s.io"
#: Where Kueue's manager runs by default, the group of its configuration, and the name of
#: LeaderWorkerSets in it.
KUEUE_NAMESPACE, KUEUE_CONFIGURATION = "kueue-system", "config.kueue.x-k8s.io/"
KUEUE_FRAMEWORK = "leaderworkerset.x-k8s.io/leaderworkerset"
_GROUPS = {"Volcano": VOLCANO_GROUP, "Kueue": KUEUE_GROUP}
_AT = ("schedulingStrategy", "gangPolicy", "backend")


def backend_of(plan: ServicePlan) -> str | None:
    """The installed backend that starts a service's pods together, None where nothing does."""
    if plan.local_queue is not None:
        return "Kueue"
    return "Volcano" if plan.gang is not None else None


def proposal(plan: ServicePlan, groups: Collection[str], queues: Collection[str]) -> str:
    """What a service could write for a cluster without its backend; empty if there is nothing.

    Args:
        plan: A service with a backend.
        groups: API groups that the cluster serves.
        queues: Names of the LocalQueues in the namespace of the service.
    """
    if backend_of(plan) == "Kueue":
        return "gangPolicy.backend: Volcano" if VOLCANO_GROUP in groups else ""
    gang = plan.gang
    # Kueue knows no minimum of each role, and no HyperNodes.
    if gang is None or gang.partial or gang.topology is not None or KUEUE_GROUP not in groups:
        return ""
    named = " or ".join(sorted(queues)) or "a LocalQueue, of which the namespace has none"
    return f"gangPolicy.backend: Kueue with queue: {named}"


def backend_findings(api: KubernetesApi, plan: ServicePlan, namespace: str) -> Iterator[Finding]:
    """Yields findings of a service whose backend the cluster lacks, or whose LocalQueue.

    Where the cluster has no backend at all, the same program may install it first.

    Args:
        api: The cluster.
        plan: A plan without errors.
        namespace: Namespace of services whose own is not known before the update.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    backend = backend_of(plan)
    if backend is None:
        return
    groups = _groups(api)
    if not groups:
        return
    queues = _local_queues(api, groups, _namespace(plan, namespace))
    unmanaged = KUEUE_GROUP in groups and _manages(api) is False
    if _GROUPS[backend] not in groups:
        usable = groups.keys() - ({KUEUE_GROUP} if unmanaged else set())
        instead = proposal(plan, usable, queues or ())
        text = f"the cluster does not have {backend}"
        if instead:
            yield error(GANG_BACKEND_MISSING, _AT, f"{text}, but another one: {instead}")
        elif backend == "Kueue":
            yield warning(
                GANG_BACKEND_MISSING, _AT, f"{text}: without it pods start one by one, in no queue"
            )
        return
    if backend != "Kueue":
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


def _manages(api: KubernetesApi) -> bool | None:
    """Whether Kueue's manager is configured for LeaderWorkerSets, None where that is not known."""
    code, answer = api.request("GET", f"/api/v1/namespaces/{KUEUE_NAMESPACE}/configmaps")
    texts = [
        text
        for config_map in (answer.get("items") or () if code == 200 else ())
        for text in (config_map.get("data") or {}).values()
    ]
    frameworks = [
        (configuration.get("integrations") or {}).get("frameworks") or ()
        for text in texts
        for configuration in configurations(text, KUEUE_CONFIGURATION)
    ]
    return any(KUEUE_FRAMEWORK in names for names in frameworks) if frameworks else None


def queues_for(api: KubernetesApi, plans: Iterable[ServicePlan]) -> dict[str, frozenset[str]]:
    """Names of LocalQueues by namespace, for services whose pods start together."""
    groups = _groups(api)
    namespaces = {
        str(plan.namespace)
        for plan in plans
        if backend_of(plan) is not None and not is_output(plan.namespace)
    }
    listed = {name: _local_queues(api, groups, name) for name in sorted(namespaces)}
    return {name: queues for name, queues in listed.items() if queues is not None}


def _namespace(plan: ServicePlan, otherwise: str) -> str:
    return otherwise if is_output(plan.namespace) else str(plan.namespace)


def _groups(api: KubernetesApi) -> Mapping[str, str]:
    """The preferred version of each API group that the cluster serves; empty if not allowed."""
    code, answer = api.request("GET", "/apis")
    groups = answer.get("groups") or () if code == 200 else ()
    return {group["name"]: group["preferredVersion"]["version"] for group in groups}


def _local_queues(
    api: KubernetesApi, groups: Mapping[str, str], namespace: str
) -> frozenset[str] | None:
    """Names of the LocalQueues in a namespace, None where they cannot be read."""
    version = groups.get(KUEUE_GROUP)
    if version is None:
        return None
    path = f"/apis/{KUEUE_GROUP}/{version}/namespaces/{quote(namespace, safe='')}/localqueues"
    code, answer = api.request("GET", path)
    if code != 200:
        return None
    return frozenset(item["metadata"]["name"] for item in answer.get("items") or ())
