"""Converts a ModelServing: its serving groups, roles, gang and rollout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.gang import GANG, SCHEDULING, VOLCANO, convert_queue
from fusioninfer_importers.kthena.models import (
    CountOrPercentage,
    ModelServing,
    ModelServingSpec,
    Role,
    RollingUpdate,
    RolloutStrategy,
    ServingGroup,
    TopologyPolicy,
)
from fusioninfer_importers.kthena.pods import convert_template, needs_environment
from fusioninfer_importers.objects import copy_metadata
from fusioninfer_pulumi.plugins.importers import Location, Rule, SourceField, labels

RECOVERY_DIFFERS = Rule("recovery-differs")

PREFILLER, DECODER, WORKER = "prefiller", "decoder", "worker"
_TYPES = {"prefill": PREFILLER, "prefiller": PREFILLER, "decode": DECODER, "decoder": DECODER}
_MIN_ROLE_REPLICAS = (*GANG, "minRoleReplicas")
_CONFLICTS_WITH_KUEUE = (
    "Kueue admits each replica separately; remove this field, or the label "
    "kueue.x-k8s.io/queue-name"
)


@dataclass(frozen=True)
class Serving:
    """A ModelServing or a Deployment, and the service that it becomes.

    Attributes:
        model: The ModelServing; for a Deployment one with the same pods.
        builder: The service.
        minimum_replicas: Minimum and its source field of each autoscaled role, by the role's name.
    """

    model: ModelServing
    builder: ServiceBuilder
    minimum_replicas: dict[str, tuple[int, SourceField]] = field(default_factory=dict)

    @property
    def roles(self) -> Sequence[Role]:
        """Its roles."""
        return self.model.spec.template.roles


def convert_roles(
    builder: ServiceBuilder, roles: Sequence[Role], field: SourceField, *, has_role_rollout: bool
) -> None:
    """Convert the roles; their rollout settings apply only with `has_role_rollout`."""
    builder.set_origin(("spec", "roles"), field)
    types = choose_component_types([role.name for role in roles])
    for index, (role, component_type) in enumerate(zip(roles, types, strict=True)):
        block = field / index
        target = builder.add_role(block)
        builder.copy((*target, "name"), role.name, block / "name")
        builder.derive((*target, "componentType"), component_type, block / "name")
        builder.copy_fields(target, block, "replicas")
        _convert_role_templates(builder, target, role, block)
        if needs_environment(role):
            builder.default((*target, "environment"), "Kthena", block)
        _convert_role_rollout(builder, target, role, block, has_role_rollout=has_role_rollout)


def choose_component_types(names: Sequence[str]) -> list[str]:
    """Infer the component types of a group's roles from their names; Kthena has no field for it."""
    types = [_TYPES.get(name.lower(), WORKER) for name in names]
    # Prefill without decode, or the reverse, serves whole requests.
    return types if {PREFILLER, DECODER} <= set(types) else [WORKER] * len(types)


def _convert_role_templates(
    builder: ServiceBuilder, target: Location, role: Role, field: SourceField
) -> None:
    entry = field / "entryTemplate"
    if not role.worker_replicas:
        builder.report.consume(field / "workerReplicas")
        convert_template(builder, (*target, "template"), role.entry_template, role.name, entry)
        if role.worker_template is not None:
            builder.report.left_out(
                field / "workerTemplate", "has no effect without workerReplicas; ignored"
            )
        return
    count = field / "workerReplicas"
    builder.derive((*target, "multinode", "nodeCount"), 1 + role.worker_replicas, count)
    # The commands in the templates connect entry and workers.
    builder.default((*target, "multinode", "launcher"), "none", entry)
    leader = (*target, "leaderTemplate")
    convert_template(builder, leader, role.entry_template, role.name, entry)
    worker, worker_field = (*target, "workerTemplate"), field / "workerTemplate"
    if role.worker_template is None:
        builder.report.invalid(worker_field, "is required with workerReplicas above 0")
        # Prevents further findings about the missing template.
        builder.default(worker, builder.get(leader), entry)
    else:
        convert_template(builder, worker, role.worker_template, role.name, worker_field)


def _convert_role_rollout(
    builder: ServiceBuilder,
    target: Location,
    role: Role,
    field: SourceField,
    *,
    has_role_rollout: bool,
) -> None:
    if role.max_unavailable is not None:
        subfield = field / "maxUnavailable"
        if has_role_rollout:
            builder.copy((*target, "rollout", "maxUnavailable"), role.max_unavailable, subfield)
        else:
            _report_no_effect(builder, subfield)
    if role.partition is not None:
        subfield = field / "partition"
        if has_role_rollout:
            count = count_replicas(role.partition, 1 if role.replicas is None else role.replicas)
            builder.derive((*target, "rollout", "partition"), count, subfield)
            if count != role.partition:
                builder.report.translated(subfield, f"{role.partition} of the replicas is {count}")
        else:
            _report_no_effect(builder, subfield)


