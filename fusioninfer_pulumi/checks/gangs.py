"""Checks of scheduling: settings that deadlock, conflict or have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.role import StartupPolicy
from fusioninfer_pulumi.api.scheduling import (
    GangBackend,
    GangMode,
    NetworkTopologyMode,
    NetworkTopologyRuleArgs,
    RequiredReplicas,
    SchedulingStrategyArgs,
)
from fusioninfer_pulumi.api.topology import (
    DEFAULT_SCHEDULER,
    VOLCANO,
    is_prefill_decode,
)
from fusioninfer_pulumi.api.topology_spread import WhenUnsatisfiable
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.resources import pod_requests
from fusioninfer_pulumi.pods.pod import Pod
from fusioninfer_pulumi.rules.common import (
    CLUSTER_MUST_HAVE,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    OUT_OF_RANGE,
    SET_BY_LIBRARY,
)
from fusioninfer_pulumi.topology.gang import GangPlan
from fusioninfer_pulumi.topology.role import RolePlan

GANG_DEADLOCK = Rule("gang-deadlock")
SPREAD_STARVES_REPLICAS = Rule("spread-starves-replicas")

SCHEDULER_DIFFERS_FROM_SERVICE = Rule("scheduler-differs-from-service")
GANG_POD_WITHOUT_REQUESTS = Rule("gang-pod-without-requests")
SCHEDULER_WITHOUT_GANGS = Rule("scheduler-without-gangs")
GANG_ALL_OR_NOTHING = Rule("gang-all-or-nothing")
ROLES_START_APART = Rule("roles-start-apart")

_STRATEGY = ("schedulingStrategy",)


def scheduling_findings(
    roles: Sequence[RolePlan],
    scheduling: SchedulingStrategyArgs,
    annotations: Mapping[str, Any],
    scheduler: str | None,
    gang: GangPlan | None,
    *,
    gang_scheduled: bool,
) -> Iterator[Finding]:
    """Yields the findings of a service's scheduling strategy and its pods' scheduler fields."""
    for role in roles:
        for pod in role.pods.written:
            yield from _pod_scheduler(pod, scheduling, scheduler)
            if gang_scheduled and scheduling.gang_policy.backend is GangBackend.NATIVE:
                yield from _native_pod(pod, scheduling)
            elif gang_scheduled:
                yield from _gang_pod(pod)
                yield from _without_requests(role, pod.path)
            elif scheduling.gang_policy.backend is GangBackend.VOLCANO and scheduler:
                yield from _pod_queue(pod, scheduling.queue)
        if not role.args.sub_group_policy and _annotated(
            role, annotations, labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY
        ):
            yield error(
                FIELD_OUT_OF_PLACE,
                ("roles", role.position, "subGroupPolicy"),
                f"is required by the annotation {labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY}",
            )
    if scheduling.gang_policy.backend is GangBackend.KUEUE:
        yield from _kueue(roles, scheduling)
    elif scheduling.gang_policy.backend is GangBackend.NATIVE:
        yield from _native(roles, scheduling, annotations, gang, gang_scheduled=gang_scheduled)
    elif gang_scheduled:
        yield from _deadlocks(roles, scheduling, annotations)
        yield from _minimum(roles, scheduling, gang)
    else:
        yield from _without_effect(scheduling, scheduler)


def _annotations(pod: Pod) -> Mapping[str, Any]:
    """Annotations that the user wrote."""
    return (pod.written.get("metadata") or {}).get("annotations") or {}


def _annotated(role: RolePlan, annotations: Mapping[str, Any], key: str) -> bool:
    return key in annotations or any(key in _annotations(pod) for pod in role.pods.written)


def _annotation(pod: Pod, key: str) -> Location:
    return (*pod.path, "metadata", "annotations", key)


def _pod_scheduler(
    pod: Pod, scheduling: SchedulingStrategyArgs, scheduler: str | None
) -> Iterator[Finding]:
    for field, wanted in (
        ("schedulerName", scheduler),
        ("priorityClassName", scheduling.priority_class_name),
    ):
        written = pod.written["spec"].get(field)
        if wanted is not None and written not in (None, wanted):
            yield error(
                SCHEDULER_DIFFERS_FROM_SERVICE,
                (*pod.path, "spec", field),
                f'must be "{wanted}" like the service\'s, or absent; got {shown(written)}',
            )


def _pod_queue(pod: Pod, queue: Any) -> Iterator[Finding]:
    written = _annotations(pod).get(labels.QUEUE_NAME)
    if written not in (None, queue) and not is_output(queue):
        yield error(
            SCHEDULER_DIFFERS_FROM_SERVICE,
            _annotation(pod, labels.QUEUE_NAME),
            f'must be "{queue}" like schedulingStrategy.queue, or absent; got {shown(written)}',
        )


def _gang_pod(pod: Pod) -> Iterator[Finding]:
    annotations = _annotations(pod)
    for key in sorted(labels.GANG_ANNOTATIONS & set(annotations)):
        message = "is set by fusioninfer-pulumi; remove it"
        yield error(SET_BY_LIBRARY, _annotation(pod, key), message)


def _without_requests(role: RolePlan, written: Location) -> Iterator[Finding]:
    """Warns where one of the pods of a template that the user wrote asks for nothing."""
    pods = [pod for pod in role.pods.each if pod.path == written]
    if not all(any(pod_requests(pod.template).values()) for pod in pods):
        yield warning(
            GANG_POD_WITHOUT_REQUESTS,
            (*written, "spec", "containers"),
            "no container asks for any resource: Volcano counts such pods as placed and does not "
            "hold them together with the gang",
        )


def _deadlocks(
    roles: Sequence[RolePlan], scheduling: SchedulingStrategyArgs, annotations: Mapping[str, Any]
) -> Iterator[Finding]:
    yield from _created_late(roles, annotations)
    for role in roles:
        policy, several = role.args.sub_group_policy, labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY
        if policy and policy.sub_group_size < role.nodes and _annotated(role, annotations, several):
            yield error(
                GANG_DEADLOCK,
                ("roles", role.position, "subGroupPolicy"),
                f"several subgroups with the annotation {several} are never placed by Volcano, "
                "which takes all pods of a replica to fit the same nodes; remove the annotation, "
                "or set schedulingStrategy.gangPolicy.mode to Off",
            )
    if scheduling.scheduler_name == DEFAULT_SCHEDULER:
        yield error(
            SCHEDULER_WITHOUT_GANGS,
            (*_STRATEGY, "schedulerName"),
            f"{DEFAULT_SCHEDULER} knows no gangs; use volcano (the default here), or set "
            "gangPolicy.mode to Off",
        )


def _created_late(roles: Sequence[RolePlan], annotations: Mapping[str, Any]) -> Iterator[Finding]:
    """Refuses what creates pods of a gang only after others of it are placed."""
    way_out = "remove it, or set schedulingStrategy.gangPolicy.mode to Off"
    for role in roles:
        if role.args.startup_policy is StartupPolicy.LEADER_READY:
            yield error(
                GANG_DEADLOCK,
                ("roles", role.position, "startupPolicy"),
                "LeaderReady deadlocks with gang scheduling: the workers are created after the "
                f"leader is ready, and the leader is scheduled only with its workers; {way_out}",
            )
    key = labels.LWS_EXCLUSIVE_TOPOLOGY
    exclusive = (
        "deadlocks with gang scheduling: the workers are created after the leader is scheduled, "
        f"and the leader is scheduled only with its workers; {way_out}"
    )
    if key in annotations:
        yield error(GANG_DEADLOCK, ("metadata", "annotations", key), exclusive)
    for role in roles:
        for pod in role.pods.written:
            if key in _annotations(pod):
                yield error(
                    GANG_DEADLOCK,
                    _annotation(pod, key),
                    "binds the leaders alone: LeaderWorkerSet places workers by its own "
                    f"annotation, which deadlocks with gang scheduling; {way_out}",
                )


def _minimum(
    roles: Sequence[RolePlan], scheduling: SchedulingStrategyArgs, gang: GangPlan | None
) -> Iterator[Finding]:
    at = (*_STRATEGY, "gangPolicy", "minRoleReplicas")
    if gang is None:
        if any(role.replicas for role in roles):
            yield error(OUT_OF_RANGE, at, "must be above 0 for at least one role, got 0 for all")
        return
    lowest = scheduling.gang_policy.required_replicas is RequiredReplicas.LOWEST_ORDINALS
    if lowest and not any(group.lowest for group in gang.sub_groups or ()):
        yield warning(
            FIELD_WITHOUT_EFFECT,
            (*_STRATEGY, "gangPolicy", "requiredReplicas"),
            "LowestOrdinals has no effect: minRoleReplicas names no role with a minimum above 0",
        )
    # A single replica cannot start in part.
    if not gang.partial and sum(role.group_replicas for role in roles) > 1:
        scope = "" if gang.group is None else " of a group"
        yield info(
            GANG_ALL_OR_NOTHING,
            (*_STRATEGY, "gangPolicy"),
            f"the gang is all-or-nothing: nothing{scope} starts before all {gang.min_member} "
            "pods fit; minRoleReplicas lets a part of it start (Volcano 1.14.1 and later)",
        )


def _kueue(roles: Sequence[RolePlan], scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """What Kueue cannot do, or needs."""
    policy, at = scheduling.gang_policy, (*_STRATEGY, "gangPolicy")
    for field, present, reason in (
        (
            "minRoleReplicas",
            policy.min_role_replicas is not None,
            "Kueue admits each replica by itself and knows no minimum of each role",
        ),
        (
            "networkTopology",
            policy.network_topology is not None,
            (
                "HyperNodes are Volcano's; Kueue reads the annotation "
                "kueue.x-k8s.io/podset-required-topology of the pod templates"
            ),
        ),
    ):
        if present:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, field),
                f"{reason}; remove it, or use backend Volcano",
            )
    for field, present, reason in (
        (
            "requiredReplicas",
            policy.required_replicas is not RequiredReplicas.ANY,
            "Kueue knows no minimum of each role",
        ),
        ("minResources", policy.min_resources, "Kueue counts the requests of every replica"),
    ):
        if present:
            yield warning(FIELD_WITHOUT_EFFECT, (*at, field), f"has no effect: {reason}")
    if policy.mode is GangMode.OFF:
        if scheduling.queue:
            yield warning(
                FIELD_WITHOUT_EFFECT,
                (*_STRATEGY, "queue"),
                "has no effect: with gangPolicy.mode Off replicas wait in no LocalQueue",
            )
        return
    if not scheduling.queue:
        yield error(
            FIELD_REQUIRED,
            (*_STRATEGY, "queue"),
            "is required with backend Kueue: name a LocalQueue of the namespace; without one "
            "Kueue admits nothing",
        )
    if is_prefill_decode([role.args for role in roles if role.replicas]):
        yield warning(
            ROLES_START_APART,
            (*at, "backend"),
            "Kueue admits each replica by itself: where quota is short, prefill may hold "
            "accelerators while decode waits, or the other way round; Volcano holds them together",
        )


def _native_pod(pod: Pod, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """Fields of a template that keep Kubernetes' own gang from being placed."""
    spec = pod.written["spec"]
    if "schedulingGroup" in spec:
        message = "is set by fusioninfer-pulumi; remove it"
        yield error(SET_BY_LIBRARY, (*pod.path, "spec", "schedulingGroup"), message)
    if spec.get("priorityClassName") and scheduling.priority_class_name is None:
        yield error(
            GANG_DEADLOCK,
            (*pod.path, "spec", "priorityClassName"),
            "gives the pod another priority than the PodGroup has, and Kubernetes places no such "
            "gang; write it as schedulingStrategy.priorityClassName",
        )


