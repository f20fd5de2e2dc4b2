"""Checks of gang scheduling, schedulers and Kueue: settings that deadlock or conflict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.field_rules import (
    FieldRule,
    check_fields,
    inapplicable_rule,
    required_rule,
)
from fusioninfer_pulumi.api.role import StartupPolicy
from fusioninfer_pulumi.api.scheduling import GangBackend, GangMode, SchedulingStrategyArgs
from fusioninfer_pulumi.api.service_shape import DEFAULT_SCHEDULER, VOLCANO, is_disaggregated
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, quote_value, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.pods.pod import Pod
from fusioninfer_pulumi.rules.common import OUT_OF_RANGE, SET_BY_LIBRARY

GANG_DEADLOCK = Rule("gang-deadlock")
SCHEDULER_DIFFERS_FROM_SERVICE = Rule("scheduler-differs-from-service")
SCHEDULER_WITHOUT_GANGS = Rule("scheduler-without-gangs")
ROLES_START_APART = Rule("roles-start-apart")
KUEUE_LABEL = Rule("kueue-label")

_STRATEGY: Location = ("schedulingStrategy",)
_POLICY: Location = (*_STRATEGY, "gangPolicy")
_MINIMUM: Location = (*_POLICY, "minRoleReplicas")


def check_scheduling(service: BuiltService) -> Iterator[Finding]:
    """Check a service's scheduling strategy and its pods' scheduler fields."""
    scheduling, shape = service.args.scheduling_strategy, service.plan.shape
    policy = scheduling.gang_policy
    for role in service.plan.roles:
        for pod in role.pods.user_pods:
            yield from _check_pod_scheduler(pod, scheduling, shape.scheduler)
            if shape.needs_gang:
                yield from _check_gang_pod(pod, scheduling)
    yield from check_fields(_POLICY, policy, *_list_policy_rules(service))
    if policy.backend is GangBackend.KUEUE and policy.mode is not GangMode.OFF:
        queue_rule = required_rule(
            "queue",
            "is required with backend Kueue: set a LocalQueue of the namespace, because Kueue "
            "admits nothing without one",
        )
        yield from check_fields(_STRATEGY, scheduling, queue_rule)
        if is_disaggregated([role.args for role in service.plan.roles if role.replicas]):
            message = (
                "Kueue admits each replica on its own: if quota is short, prefill may hold "
                "accelerators while decode waits, or vice versa; Volcano gang-schedules both"
            )
            yield warning(ROLES_START_APART, (*_POLICY, "backend"), message)
    elif shape.needs_gang:
        yield from _check_late_workers(service)
        yield from _check_gang(service, scheduling)


def _list_policy_rules(service: BuiltService) -> tuple[FieldRule, ...]:
    policy = service.args.scheduling_strategy.gang_policy
    topology = policy.network_topology
    is_kueue = policy.backend is GangBackend.KUEUE
    is_native = policy.backend is GangBackend.NATIVE
    lacks_volcano_gang = policy.backend is GangBackend.VOLCANO and not service.plan.shape.needs_gang
    has_topology = topology is not None and bool(topology.group_policy or topology.role_policy)
    remedy = "remove it, or use backend Volcano"
    return (
        inapplicable_rule(
            "min_role_replicas",
            f"Kueue admits each replica on its own and has no minimum for each role; {remedy}",
            when=is_kueue,
        ),
        inapplicable_rule(
            "min_role_replicas",
            f"a Kubernetes PodGroup counts pods, not roles; {remedy}",
            when=is_native,
        ),
        inapplicable_rule(
            "network_topology",
            "HyperNodes are Volcano's; Kueue reads the annotation "
            f"kueue.x-k8s.io/podset-required-topology of the pod templates; {remedy}",
            when=has_topology and is_kueue,
        ),
        inapplicable_rule(
            "network_topology",
            f"HyperNodes are Volcano's; {remedy}",
            when=has_topology and is_native,
        ),
        inapplicable_rule(
            "network_topology",
            "requires gang scheduling, which is off for these pods; remove it, or set "
            "gangPolicy.mode to On",
            when=has_topology and lacks_volcano_gang,
        ),
    )


def _get_user_annotations(pod: Pod) -> Mapping[str, Any]:
    return (pod.initial_template.get("metadata") or {}).get("annotations") or {}


def _locate_annotation(pod: Pod, key: str) -> Location:
    return (*pod.path, "metadata", "annotations", key)


def _check_pod_scheduler(
    pod: Pod, scheduling: SchedulingStrategyArgs, scheduler: str | None
) -> Iterator[Finding]:
    for field, expected in (
        ("schedulerName", scheduler),
        ("priorityClassName", scheduling.priority_class_name),
    ):
        user_value = pod.initial_template["spec"].get(field)
        if expected is not None and user_value not in (None, expected):
            message = (
                f'must be "{expected}" as for the service, or unset; got {quote_value(user_value)}'
            )
            yield error(SCHEDULER_DIFFERS_FROM_SERVICE, (*pod.path, "spec", field), message)


def _check_gang_pod(pod: Pod, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """Reject fields of a pod that the library sets for its gang, or that deadlock the gang."""
    spec, message = pod.initial_template["spec"], "is set by fusioninfer-pulumi; remove it"
    if scheduling.gang_policy.backend is GangBackend.NATIVE:
        if "schedulingGroup" in spec:
            yield error(SET_BY_LIBRARY, (*pod.path, "spec", "schedulingGroup"), message)
        if spec.get("priorityClassName") and scheduling.priority_class_name is None:
            yield error(
                GANG_DEADLOCK,
                (*pod.path, "spec", "priorityClassName"),
                "gives the pod a different priority than its PodGroup, and Kubernetes never "
                "schedules such a gang; set schedulingStrategy.priorityClassName instead",
            )
        return
    for key in sorted(labels.GANG_ANNOTATIONS & set(_get_user_annotations(pod))):
        yield error(SET_BY_LIBRARY, _locate_annotation(pod, key), message)


def _check_gang(service: BuiltService, scheduling: SchedulingStrategyArgs) -> Iterator[Finding]:
    """Check that the scheduler supports gangs, and that the gang requires at least one replica."""
    plan, is_native = service.plan, scheduling.gang_policy.backend is GangBackend.NATIVE
    yield from check_fields(
        _STRATEGY,
        scheduling,
        FieldRule(
            "scheduler_name",
            f"{VOLCANO} does not read Kubernetes' own PodGroups; use {DEFAULT_SCHEDULER} (the "
            "default here), or backend Volcano",
            when=is_native and scheduling.scheduler_name == VOLCANO,
            rule=SCHEDULER_WITHOUT_GANGS,
        ),
        FieldRule(
            "scheduler_name",
            f"{DEFAULT_SCHEDULER} does not support gangs; use {VOLCANO} (the default here), or set "
            "gangPolicy.mode to Off",
            when=not is_native and scheduling.scheduler_name == DEFAULT_SCHEDULER,
            rule=SCHEDULER_WITHOUT_GANGS,
        ),
    )
    # The service needs a gang, but none is planned if `minRoleReplicas` is 0 for all roles.
    if not is_native and plan.gang is None and any(role.replicas for role in plan.roles):
        message = "must be above 0 for at least one role, got 0 for all"
        yield error(OUT_OF_RANGE, _MINIMUM, message)


def _check_late_workers(service: BuiltService) -> Iterator[Finding]:
    """Reject settings that create workers only after their leader is scheduled or ready."""
    key = labels.LWS_EXCLUSIVE_TOPOLOGY
    if key in service.args.annotations:
        message = (
            "deadlocks with gang scheduling: the workers are created after the leader is "
            "scheduled, and the leader is scheduled only with its workers; remove it, or set "
            "schedulingStrategy.gangPolicy.mode to Off"
        )
        yield error(GANG_DEADLOCK, ("metadata", "annotations", key), message)
    for role in service.plan.roles:
        if role.args.startup_policy is StartupPolicy.LEADER_READY:
            message = (
                "LeaderReady deadlocks with gang scheduling: the workers are created after the "
                "leader is ready, and the leader is scheduled only with its workers; use "
                "LeaderCreated"
            )
            yield error(GANG_DEADLOCK, ("roles", role.position, "startupPolicy"), message)
        for pod in role.pods.user_pods:
            if key in _get_user_annotations(pod):
                message = (
                    "applies only to leaders when set in a pod template, and would deadlock with "
                    "gang scheduling on the LeaderWorkerSet; remove it, or set "
                    "schedulingStrategy.gangPolicy.mode to Off"
                )
                yield error(GANG_DEADLOCK, _locate_annotation(pod, key), message)


def check_kueue_labels(service: BuiltService) -> Iterator[Finding]:
    """Report Kueue's queue label in the service's labels or pod templates.

    Only the library may set the label on LeaderWorkerSets, and only Kueue on their pods.
    """
    key = labels.KUEUE_QUEUE
    if key in service.args.labels:
        yield warning(
            KUEUE_LABEL,
            ("metadata", "labels", key),
            "is copied to all objects, so replicas wait in a queue that is not in the plan; "
            "set schedulingStrategy.queue and gangPolicy.backend: Kueue instead",
        )
    message = (
        "keeps the pods from starting, because Kueue sets it on pods of LeaderWorkerSets; remove "
        "it, and set schedulingStrategy.queue and gangPolicy.backend: Kueue to queue the service"
    )
    for role in service.plan.roles:
        for pod in role.pods.user_pods:
            pod_metadata = pod.initial_template.get("metadata") or {}
            if key in (pod_metadata.get("labels") or {}):
                yield error(KUEUE_LABEL, (*pod.path, "metadata", "labels", key), message)