def _report_no_effect(builder: ServiceBuilder, field: SourceField) -> None:
    builder.report.left_out(
        field, "has no effect without rolloutStrategy.type RoleRollingUpdate; ignored"
    )


def count_replicas(partition: CountOrPercentage, replicas: int) -> int:
    """Convert a partition to replicas; Kthena rounds percentages up."""
    if isinstance(partition, int):
        return partition
    return math.ceil(int(partition.removesuffix("%")) * replicas / 100)


def convert_serving(builder: ServiceBuilder, serving: ModelServing) -> None:
    """Convert a ModelServing, except for its gang."""
    field = builder.main.at("spec")
    copy_metadata(builder, builder.main)
    spec = serving.spec
    _convert_groups(builder, spec, field)
    has_role_rollout = (
        spec.rollout_strategy is not None and spec.rollout_strategy.type == "RoleRollingUpdate"
    )
    convert_roles(
        builder,
        spec.template.roles,
        field / "template" / "roles",
        has_role_rollout=has_role_rollout,
    )
    _convert_scheduling(builder, spec, field)
    _convert_recovery(builder, spec, field)
    _convert_rollout(builder, spec, field / "rolloutStrategy")
    for index, plugin in enumerate(spec.plugins or ()):
        builder.report.unsupported(
            field / "plugins" / index,
            f"plugin {plugin.get('name')} runs in Kthena's controller; add its changes to the pod "
            "templates",
        )


def _convert_groups(builder: ServiceBuilder, spec: ModelServingSpec, field: SourceField) -> None:
    # Also set for a single group: names match Kthena's and do not change when a group is added.
    if spec.replicas is None:
        builder.default(("spec", "groups"), 1, field / "replicas")
    else:
        builder.copy(("spec", "groups"), spec.replicas, field / "replicas")


def _convert_scheduling(
    builder: ServiceBuilder, spec: ModelServingSpec, field: SourceField
) -> None:
    target = (*SCHEDULING, "schedulerName")
    if spec.scheduler_name:
        builder.copy(target, spec.scheduler_name, field / "schedulerName")
    else:
        builder.report.consume(field / "schedulerName")
        builder.default(target, VOLCANO, field)
    queue = (builder.main.metadata.get("annotations") or {}).get(labels.QUEUE_NAME)
    if queue is not None:
        builder.copy(
            (*SCHEDULING, "queue"),
            queue,
            builder.main.at("metadata", "annotations", labels.QUEUE_NAME),
        )


def _convert_recovery(builder: ServiceBuilder, spec: ModelServingSpec, field: SourceField) -> None:
    report, policy = builder.report, spec.recovery_policy or "RoleRecreate"
    subfield = field / "recoveryPolicy"
    report.consume(subfield)
    if policy == "None":
        for index, _ in enumerate(builder.roles):
            builder.derive(("spec", "roles", index, "restartPolicy"), "None", subfield)
    roles = spec.template.roles
    has_single_replica = len(roles) == 1 and roles[0].replicas in (None, 1)
    if policy == "ServingGroupRecreate" and has_single_replica:
        report.translated(
            subfield, "the group is one replica, which LeaderWorkerSet recreates as a whole"
        )
    elif policy == "ServingGroupRecreate":
        report.warning(
            RECOVERY_DIFFERS,
            subfield,
            "LeaderWorkerSet recreates only the pods of the failed replica, not the whole group",
        )
    grace = spec.template.restart_grace_period_seconds
    grace_field = field / "template" / "restartGracePeriodSeconds"
    report.consume(grace_field)
    if policy == "None" and grace is not None:
        report.left_out(grace_field, "has no effect with recoveryPolicy None; ignored")
    elif grace:
        report.warning(
            RECOVERY_DIFFERS,
            grace_field,
            f"LeaderWorkerSet recreates a failed replica at once, not after {grace} seconds",
        )


def _convert_rollout(
    builder: ServiceBuilder, spec: ModelServingSpec, source_field: SourceField
) -> None:
    strategy = spec.rollout_strategy or RolloutStrategy()
    target = ("spec", "rollout")
    level, type_field = (*target, "level"), source_field / "type"
    subfield = source_field / "rollingUpdateConfiguration"
    groups = 1 if spec.replicas is None else spec.replicas
    # Empty mappings mean the defaults; otherwise each field is consumed separately.
    builder.report.consume(*(field for field in (source_field, subfield) if field.value == {}))
    if strategy.type == "RoleRollingUpdate":
        builder.derive(level, "Role", type_field)
        if strategy.rolling_update_configuration is not None:
            builder.report.invalid(
                subfield, "conflicts with RoleRollingUpdate; set it on the roles"
            )
        return
    builder.report.consume(type_field)
    update = strategy.rolling_update_configuration or RollingUpdate()
    if groups == 1 and update.partition in (None, 0, "0%"):
        # Kthena replaces all replicas of the only group at once.
        builder.report.consume(subfield / "partition", subfield / "maxUnavailable")
        if strategy.type is not None:
            builder.report.translated(
                type_field, "with a single group, its replicas are updated one after another"
            )
        if update.max_unavailable is not None:
            builder.report.translated(
                subfield / "maxUnavailable", "has no effect with a single group; ignored"
            )
        return
    builder.default(level, "Group", type_field)
    builder.copy_fields(target, subfield, "maxUnavailable")
    if update.partition is not None:
        count = count_replicas(update.partition, groups)
        builder.derive((*target, "partition"), count, subfield / "partition")
        if count != update.partition:
            builder.report.translated(
                subfield / "partition", f"{update.partition} of the groups is {count}"
            )


