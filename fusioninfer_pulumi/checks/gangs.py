"""Checks of scheduling: settings that deadlock, conflict or have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.role import StartupPolicy
from fusioninfer_pulumi.api.scheduling import (
    GangBackend,
    GangMode,
    NetworkTopologyMode,
    RequiredReplicas,
    SchedulingStrategyArgs,
)
from fusioninfer_pulumi.api.service_shape import DEFAULT_SCHEDULER, VOLCANO, is_prefill_decode
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import pod_requests
from fusioninfer_pulumi.plan.service_builder import BuiltService
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
from fusioninfer_pulumi.topology.role_plan import RolePlan

GANG_DEADLOCK = Rule("gang-deadlock")
SCHEDULER_DIFFERS_FROM_SERVICE = Rule("scheduler-differs-from-service")
GANG_POD_WITHOUT_REQUESTS = Rule("gang-pod-without-requests")
SCHEDULER_WITHOUT_GANGS = Rule("scheduler-without-gangs")
GANG_ALL_OR_NOTHING = Rule("gang-all-or-nothing")
ROLES_START_APART = Rule("roles-start-apart")
KUEUE_LABEL = Rule("kueue-label")

_STRATEGY: Location = ("schedulingStrategy",)
_POLICY: Location = (*_STRATEGY, "gangPolicy")
_NETWORK: Location = (*_POLICY, "networkTopology")
_QUEUE: Location = (*_STRATEGY, "queue")

#: Fields that a backend cannot follow, with the reason.
_REJECTED: Mapping[GangBackend, Mapping[Location, str]] = {
    GangBackend.VOLCANO: {},
    GangBackend.KUEUE: {
        (*_POLICY, "minRoleReplicas"): (
            "Kueue admits each replica on its own and has no minimum for each role"
        ),
        _NETWORK: (
            "HyperNodes are Volcano's; Kueue reads the annotation "
            "kueue.x-k8s.io/podset-required-topology of the pod templates"
        ),
    },
    GangBackend.NATIVE: {
        (*_POLICY, "minRoleReplicas"): "a Kubernetes PodGroup counts pods, not roles",
        _NETWORK: "HyperNodes are Volcano's",
    },
}
#: Fields that a backend ignores, with the reason.
_IGNORED: Mapping[GangBackend, Mapping[Location, str]] = {
    GangBackend.VOLCANO: {},
    GangBackend.KUEUE: {
        (*_POLICY, "requiredReplicas"): "Kueue has no minimum for each role",
        (*_POLICY, "minResources"): "Kueue counts the requests of every replica",
    },
    GangBackend.NATIVE: {
        (*_POLICY, "requiredReplicas"): "all replicas are required",
        (*_POLICY, "minResources"): "Kubernetes' own gangs have no queue that counts resources",
        _QUEUE: "Kubernetes' own gangs have no queue",
    },
}
_NO_GANG = "these pods are not gang-scheduled (gangPolicy.mode: On turns it on)"
#: Fields that Volcano ignores where pods are not gang-scheduled.
_IGNORED_WITHOUT_GANG: Mapping[Location, str] = {
    (*_POLICY, field): _NO_GANG for field in ("minRoleReplicas", "requiredReplicas", "minResources")
}
_WAY_OUT = "remove it, or set schedulingStrategy.gangPolicy.mode to Off"


def scheduling_findings(built: BuiltService) -> Iterator[Finding]:
    """Check a service's scheduling strategy and its pods' scheduler fields."""
    scheduling, shape = built.args.scheduling_strategy, built.plan.shape
    policy = scheduling.gang_policy
    for role in built.plan.roles:
        for pod in role.pods.user_pods:
            yield from _pod_scheduler(pod, scheduling, shape.scheduler)
            if shape.needs_gang:
                yield from _gang_pod(role, pod, scheduling)
            elif policy.backend is GangBackend.VOLCANO and shape.scheduler:
                yield from _pod_queue(pod, scheduling.queue)
        several = labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY
        if not role.args.sub_group_policy and _is_annotated(built, role, several):
            field = ("roles", role.position, "subGroupPolicy")
            message = f"is required by the annotation {several}"
            yield error(FIELD_OUT_OF_PLACE, field, message)
    yield from _check_backend_fields(built, scheduling)
    if policy.backend is GangBackend.KUEUE and policy.mode is not GangMode.OFF:
        yield from _kueue(built, scheduling)
    elif shape.needs_gang and policy.backend is not GangBackend.KUEUE:
        yield from _gang(built, scheduling)


def _check_backend_fields(
    built: BuiltService, scheduling: SchedulingStrategyArgs
) -> Iterator[Finding]:
    """Report fields that the gang's backend rejects or ignores."""
    policy, shape = scheduling.gang_policy, built.plan.shape
    present = _present_fields(scheduling)
    for at, reason in _REJECTED[policy.backend].items():
        if at in present:
            yield error(FIELD_OUT_OF_PLACE, at, f"{reason}; remove it, or use backend Volcano")
    ignored = _IGNORED[policy.backend]
    if policy.backend is GangBackend.VOLCANO and not shape.needs_gang:
        ignored = dict(_IGNORED_WITHOUT_GANG)
        if shape.scheduler in (None, DEFAULT_SCHEDULER):
            ignored[_QUEUE] = "queues belong to Volcano, and these pods use another scheduler"
    elif policy.backend is GangBackend.KUEUE and policy.mode is GangMode.OFF:
        ignored = {
            **ignored,
            _QUEUE: "with gangPolicy.mode Off replicas do not wait in a LocalQueue",
        }
    for at, reason in ignored.items():
        if at in present:
            yield warning(FIELD_WITHOUT_EFFECT, at, f"has no effect: {reason}")


