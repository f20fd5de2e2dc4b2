"""Effects of a change on replicas: which restart and why, and changes that `pulumi up` rejects.

To find rejections, it runs the checks of `pulumi up`, and one for what Kueue's webhook rejects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.checks.update_checks import (
    RunningLws,
    check_gang_joins,
    check_kueue_changes,
    check_layout_change,
    check_subgroup_policies,
)
from fusioninfer_pulumi.cli.diff._records import FieldChange, ObjectChange, Pair, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_NETWORK,
    LWS_TEMPLATE,
    Identity,
    Manifest,
    Objects,
    Service,
    get_count,
    get_label,
    get_labels,
    get_partition,
    get_role,
    get_service,
)
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import lookup
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import read_layout
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update
from fusioninfer_pulumi.topology.gang import read_lws_gang_reference
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY

# At most this many replicas of a LeaderWorkerSet are listed by name.
_MAX_NAMES = 10_000


@dataclass(frozen=True)
class Edit:
    """An object that differs; `old` is None if it is added, `new` if it is removed.

    Attributes:
        change: The difference as it is printed.
        restarts: Whether the object's pods restart, except those that the partition keeps.
        immutable_field: A changed field that forces Pulumi to delete and create the object.
    """

    key: Identity
    old: Manifest | None
    new: Manifest | None
    change: ObjectChange
    restarts: bool = False
    immutable_field: str | None = None

    @property
    def service(self) -> Service:
        """The service that the object belongs to; its name is empty if there is none."""
        return get_service(self.key, self.new or self.old)

    @property
    def template_changes(self) -> list[FieldChange]:
        """The changes that restart pods."""
        paths = self.key.template_paths
        return [field for field in self.change.fields if is_overlapping(field.path, paths)]

    @property
    def reason(self) -> str:
        """Why the pods of a Deployment, StatefulSet or DaemonSet restart."""
        replacement = f"{self.immutable_field} changed" if self.immutable_field else ""
        return ", ".join(filter(None, (replacement, _describe_reason(self.template_changes))))


#: Update steps by namespace (empty if it is an Output) and name of the LeaderWorkerSet.
Steps = Mapping[tuple[str, str], LwsStep]


def index_steps(plans: Iterable[ServicePlan]) -> Steps:
    """Index the update steps of services by LeaderWorkerSet."""
    return {
        (plan.namespace if isinstance(plan.namespace, str) else "", step.name): step
        for plan in plans
        for step in order_update(plan)
    }


def find_step(key: Identity, steps: Steps) -> LwsStep | None:
    """Return the step of a LeaderWorkerSet, None if no plan has it."""
    return steps.get((key.namespace, key.name)) or steps.get(("", key.name))


def find_released_lws(
    lws: tuple[Objects, Objects], steps: tuple[Steps, Steps], edits: Iterable[Edit]
) -> list[Identity]:
    """Return LeaderWorkerSets whose replicas restart only because the partition is lowered."""
    restarting = {edit.key for edit in edits if edit.restarts}
    keys = []
    for key in (key for key in lws[0] if key in lws[1] and key not in restarting):
        before, after = (find_step(key, side) for side in steps)
        is_released = before and after and before.is_frozen and not after.is_frozen
        if is_released or get_partition(lws[0][key]) > get_partition(lws[1][key]):
            keys.append(key)
    return keys


@dataclass(frozen=True)
class _ComparedLws:
    """A LeaderWorkerSet of a changed service; `edit` is None if the LeaderWorkerSet is the same."""

    key: Identity
    old: Manifest | None
    new: Manifest | None
    edit: Edit | None
    step: LwsStep | None
    is_released: bool

    @property
    def counts(self) -> tuple[int, int]:
        """Replicas before and after."""
        before, after = (
            0 if side is None else get_count(side, "spec", "replicas")
            for side in (self.old, self.new)
        )
        return before, after

    @property
    def names(self) -> list[str]:
        """Names of its replicas: `decode-0`, or `1-decode-0` in a serving group."""
        manifest = self.new or self.old
        group = get_label(manifest, labels.GROUP_INDEX)
        index = get_label(manifest, labels.REPLICA_INDEX)
        role = get_role(self.key, manifest)
        prefix = f"{group}-{role}" if group else role
        count = min(max(self.counts), _MAX_NAMES)
        # If each replica has its own LeaderWorkerSet, the label contains the replica's index.
        return [f"{prefix}-{index if index and count <= 1 else number}" for number in range(count)]

    @property
    def restarting_edit(self) -> Edit | None:
        """The edit if it restarts pods, else None."""
        has_restarts = self.edit is not None and self.edit.restarts and min(self.counts)
        return self.edit if has_restarts else None

    @property
    def first_restarting(self) -> int:
        """The lowest ordinal that restarts; if none does, the smaller count of before and after.

        Ordinals below the partition keep their template, unless the LeaderWorkerSet is replaced.
        """
        common = min(self.counts)
        if self.restarting_edit is None or self.new is None:
            return common
        if self.restarting_edit.immutable_field:
            return 0
        is_frozen = self.step is not None and self.step.is_frozen
        return common if is_frozen else min(get_partition(self.new), common)

    @property
    def restarts(self) -> list[str]:
        """Names of the replicas that restart."""
        return self.names[self.first_restarting : min(self.counts)]


def find_role_effects(
    lws: tuple[Objects, Objects],
    edits: Sequence[Edit],
    steps: Steps,
    released: Container[Identity],
) -> Iterator[RoleEffect]:
    """Yield the effects on replicas of the services that have a changed object.

    There is one effect for each role with LeaderWorkerSets, and one for each other workload
    that restarts.
    """
    old, new = lws
    edits_by_key = {edit.key: edit for edit in edits}
    services: dict[Service, dict[str, list[_ComparedLws]]] = {
        edit.service: {} for edit in edits if edit.service[1]
    }
    for key in {**old, **new}:
        manifest = new.get(key) or old.get(key)
        roles = services.get(get_service(key, manifest))
        if roles is not None:
            edit, step = edits_by_key.get(key), find_step(key, steps)
            change = _ComparedLws(key, old.get(key), new.get(key), edit, step, key in released)
            roles.setdefault(get_role(key, manifest), []).append(change)
    for service, roles in services.items():
        for name, items in roles.items():
            yield _describe_role_effect(service, name, items)
        for edit in edits:
            if edit.restarts and edit.key.is_apps_workload and service == edit.service:
                yield _describe_apps_effect(service, edit)


def _describe_role_effect(service: Service, role: str, items: Sequence[_ComparedLws]) -> RoleEffect:
    replicas = Pair(*map(sum, zip(*(item.counts for item in items), strict=True)))
    added = [name for item in items for name in item.names[item.counts[0] : item.counts[1]]]
    edits = [item.restarting_edit for item in items if item.restarting_edit is not None]
    gangs = {
        f"gang scheduling switched {'on' if read_lws_gang_reference(edit.new) else 'off'}"
        for edit in edits
        if bool(read_lws_gang_reference(edit.old)) != bool(read_lws_gang_reference(edit.new))
    }
    changes = [change for edit in edits for change in edit.template_changes]
    restart_reason = "partition lowered" if any(item.is_released for item in items) else ""
    if any(item.restarts for item in items):
        restart_reason = _describe_reason(changes, gangs)
    existed = any(item.old is not None for item in items)
    exists = any(item.new is not None for item in items)
    role_change = "replicas renamed" if added else ""
    if not (existed and exists):
        role_change = "role added" if exists else "role removed"
    elif replicas.before != replicas.after:
        role_change = f"replicas {replicas.before} -> {replicas.after}"
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=role,
        kind="LeaderWorkerSet",
        replicas=replicas,
        restarts=tuple(name for item in items for name in item.restarts),
        added=tuple(added),
        removed=tuple(name for i in items for name in i.names[i.counts[1] : i.counts[0]]),
        kept=tuple(name for item in items for name in item.names[: item.first_restarting]),
        reason=", ".join(filter(None, (restart_reason, role_change))),
        held=tuple(n for i in items if i.restarting_edit for n in i.names[: i.first_restarting]),
        restart_reason=restart_reason,
        role_change=role_change,
    )


def _describe_apps_effect(service: Service, edit: Edit) -> RoleEffect:
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=get_role(edit.key, edit.new),
        kind=edit.key.kind,
        replicas=Pair(*(get_count(side, "spec", "replicas") for side in (edit.old, edit.new))),
        restarts=(edit.key.name,),
        reason=edit.reason,
        restart_reason=edit.reason,
    )


_REVISION, _PAIR_REVISION = f"[{labels.REVISION}]", f"[{labels.PAIR_REVISION}]"
_GANG_KEYS = labels.GANG_ANNOTATIONS | {labels.QUEUE_NAME}
_GANG_FIELDS = (
    *(f".annotations[{key}]" for key in sorted(_GANG_KEYS)),
    ".schedulerName",
    ".schedulingGroup",
)

_CONTAINER_LIST = r"\.(containers|initContainers)"
_CONTAINER = rf"{_CONTAINER_LIST}\[[^\]]*\]"
# The first pattern that matches a path gives the name of the changed part.
_PART_NAMES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (re.escape(_REVISION) + "$", "revision"),
        (re.escape(_PAIR_REVISION) + "$", "pair revision"),
        (r"\.volumeClaimTemplates\b", "volume claim templates"),
        (r"\.subGroupPolicy\b", "subgroup policy"),
        (r"\.restartPolicy$", "restart policy"),
        (rf"^{re.escape(LWS_NETWORK)}\b", "network configuration"),
        (rf"{_CONTAINER}\.image$", "image"),
        (rf"{_CONTAINER}\.(args|command)\b", "arguments"),
        (rf"{_CONTAINER}\.env(From)?\b", "environment"),
        (rf"{_CONTAINER}\.resources\b", "resources"),
        (rf"{_CONTAINER}\.(\w+Probe|lifecycle)\b", "probes"),
        (rf"{_CONTAINER}\.ports\b", "ports"),
        (r"\.volume(s|Mounts|Devices)\b", "volumes"),
        (rf"{_CONTAINER_LIST}(\[[^\]]*\](\.name)?)?$", "containers"),
        (r"\.metadata\.labels\b", "pod labels"),
        (r"\.metadata\.annotations\b", "pod annotations"),
        (r"\.spec\.(nodeSelector|tolerations|affinity|topologySpreadC\w+)\b", "scheduling"),
        (r"\.spec\.(schedulerName|priorityClassName|schedulingGroup)\b", "scheduling"),
        (r"", "pod template"),
    )
)


def drop_explained_revision(
    fields: Sequence[FieldChange], templates: Sequence[str]
) -> tuple[FieldChange, ...]:
    """Drop changed revision labels if another field of the template changed, too.

    If only both labels changed, drop only the revision, because the pair revision explains it.
    """
    for revisions in ((_REVISION, _PAIR_REVISION), (_REVISION,)):
        rest = [change for change in fields if not change.path.endswith(revisions)]
        if any(is_overlapping(change.path, templates) for change in rest):
            return tuple(rest)
    return tuple(fields)


def is_overlapping(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path is one of the roots, or is above or below one."""
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[")) or root.startswith(f"{path}.")
        for root in roots
    )