def convert_gang(serving: Serving) -> None:
    """Convert the gang of a ModelServing.

    Its autoscalers must be converted first, because the gang uses their minima.
    """
    builder, group = serving.builder, serving.model.spec.template
    field = builder.main.at("spec")
    group_field, scheduler = field / "template", builder.get((*SCHEDULING, "schedulerName"))
    if len(group.gang_policy_keys) > 1:
        builder.report.invalid(
            group_field / "gangpolicy", "conflicts with gangPolicy; remove one of them"
        )
    if convert_queue(builder):
        _report_without_gang(serving, group_field)
        return
    # With Volcano Kthena always creates PodGroups, otherwise never (podgroupmanager,
    # shouldCreatePodGroup).
    uses_volcano = scheduler == VOLCANO
    for key in group.gang_policy_keys:
        subfield = group_field / key
        builder.report.consume(subfield)
        if not uses_volcano:
            builder.report.left_out(
                subfield, f"has no effect with schedulerName {scheduler}; ignored"
            )
        else:
            builder.copy_fields(GANG, subfield, "minRoleReplicas")
    mode = _choose_gang_mode(serving) if uses_volcano else "Off"
    if mode is not None:
        builder.default((*GANG, "mode"), mode, field / "schedulerName")
    if mode == "On":
        # Kthena's PodGroups set it, so that Volcano admits a gang only if the queue has capacity.
        builder.default((*GANG, "minResources"), True, field / "schedulerName")  # noqa: FBT003  # the value of the field
    _convert_topologies(builder, group, group_field / "networkTopology", uses_volcano=uses_volcano)


def _report_without_gang(serving: Serving, field: SourceField) -> None:
    """Report gang settings, which have no effect where Kueue admits each replica separately."""
    report, group = serving.builder.report, serving.model.spec.template
    for key in group.gang_policy_keys:
        report.consume(field / key)
        if (field / key / "minRoleReplicas").value:
            report.unsupported(field / key / "minRoleReplicas", _CONFLICTS_WITH_KUEUE)
    if group.network_topology is not None:
        report.unsupported(field / "networkTopology", _CONFLICTS_WITH_KUEUE)


def _choose_gang_mode(serving: Serving) -> str | None:
    """Set the gang's minima for autoscaled roles; return its mode, or None to leave it unset."""
    builder = serving.builder
    minima = builder.get(_MIN_ROLE_REPLICAS) or {}
    scaled = {
        name: minimum for name, minimum in serving.minimum_replicas.items() if name not in minima
    }
    minimum_by_role = {**minima, **{name: count for name, (count, _) in scaled.items()}}
    are_all_zero = all(minimum_by_role.get(role.name) == 0 for role in serving.roles)
    if are_all_zero and not minima and not any(role.worker_replicas for role in serving.roles):
        for _, field in scaled.values():
            builder.report.translated(field, "all roles scale to zero; no PodGroup is created")
        return "Off"
    for name, (count, field) in scaled.items():
        builder.default((*_MIN_ROLE_REPLICAS, name), count, field)
        builder.report.translated(field, f"the gang needs at least {count} replicas of {name}")
    # `check` reports minima that are all 0, so the mode stays unset.
    return None if are_all_zero else "On"


def _convert_topologies(
    builder: ServiceBuilder, group: ServingGroup, field: SourceField, *, uses_volcano: bool
) -> None:
    topology = group.network_topology
    if topology is None:
        return
    if not uses_volcano:
        scheduler = builder.get((*SCHEDULING, "schedulerName"))
        builder.report.left_out(field, f"has no effect with schedulerName {scheduler}; ignored")
        return
    target = (*GANG, "networkTopology")
    builder.default(target, {}, field)
    builder.set_origin(target, field, copied=True)
    builder.report.consume(field)
    policies = {"groupPolicy": topology.group_policy, "rolePolicy": topology.role_policy}
    for key, policy in policies.items():
        if policy is not None:
            _convert_topology(builder, (*target, key), policy, field / key)


def _convert_topology(
    builder: ServiceBuilder, target: Location, policy: TopologyPolicy, field: SourceField
) -> None:
    builder.default(target, {}, field)
    builder.report.consume(field)
    builder.copy_fields(target, field, "mode", "highestTierAllowed")
    if policy.highest_tier_name is not None:
        builder.report.unsupported(
            field / "highestTierName", "is not supported; use highestTierAllowed"
        )