def _present_fields(scheduling: SchedulingStrategyArgs) -> set[Location]:
    policy = scheduling.gang_policy
    fields = {
        (*_POLICY, "minRoleReplicas"): policy.min_role_replicas is not None,
        (*_POLICY, "requiredReplicas"): policy.required_replicas is not RequiredReplicas.ANY,
        (*_POLICY, "minResources"): bool(policy.min_resources),
        _NETWORK: policy.network_topology is not None,
        _QUEUE: bool(scheduling.queue),
    }
    return {at for at, is_present in fields.items() if is_present}


def _annotations(pod: Pod) -> Mapping[str, Any]:
    return (pod.user_template.get("metadata") or {}).get("annotations") or {}


def _is_annotated(built: BuiltService, role: RolePlan, key: str) -> bool:
    on_pods = any(key in _annotations(pod) for pod in role.pods.user_pods)
    return on_pods or key in built.args.annotations


def _annotation_path(pod: Pod, key: str) -> Location:
    return (*pod.path, "metadata", "annotations", key)


def _pod_scheduler(
    pod: Pod, scheduling: SchedulingStrategyArgs, scheduler: str | None
) -> Iterator[Finding]:
    for field, wanted in (
        ("schedulerName", scheduler),
        ("priorityClassName", scheduling.priority_class_name),
    ):
        user_value = pod.user_template["spec"].get(field)
        if wanted is not None and user_value not in (None, wanted):
            message = f'must be "{wanted}" like the service\'s, or absent; got {shown(user_value)}'
            yield error(SCHEDULER_DIFFERS_FROM_SERVICE, (*pod.path, "spec", field), message)


def _pod_queue(pod: Pod, queue: Any) -> Iterator[Finding]:
    user_value = _annotations(pod).get(labels.QUEUE_NAME)
    if user_value not in (None, queue) and not is_output(queue):
        yield error(
            SCHEDULER_DIFFERS_FROM_SERVICE,
            _annotation_path(pod, labels.QUEUE_NAME),
            f'must be "{queue}" like schedulingStrategy.queue, or absent; got {shown(user_value)}',
        )