def _describe_reason(changes: Iterable[FieldChange], gangs: Collection[str] = ()) -> str:
    """Return why pods restart, such as `image, arguments changed`.

    `gangs` describes changes of gang scheduling, listed in place of the fields that implement them.
    """
    parts = dict.fromkeys(sorted(gangs))
    names: dict[str, None] = {}
    for change in changes:
        if change.path == f"{LWS_TEMPLATE}.size":
            parts[f"nodes per replica {change.old or 1} -> {change.new or 1}"] = None
        elif not (gangs and _is_gang_field(change)):
            name = next(name for pattern, name in _PART_NAMES if pattern.search(change.path))
            names[name] = None
    if len(names) > 1:
        names.pop("pod template", None)
    return ", ".join([*parts, *([f"{', '.join(names)} changed"] if names else [])])


def _is_gang_field(change: FieldChange) -> bool:
    if change.path.endswith(_GANG_FIELDS):
        return True
    value = change.new if change.kind == "added" else change.old
    return (
        change.path.endswith(".metadata.annotations")
        and isinstance(value, Mapping)
        and _GANG_KEYS.issuperset(value)
    )


def find_rejections(
    plans: Sequence[ServicePlan], lws: tuple[Objects, Objects], edits: Iterable[Edit]
) -> dict[Service, list[Finding]]:
    """Return the changes that `pulumi up` rejects, by service, if the old objects are running.

    Services with several plans are skipped, because they may run in different clusters.
    """
    old_lws, new_lws = lws
    edits_by_key = {edit.key: edit for edit in edits}
    plan_counts = Counter((str(plan.namespace), plan.service) for plan in plans)
    rejections = {}
    for plan in plans:
        new_keys = index_lws_by_name(plan, new_lws)
        if not new_keys or plan_counts[str(plan.namespace), plan.service] > 1:
            continue
        service = next(iter(new_keys.values())).namespace, plan.service
        old_keys = index_lws_by_name(plan, old_lws)
        roles_of_other_layout = {
            key.name: get_role(key, manifest)
            for key, manifest in old_lws.items()
            if get_service(key, manifest) == service
            and read_layout(get_labels(manifest)) not in (None, plan.shape.layout)
        }
        roles = {name: get_role(key, new_lws[key]) for name, key in new_keys.items()}
        service_edits = {
            name: edits_by_key[key] for name, key in old_keys.items() if key in edits_by_key
        }
        immutable_fields = {
            name: edit.immutable_field
            for name, edit in service_edits.items()
            if edit.immutable_field
        }
        updated_in_place = {
            name: (edit.old, edit.new)
            for name, edit in service_edits.items()
            if edit.old is not None and edit.new is not None and name not in immutable_fields
            # A template that is a Pulumi secret is masked by a string.
            if all(isinstance(_get_template(side), Mapping) for side in (edit.old, edit.new))
        }
        running = {
            name: None
            if name in immutable_fields
            else RunningLws(
                read_lws_gang_reference(old_lws[key]),
                get_count(_get_template(old_lws[key]), "size"),
                get_count(old_lws[key], "spec", "replicas"),
                name in service_edits and service_edits[name].restarts,
            )
            for name, key in old_keys.items()
        }
        new_policies = {
            n for n, field in immutable_fields.items() if field.startswith(SUB_GROUP_POLICY)
        }
        awaits_replicas = plan.wait.level.awaits_replicas
        rejections[service] = [
            *check_layout_change(
                plan.shape.layout, roles_of_other_layout, roles, awaits_replicas=awaits_replicas
            ),
            *check_subgroup_policies(plan, new_policies),
            *check_kueue_changes(plan, updated_in_place),
            *check_gang_joins(plan, running),
        ]
    return rejections


def index_lws_by_name(plan: ServicePlan, lws: Objects) -> dict[str, Identity]:
    """Index the LeaderWorkerSets of a service by name; empty if a name is not unique."""
    names = {lws.name for role in plan.roles for lws in role.lws}
    is_known = isinstance(plan.namespace, str)
    keys = [k for k in lws if k.name in names and (not is_known or k.namespace == plan.namespace)]
    by_name = {key.name: key for key in keys}
    return by_name if len(by_name) == len(keys) else {}


def _get_template(manifest: Manifest) -> Any:
    return lookup(manifest, "spec", "leaderWorkerTemplate")
