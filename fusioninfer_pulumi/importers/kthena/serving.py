"""A ModelServing as a service of ours: everything but its roles and its gang."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.kthena.models import (
    ModelServing,
    ModelServingSpec,
    RecoveryPolicy,
    RollingUpdate,
    RolloutStrategy,
    RolloutType,
)
from fusioninfer_pulumi.importers.kthena.roles import carry_roles, replicas_of
from fusioninfer_pulumi.importers.metadata import carry_metadata
from fusioninfer_pulumi.kube import labels

VOLCANO = "volcano"
#: pkg/model-serving-controller/podgroupmanager: the queue of the PodGroups.
_SCHEDULING = ("spec", "schedulingStrategy")


def carry_serving(carrier: Carrier, serving: ModelServing) -> None:
    """Carries a ModelServing over.

    Args:
        carrier: The service that stands for it.
        serving: The document.
    """
    at = carrier.main.at("spec")
    carry_metadata(carrier, carrier.main)
    spec = serving.spec
    _groups(carrier, spec, at)
    by_role = spec.rollout_strategy is not None and spec.rollout_strategy.type is RolloutType.ROLE
    carry_roles(carrier, spec.template.roles, at / "template" / "roles", by_role=by_role)
    _scheduling(carrier, spec, at)
    _recovery(carrier, spec, at)
    _rollout(carrier, spec, at / "rolloutStrategy")
    for index, plugin in enumerate(spec.plugins or ()):
        carrier.book.lost(
            at / "plugins" / index,
            f"plugin {plugin.get('name')} changes pods inside of Kthena's controller; write what "
            "it adds into the pod templates",
        )


def _groups(carrier: Carrier, spec: ModelServingSpec, at: At) -> None:
    # Written for a single group too: its names are Kthena's, and another group renames nothing.
    if spec.replicas is None:
        carrier.imply(("spec", "groups"), 1, at / "replicas")
    else:
        carrier.put(("spec", "groups"), spec.replicas, at / "replicas")


def _scheduling(carrier: Carrier, spec: ModelServingSpec, at: At) -> None:
    target = (*_SCHEDULING, "schedulerName")
    if spec.scheduler_name:
        carrier.put(target, spec.scheduler_name, at / "schedulerName")
    else:
        carrier.book.read(at / "schedulerName")
        carrier.imply(target, VOLCANO, at)
    queue = (carrier.main.metadata.get("annotations") or {}).get(labels.QUEUE_NAME)
    if queue is not None:
        carrier.put(
            (*_SCHEDULING, "queue"),
            queue,
            carrier.main.at("metadata", "annotations", labels.QUEUE_NAME),
        )


def _recovery(carrier: Carrier, spec: ModelServingSpec, at: At) -> None:
    book, policy = carrier.book, spec.recovery_policy or RecoveryPolicy.ROLE_RECREATE
    place = at / "recoveryPolicy"
    book.read(place)
    if policy is RecoveryPolicy.NONE:
        for index, _ in enumerate(carrier.roles):
            carrier.derive(("spec", "roles", index, "restartPolicy"), "None", place)
    alone = len(spec.template.roles) == 1 and spec.template.roles[0].replicas in (None, 1)
    if policy is RecoveryPolicy.SERVING_GROUP_RECREATE and alone:
        book.note(place, "the group is one replica, which LeaderWorkerSet makes anew as a whole")
    elif policy is RecoveryPolicy.SERVING_GROUP_RECREATE:
        book.warn(
            place,
            "LeaderWorkerSet makes the pods of the failed replica anew, not those of the other "
            "replicas and roles of its group",
        )
    grace = spec.template.restart_grace_period_seconds
    where = at / "template" / "restartGracePeriodSeconds"
    book.read(where)
    if policy is RecoveryPolicy.NONE and grace is not None:
        book.note(where, "has no effect with recoveryPolicy None; left out")
    elif grace:
        book.warn(
            where, f"LeaderWorkerSet makes a failed replica anew at once, not after {grace} seconds"
        )


def _rollout(carrier: Carrier, spec: ModelServingSpec, at: At) -> None:
    strategy = spec.rollout_strategy or RolloutStrategy()
    target = ("spec", "rollout")
    level, kind = (*target, "level"), at / "type"
    pace, place = strategy.rolling_update_configuration, at / "rollingUpdateConfiguration"
    groups = 1 if spec.replicas is None else spec.replicas
    # Empty, they are as good as left out; read as a whole, what they hold would be, too.
    carrier.book.read(*(each for each in (at, place) if each.value == {}))
    if strategy.type is RolloutType.ROLE:
        carrier.derive(level, "Role", kind)
        if pace is not None:
            carrier.book.refuse(
                place, "must not be set with RoleRollingUpdate: set it on the roles"
            )
        return
    carrier.book.read(kind)
    pace = pace or RollingUpdate()
    if groups == 1 and pace.partition in (None, 0, "0%"):
        # Kthena takes down all replicas of the only group at once.
        carrier.book.read(place / "partition", place / "maxUnavailable")
        if strategy.type is not None:
            carrier.book.note(kind, "there is one group: its replicas change one after the other")
        if pace.max_unavailable is not None:
            carrier.book.note(place / "maxUnavailable", "there is one group; left out")
        return
    carrier.imply(level, "Group", kind)
    if pace.max_unavailable is not None:
        carrier.put((*target, "maxUnavailable"), pace.max_unavailable, place / "maxUnavailable")
    if pace.partition is not None:
        count = replicas_of(pace.partition, groups)
        carrier.derive((*target, "partition"), count, place / "partition")
        if count != pace.partition:
            carrier.book.note(place / "partition", f"{pace.partition} of the groups is {count}")
