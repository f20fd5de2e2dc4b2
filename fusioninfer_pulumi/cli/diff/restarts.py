"""How a change affects the replicas of each role: which restart, why, and in which order.

The order, and the changes that `pulumi up` rejects, come from the functions of the update itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.checks.update_checks import (
    RunningLws,
    check_gang_joins,
    check_kueue_changes,
    check_layout_change,
    check_subgroup_policies,
)
from fusioninfer_pulumi.cli.diff._records import (
    FieldChange,
    ObjectChange,
    Pair,
    RoleEffect,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_NETWORK,
    LWS_TEMPLATE,
    Identity,
    Manifest,
    Objects,
    Service,
    get_count,
    get_labels,
    get_partition,
    label,
    role_of,
    service_of,
)
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import at
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import read_layout
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update
from fusioninfer_pulumi.topology.gang import read_pod_group_reference
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY

# Above this count, replicas of one LeaderWorkerSet get no names.
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class Edit:
    """A change of one object, whose pods restart or not.

    `immutable_field` is a changed field that forces a replacement: delete, then create.
    """

    key: Identity
    old: Manifest | None
    new: Manifest | None
    change: ObjectChange
    restarts: bool = False
    immutable_field: str | None = None

    @property
    def service(self) -> Service:
        """The service that the object belongs to; its name is empty where there is none."""
        return service_of(self.key, self.new or self.old)

    @property
    def template_changes(self) -> list[FieldChange]:
        """The changes that restart pods."""
        return [field for field in self.change.fields if below(field.path, self.key.template_paths)]

    @property
    def reason(self) -> str:
        """Why the pods of a Deployment or the like restart."""
        replaced = f"{self.immutable_field} changed" if self.immutable_field else ""
        return ", ".join(filter(None, (replaced, _restart_reason(self.template_changes))))


#: The update's steps by namespace, empty if only the Pulumi engine knows it, and LeaderWorkerSet.
Steps = Mapping[tuple[str, str], LwsStep]


def planned_steps(plans: Iterable[ServicePlan]) -> Steps:
    """Returns the step of each LeaderWorkerSet in the updates of services."""
    return {
        (plan.namespace if isinstance(plan.namespace, str) else "", step.name): step
        for plan in plans
        for step in order_update(plan)
    }


def step_of(key: Identity, steps: Steps) -> LwsStep | None:
    """Returns the step of a LeaderWorkerSet, None without a plan of it."""
    return steps.get((key.namespace, key.name)) or steps.get(("", key.name))


def find_released(
    lws: tuple[Objects, Objects], steps: tuple[Steps, Steps], edits: Iterable[Edit]
) -> list[Identity]:
    """Finds LeaderWorkerSets of an unchanged template that a lower partition lets restart."""
    restarting = {edit.key for edit in edits if edit.restarts}
    keys = []
    for key in (key for key in lws[0] if key in lws[1] and key not in restarting):
        before, after = (step_of(key, side) for side in steps)
        freed = before and after and before.frozen and not after.frozen
        if freed or get_partition(lws[0][key]) > get_partition(lws[1][key]):
            keys.append(key)
    return keys


@dataclass(frozen=True)
class _Lws:
    """One LeaderWorkerSet before and after."""

    key: Identity
    old: Manifest | None
    new: Manifest | None
    edit: Edit | None
    step: LwsStep | None

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
        """Its replicas: `decode-0`, `1-decode-0` in a serving group."""
        some = self.new or self.old
        group, index = label(some, labels.GROUP_INDEX), label(some, labels.REPLICA_INDEX)
        prefix = f"{group}-{role_of(self.key, some)}" if group else role_of(self.key, some)
        most = min(max(self.counts), _MOST_NAMES)
        return [f"{prefix}-{index if index and most <= 1 else number}" for number in range(most)]

    @property
    def changed(self) -> Edit | None:
        """The edit that restarts its pods, None without one."""
        is_changed = self.edit is not None and self.edit.restarts and min(self.counts)
        return self.edit if is_changed else None

    @property
    def frozen(self) -> int:
        """The ordinal from which on replicas restart.

        Replicas below the partition keep their template: LeaderWorkerSet ensures it for its
        replicas, the state of the stack for LeaderWorkerSets of one replica. A replacement has no
        partition.
        """
        common = min(self.counts)
        if self.changed is None or self.new is None:
            return common
        if self.changed.immutable_field:
            return 0
        is_frozen = self.step is not None and self.step.frozen
        return common if is_frozen else min(get_partition(self.new), common)

    @property
    def restarts(self) -> list[str]:
        """The replicas that restart."""
        return self.names[self.frozen : min(self.counts)]


def find_role_effects(
    lws: tuple[Objects, Objects], edits: Sequence[Edit], steps: Steps
) -> Iterator[RoleEffect]:
    """Yields the effects on the replicas of services that have a changed object.

    One effect for each role of LeaderWorkerSets, and one for each other workload that restarts.
    """
    old, new = lws
    edited = {edit.key: edit for edit in edits}
    services: dict[Service, dict[str, list[_Lws]]] = {
        edit.service: {} for edit in edits if edit.service[1]
    }
    for key in {**old, **new}:
        some = new.get(key) or old.get(key)
        roles = services.get(service_of(key, some))
        if roles is not None:
            item = _Lws(key, old.get(key), new.get(key), edited.get(key), step_of(key, steps))
            roles.setdefault(role_of(key, some), []).append(item)
    for service, roles in services.items():
        for name, items in roles.items():
            yield _effect(service, name, items)
        for edit in edits:
            if edit.restarts and edit.key.is_apps_workload and service == edit.service:
                yield _apps_effect(service, edit)


def _effect(service: Service, role: str, items: Sequence[_Lws]) -> RoleEffect:
    replicas = Pair(*map(sum, zip(*(item.counts for item in items), strict=True)))
    added = [name for i in items for name in i.names[i.counts[0] : i.counts[1]]]
    edits = [item.changed for item in items if item.changed is not None]
    gangs = {
        f"gang scheduling switched {'on' if read_pod_group_reference(edit.new) else 'off'}"
        for edit in edits
        if bool(read_pod_group_reference(edit.old)) != bool(read_pod_group_reference(edit.new))
    }
    changes = [change for edit in edits for change in edit.template_changes]
    restart_reason = _restart_reason(changes, gangs) if any(item.restarts for item in items) else ""
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
        kept=tuple(name for item in items for name in item.names[: item.frozen]),
        reason=", ".join(filter(None, (restart_reason, role_change))),
        held=tuple(name for i in items if i.changed for name in i.names[: i.frozen]),
        restart_reason=restart_reason,
        role_change=role_change,
    )


def _apps_effect(service: Service, edit: Edit) -> RoleEffect:
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=role_of(edit.key, edit.new),
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

_LIST = r"\.(containers|initContainers)"
_CONTAINER = rf"{_LIST}\[[^\]]*\]"
# The first pattern that a path matches names what changed.
_WORDS = tuple(
    (re.compile(pattern), word)
    for pattern, word in (
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
        (rf"{_LIST}(\[[^\]]*\](\.name)?)?$", "containers"),
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
    """Drops revisions if another field of the template changed, which explains them."""
    for revisions in ((_REVISION, _PAIR_REVISION), (_REVISION,)):
        others = [change for change in fields if not change.path.endswith(revisions)]
        if any(below(change.path, templates) for change in others):
            return tuple(others)
    return tuple(fields)


def below(path: str, roots: Iterable[str]) -> bool:
    """Whether a path is one of the roots, below one, or holds one."""
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[")) or root.startswith(f"{path}.")
        for root in roots
    )


def _restart_reason(changes: Iterable[FieldChange], gangs: Collection[str] = ()) -> str:
    """Returns why pods restart: `image, arguments changed`.

    Changes of their gang come first, and replace the fields that implement it.
    """
    parts = dict.fromkeys(sorted(gangs))
    words: dict[str, None] = {}
    for change in changes:
        if change.path == f"{LWS_TEMPLATE}.size":
            parts[f"nodes per replica {change.old or 1} -> {change.new or 1}"] = None
        elif not (gangs and _is_gang(change)):
            word = next(word for pattern, word in _WORDS if pattern.search(change.path))
            words[word] = None
    if len(words) > 1:
        words.pop("pod template", None)
    return ", ".join([*parts, *([f"{', '.join(words)} changed"] if words else [])])


def _is_gang(change: FieldChange) -> bool:
    if change.path.endswith(_GANG_FIELDS):
        return True
    whole = change.new if change.kind == "added" else change.old
    return (
        change.path.endswith(".metadata.annotations")
        and isinstance(whole, Mapping)
        and _GANG_KEYS.issuperset(whole)
    )


def find_rejections(
    plans: Sequence[ServicePlan], lws: tuple[Objects, Objects], edits: Iterable[Edit]
) -> dict[Service, list[Finding]]:
    """Returns the changes that `pulumi up` rejects, by service, if the old objects are running.

    Skips services that occur several times in a source, because each of their clusters may be
    updated independently.
    """
    edited = {edit.key: edit for edit in edits}
    times = Counter((str(plan.namespace), plan.service) for plan in plans)
    rejected = {}
    for plan in plans:
        planned = lws_by_name(plan, lws[1])
        if not planned or times[str(plan.namespace), plan.service] > 1:
            continue
        service = next(iter(planned.values())).namespace, plan.service
        running = lws_by_name(plan, lws[0])
        other_layout = {
            key.name: role_of(key, manifest)
            for key, manifest in lws[0].items()
            if service_of(key, manifest) == service
            and read_layout(get_labels(manifest)) not in (None, plan.shape.layout)
        }
        roles = {name: role_of(key, lws[1][key]) for name, key in planned.items()}
        edits_of = {name: edited[key] for name, key in running.items() if key in edited}
        replaced = {
            name: edit.immutable_field for name, edit in edits_of.items() if edit.immutable_field
        }
        in_place = {
            name: (edit.old, edit.new)
            for name, edit in edits_of.items()
            if edit.old is not None and edit.new is not None and name not in replaced
            # A secret template is a text.
            if all(isinstance(_template(side), Mapping) for side in (edit.old, edit.new))
        }
        before = {
            name: None
            if name in replaced
            else RunningLws(
                read_pod_group_reference(lws[0][key]),
                get_count(_template(lws[0][key]), "size"),
                get_count(lws[0][key], "spec", "replicas"),
                name in edits_of and edits_of[name].restarts,
            )
            for name, key in running.items()
        }
        policies = {name for name, field in replaced.items() if field.startswith(SUB_GROUP_POLICY)}
        awaits_replicas = plan.wait.level.awaits_replicas
        rejected[service] = [
            *check_layout_change(
                plan.shape.layout, other_layout, roles, awaits_replicas=awaits_replicas
            ),
            *check_subgroup_policies(plan, policies),
            *check_kueue_changes(plan, in_place),
            *check_gang_joins(plan, before),
        ]
    return rejected


def lws_by_name(plan: ServicePlan, lws: Objects) -> dict[str, Identity]:
    """Returns the LeaderWorkerSets of a service by name, none if one occurs twice."""
    planned = {lws.name for role in plan.roles for lws in role.lws}
    known = isinstance(plan.namespace, str)
    keys = [k for k in lws if k.name in planned and (not known or k.namespace == plan.namespace)]
    matched = {key.name: key for key in keys}
    return matched if len(matched) == len(keys) else {}


def _template(manifest: Manifest) -> Any:
    return at(manifest, "spec", "leaderWorkerTemplate")