def _native(
    roles: Sequence[RolePlan],
    scheduling: SchedulingStrategyArgs,
    annotations: Mapping[str, Any],
    gang: GangPlan | None,
    *,
    gang_scheduled: bool,
) -> Iterator[Finding]:
    """What gangs of Kubernetes itself cannot do, or need."""
    policy, at = scheduling.gang_policy, (*_STRATEGY, "gangPolicy")
    for field, present, reason in (
        (
            "minRoleReplicas",
            policy.min_role_replicas is not None,
            "a PodGroup of Kubernetes counts pods and knows no roles",
        ),
        (
            "networkTopology",
            policy.network_topology is not None,
            "HyperNodes are Volcano's",
        ),
    ):
        if present:
            message = f"{reason}; remove it, or use backend Volcano"
            yield error(FIELD_OUT_OF_PLACE, (*at, field), message)
    for path, present, reason in (
        (
            (*at, "requiredReplicas"),
            policy.required_replicas is not RequiredReplicas.ANY,
            "all replicas are required",
        ),
        (
            (*at, "minResources"),
            policy.min_resources,
            "Kubernetes has no queue that would count resources",
        ),
        (
            (*_STRATEGY, "queue"),
            scheduling.queue is not None,
            "Kubernetes' own gangs wait in no queue",
        ),
    ):
        if present:
            yield warning(FIELD_WITHOUT_EFFECT, path, f"has no effect: {reason}")
    if not gang_scheduled:
        return
    yield from _created_late(roles, annotations)
    if scheduling.scheduler_name == VOLCANO:
        yield error(
            SCHEDULER_WITHOUT_GANGS,
            (*_STRATEGY, "schedulerName"),
            f"{VOLCANO} does not read PodGroups of Kubernetes itself; use {DEFAULT_SCHEDULER} (the "
            "default here), or backend Volcano",
        )
    if gang is not None and sum(role.group_replicas for role in roles) > 1:
        scope = "" if gang.group is None else " of a group"
        yield info(
            GANG_ALL_OR_NOTHING,
            at,
            f"the gang is all-or-nothing: nothing{scope} starts before all {gang.min_member} pods "
            "fit; a part of it may start only with backend Volcano",
        )