def _gang_pod(role: RolePlan, pod: Pod, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """Check a gang's pod for fields that the library sets, and for missing requests."""
    spec, remove = pod.user_template["spec"], "is set by fusioninfer-pulumi; remove it"
    if scheduling.gang_policy.backend is GangBackend.NATIVE:
        if "schedulingGroup" in spec:
            yield error(SET_BY_LIBRARY, (*pod.path, "spec", "schedulingGroup"), remove)
        if spec.get("priorityClassName") and scheduling.priority_class_name is None:
            yield error(
                GANG_DEADLOCK,
                (*pod.path, "spec", "priorityClassName"),
                "gives the pod another priority than its PodGroup, and Kubernetes never schedules "
                "such a gang; set schedulingStrategy.priorityClassName instead",
            )
        return
    for key in sorted(labels.GANG_ANNOTATIONS & set(_annotations(pod))):
        yield error(SET_BY_LIBRARY, _annotation_path(pod, key), remove)
    pods = [built for built in role.pods.all if built.path == pod.path]
    if not all(any(pod_requests(built.template).values()) for built in pods):
        yield warning(
            GANG_POD_WITHOUT_REQUESTS,
            (*pod.path, "spec", "containers"),
            "no container requests resources: Volcano counts such pods as scheduled and does not "
            "gang-schedule them",
        )


def _gang(built: BuiltService, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """Check settings that keep a Volcano or Kubernetes gang from being scheduled, or do nothing."""
    plan, at = built.plan, (*_STRATEGY, "schedulerName")
    gang = plan.gangs[0] if plan.gangs else None
    yield from _check_late_pods(built)
    if scheduling.gang_policy.backend is GangBackend.NATIVE:
        if scheduling.scheduler_name == VOLCANO:
            message = f"{VOLCANO} does not read Kubernetes' own PodGroups; use "
            message += f"{DEFAULT_SCHEDULER} (the default here), or backend Volcano"
            yield error(SCHEDULER_WITHOUT_GANGS, at, message)
        if gang is not None:
            remedy = "a part of it may start only with backend Volcano"
            yield from _all_or_nothing(plan.roles, gang, remedy)
        return
    if scheduling.scheduler_name == DEFAULT_SCHEDULER:
        message = (
            f"{DEFAULT_SCHEDULER} does not support gangs; use volcano (the default here), or set "
        )
        yield error(SCHEDULER_WITHOUT_GANGS, at, f"{message}gangPolicy.mode to Off")
    if gang is None:
        if any(role.replicas for role in plan.roles):
            message = "must be above 0 for at least one role, got 0 for all"
            yield error(OUT_OF_RANGE, (*_POLICY, "minRoleReplicas"), message)
        return
    lowest = scheduling.gang_policy.required_replicas is RequiredReplicas.LOWEST_ORDINALS
    if lowest and not any(group.lowest for group in gang.sub_groups or ()):
        yield warning(
            FIELD_WITHOUT_EFFECT,
            (*_POLICY, "requiredReplicas"),
            "LowestOrdinals has no effect: minRoleReplicas names no role with a minimum above 0",
        )
    if not gang.partial:
        remedy = "minRoleReplicas lets a part of it start (Volcano 1.14.1 and later)"
        yield from _all_or_nothing(plan.roles, gang, remedy)


def _all_or_nothing(roles: tuple[RolePlan, ...], gang: GangPlan, remedy: str) -> Iterator[Finding]:
    # A single replica cannot start in part.
    if sum(role.group_replicas for role in roles) > 1:
        scope = "" if gang.group is None else " of a group"
        message = f"the gang is all-or-nothing: nothing{scope} starts before all {gang.min_member}"
        yield info(GANG_ALL_OR_NOTHING, _POLICY, f"{message} pods fit; {remedy}")


def _check_late_pods(built: BuiltService) -> Iterator[Finding]:
    """Reject settings that create some pods of a gang only after others are scheduled."""
    key, several = labels.LWS_EXCLUSIVE_TOPOLOGY, labels.LWS_SUBGROUP_EXCLUSIVE_TOPOLOGY
    together = "and the leader is scheduled only with its workers"
    if key in built.args.annotations:
        yield error(
            GANG_DEADLOCK,
            ("metadata", "annotations", key),
            "deadlocks with gang scheduling: the workers are created after the leader is "
            f"scheduled, {together}; {_WAY_OUT}",
        )
    for role in built.plan.roles:
        at: Location = ("roles", role.position)
        if role.args.startup_policy is StartupPolicy.LEADER_READY:
            yield error(
                GANG_DEADLOCK,
                (*at, "startupPolicy"),
                "LeaderReady deadlocks with gang scheduling: the workers are created after the "
                f"leader is ready, {together}; use LeaderCreated",
            )
        for pod in role.pods.user_pods:
            if key in _annotations(pod):
                yield error(
                    GANG_DEADLOCK,
                    _annotation_path(pod, key),
                    "applies only to leaders: LeaderWorkerSet places workers by its own "
                    f"annotation, which deadlocks with gang scheduling; {_WAY_OUT}",
                )
        policy = role.args.sub_group_policy
        is_volcano = built.args.scheduling_strategy.gang_policy.backend is GangBackend.VOLCANO
        split = is_volcano and policy and policy.sub_group_size < role.nodes
        if split and _is_annotated(built, role, several):
            yield error(
                GANG_DEADLOCK,
                (*at, "subGroupPolicy"),
                f"Volcano never schedules several subgroups with the annotation {several}, because "
                "it requires all pods of a replica on the same nodes; remove the annotation, or "
                "set schedulingStrategy.gangPolicy.mode to Off",
            )


def _kueue(built: BuiltService, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    if not scheduling.queue:
        yield error(
            FIELD_REQUIRED,
            _QUEUE,
            "is required with backend Kueue: name a LocalQueue of the namespace; without one "
            "Kueue admits nothing",
        )
    if is_prefill_decode([role.args for role in built.plan.roles if role.replicas]):
        yield warning(
            ROLES_START_APART,
            (*_POLICY, "backend"),
            "Kueue admits each replica on its own: if quota is short, prefill may hold "
            "accelerators while decode waits, or vice versa; Volcano gang-schedules both",
        )


def network_topology_findings(built: BuiltService) -> Iterator[Finding]:
    """Check `networkTopology`, which limits the network distance between pods of a gang."""
    policy = built.args.scheduling_strategy.gang_policy
    topology = policy.network_topology
    if topology is None:
        return
    present = {
        name: rule
        for name, rule in (
            ("groupPolicy", topology.group_policy),
            ("rolePolicy", topology.role_policy),
        )
        if rule is not None
    }
    if not present:
        message = "has no effect: set groupPolicy or rolePolicy"
        yield warning(FIELD_WITHOUT_EFFECT, _NETWORK, message)
        return
    if policy.backend is not GangBackend.VOLCANO:
        return  # rejected as a whole
    if not built.plan.shape.needs_gang:
        message = (
            "requires gang scheduling, which is off for these pods; remove it, or set "
            "gangPolicy.mode to On"
        )
        yield error(FIELD_OUT_OF_PLACE, _NETWORK, message)
        return
    for name, rule in present.items():
        at, hard = (*_NETWORK, name, "highestTierAllowed"), rule.mode is NetworkTopologyMode.HARD
        if hard and rule.highest_tier_allowed is None:
            message = "is required with mode hard: Volcano ignores the mode without it"
            yield error(FIELD_REQUIRED, at, message)
        elif not hard and rule.highest_tier_allowed is not None:
            yield warning(FIELD_WITHOUT_EFFECT, at, "has no effect with mode soft")
    if topology.role_policy is not None and policy.min_role_replicas is None:
        message = "makes each replica a subgroup of the PodGroup: needs Volcano 1.14.1 or later"
        yield info(CLUSTER_MUST_HAVE, (*_NETWORK, "rolePolicy"), message)
    yield info(
        CLUSTER_MUST_HAVE,
        _NETWORK,
        "has an effect only with Volcano's scheduler plugin network-topology-aware (off by "
        "default) and HyperNodes (topology.volcano.sh); the capacity table ignores it",
    )


def kueue_label_findings(built: BuiltService) -> Iterator[Finding]:
    """Report Kueue's queue label, which the library sets on workloads and Kueue on their pods."""
    key = labels.KUEUE_QUEUE
    on_service = key in built.args.labels
    if on_service:
        yield warning(
            KUEUE_LABEL,
            ("metadata", "labels", key),
            "is copied to all objects, so replicas wait in a queue that the plan does not know; "
            "set schedulingStrategy.queue and gangPolicy.backend: Kueue instead",
        )
    message = "keeps the pods of a LeaderWorkerSet from starting; remove it, and set "
    message += "schedulingStrategy.queue and gangPolicy.backend: Kueue to queue the service"
    if on_service or built.plan.shape.local_queue is not None:
        message = "keeps the pods from starting, while Kueue counts them as admitted: it labels "
        message += "pods of a LeaderWorkerSet itself; remove it"
    for role in built.plan.roles:
        places: list[Location] = [
            (*pod.path, "metadata", "labels", key)
            for pod in role.pods.user_pods
            if key in ((pod.user_template.get("metadata") or {}).get("labels") or {})
        ]
        if key in built.args.pod_labels:
            places = [("podLabels", key)]
        elif key in role.args.pod_labels:
            places = [("roles", role.position, "podLabels", key)]
        for at in places:
            yield error(KUEUE_LABEL, at, message)