def _without_effect(scheduling: SchedulingStrategyArgs, scheduler: str | None) -> Iterator[Finding]:
    policy = scheduling.gang_policy
    for field, present in (
        ("minRoleReplicas", policy.min_role_replicas is not None),
        ("requiredReplicas", policy.required_replicas is not RequiredReplicas.ANY),
        ("minResources", policy.min_resources),
    ):
        if present:
            yield warning(
                FIELD_WITHOUT_EFFECT,
                (*_STRATEGY, "gangPolicy", field),
                "has no effect: the pods are no gang (gangPolicy.mode: On makes them one)",
            )
    if scheduling.queue and scheduler in (None, DEFAULT_SCHEDULER):
        yield warning(
            FIELD_WITHOUT_EFFECT,
            (*_STRATEGY, "queue"),
            "has no effect: queues belong to Volcano, and these pods use another scheduler",
        )


_AT = (*_STRATEGY, "gangPolicy", "networkTopology")


def network_topology_findings(
    scheduling: SchedulingStrategyArgs, *, gang_scheduled: bool
) -> Iterator[Finding]:
    """Yields the findings of a gang's network topology."""
    policy = scheduling.gang_policy
    topology = policy.network_topology
    if topology is None:
        return
    rules = {"groupPolicy": topology.group_policy, "rolePolicy": topology.role_policy}
    present = {name: rule for name, rule in rules.items() if rule is not None}
    if not present:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            _AT,
            "has no effect: it names neither groupPolicy nor rolePolicy",
        )
        return
    if policy.backend is not GangBackend.VOLCANO:
        return  # refused as a whole
    if not gang_scheduled:
        yield error(
            FIELD_OUT_OF_PLACE,
            _AT,
            "needs a gang, and the pods are no gang; remove it, or set gangPolicy.mode to On",
        )
        return
    for name, rule in present.items():
        yield from _network_topology_rule((*_AT, name), rule)
    if topology.role_policy is not None and policy.min_role_replicas is None:
        yield info(
            CLUSTER_MUST_HAVE,
            (*_AT, "rolePolicy"),
            "makes each replica a subgroup of the PodGroup: needs Volcano 1.14.1 or later",
        )
    yield info(
        CLUSTER_MUST_HAVE,
        _AT,
        "has an effect only with Volcano's scheduler plugin network-topology-aware (off by "
        "default) and HyperNodes (topology.volcano.sh); the capacity table ignores it",
    )


def _network_topology_rule(at: Location, rule: NetworkTopologyRuleArgs) -> Iterator[Finding]:
    hard = rule.mode is NetworkTopologyMode.HARD
    if hard and rule.highest_tier_allowed is None:
        yield error(
            FIELD_REQUIRED,
            (*at, "highestTierAllowed"),
            "is required with mode hard: Volcano ignores the mode without it",
        )
    elif not hard and rule.highest_tier_allowed is not None:
        yield warning(
            FIELD_WITHOUT_EFFECT,
            (*at, "highestTierAllowed"),
            "has no effect with mode soft",
        )


def spread_findings(role: RolePlan, gang: GangPlan | None) -> Iterator[Finding]:
    """What a user may not expect of spread leaders."""
    spread, at = role.args.topology_spread, ("roles", role.position, "topologySpread")
    if spread is None:
        return
    hard = any(
        constraint.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE for constraint in spread
    )
    if hard and gang is not None and gang.sub_groups is not None:
        # Seen with Volcano 1.14.1: four replicas of two pods over zones of eight and two nodes.
        yield warning(
            SPREAD_STARVES_REPLICAS,
            at,
            "with DoNotSchedule Volcano may leave replicas above the gang's minimum waiting for "
            "ever, where a domain has little room, although all of them would fit; use "
            "ScheduleAnyway",
        )
