"""How a change affects the replicas of each role: which restart, why, and in which order.

The order, and the changes that `pulumi up` rejects, come from the functions of the update itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, RolloutStrategy
from fusioninfer_pulumi.checks.gang_joins import RunningLws, check_gang_joins
from fusioninfer_pulumi.checks.update_checks import (
    check_kueue_changes,
    check_layout_change,
    check_subgroup_policies,
)
from fusioninfer_pulumi.cli.diff._records import (
    FieldChange,
    ObjectChange,
    Pair,
    RestartStage,
    RoleEffect,
)
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_NETWORK,
    LWS_TEMPLATE,
    Identity,
    Manifest,
    Objects,
    Service,
    at,
    get_count,
    get_partition,
    label,
    pod_group_reference,
    role_of,
    service_of,
)
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import layout_of
from fusioninfer_pulumi.rollout.update_order import LwsStep, by_group, group_rollout, update_order
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


@dataclass(frozen=True)
class PlannedUpdate:
    """When the update of a service changes one of its LeaderWorkerSets.

    Attributes:
        position: Its place in the rollout.
        step: Its step of the update.
        at_a_time: Replicas of the role that change in parallel, None for all.
        after: Roles that change before this one.
        groups: Serving groups that change in parallel, None if the update ignores groups.
    """

    position: int
    step: LwsStep
    at_a_time: int | None
    after: tuple[str, ...]
    groups: int | None

    @property
    def recreated(self) -> bool:
        """Whether a change of its pods deletes it and creates it again."""
        return self.step.rollout.strategy is RolloutStrategy.RECREATE

    @property
    def optional(self) -> bool:
        """Whether the update does not wait for it."""
        return not (self.step.required or self.step.whole)


class PlannedUpdates(dict[tuple[str, str], PlannedUpdate]):
    """Updates by namespace, empty if only the Pulumi engine knows it, and LeaderWorkerSet."""

    def of(self, key: Identity) -> PlannedUpdate | None:
        """When a LeaderWorkerSet changes, None without a plan of it."""
        return self.get((key.namespace, key.name)) or self.get(("", key.name))


def planned_updates(plans: Iterable[ServicePlan]) -> PlannedUpdates:
    """Returns when each LeaderWorkerSet of services changes."""
    updates = PlannedUpdates()
    for plan in plans:
        namespace = plan.namespace if isinstance(plan.namespace, str) else ""
        grouped = by_group(plan)
        groups = group_rollout(plan).parallel_limit if grouped else None
        sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL and not grouped
        roles: list[str] = []
        for position, step in enumerate(update_order(plan)):
            if not roles or roles[-1] != step.role:
                roles.append(step.role)
            at_a_time = step.rollout.parallel_limit
            if at_a_time is not None and step.whole:
                at_a_time = max(1, at_a_time + step.rollout.max_surge)
            elif at_a_time is not None and groups is not None:
                at_a_time *= groups
            if not (step.required or step.whole):
                at_a_time = None
            after = tuple(roles[:-1]) if sequential else ()
            updates[namespace, step.name] = PlannedUpdate(position, step, at_a_time, after, groups)
    return updates


def find_released(
    lws: tuple[Objects, Objects],
    updates: tuple[PlannedUpdates, PlannedUpdates],
    edits: Iterable[Edit],
) -> list[Identity]:
    """Finds LeaderWorkerSets of an unchanged template that a lower partition lets restart."""
    restarting = {edit.key for edit in edits if edit.restarts}
    keys = []
    for key in lws[0].keys() & lws[1].keys() - restarting:
        before, after = (update.of(key) for update in updates)
        freed = before and after and before.step.frozen and not after.step.frozen
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
    update: PlannedUpdate | None

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
    def is_replaced(self) -> bool:
        """Whether it is deleted and created again because an immutable field changed."""
        return self.edit is not None and bool(self.edit.immutable_field)

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
        if self.is_replaced:
            return 0
        planned = self.update is not None and self.update.step.frozen
        return common if planned else min(get_partition(self.new), common)

    @property
    def restarts(self) -> list[str]:
        """The replicas that restart."""
        return self.names[self.frozen : min(self.counts)]


def find_role_effects(
    lws: tuple[Objects, Objects], edits: Sequence[Edit], updates: PlannedUpdates
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
            item = _Lws(key, old.get(key), new.get(key), edited.get(key), updates.of(key))
            roles.setdefault(role_of(key, some), []).append(item)
    for service, roles in services.items():
        restarting = [name for name, items in roles.items() if any(i.restarts for i in items)]
        for name, items in roles.items():
            yield _effect(service, name, items, restarting)
        for edit in edits:
            if edit.restarts and edit.key.is_apps_workload and service == edit.service:
                yield _apps_effect(service, edit)


def _effect(
    service: Service, role: str, items: Sequence[_Lws], restarting: Collection[str]
) -> RoleEffect:
    replicas = Pair(*map(sum, zip(*(item.counts for item in items), strict=True)))
    added = [name for i in items for name in i.names[i.counts[0] : i.counts[1]]]
    changed = [item for item in items if item.restarts]
    edits = [item.changed for item in items if item.changed is not None]
    gangs = {
        f"gang scheduling switched {'on' if pod_group_reference(edit.new) else 'off'}"
        for edit in edits
        if bool(pod_group_reference(edit.old)) != bool(pod_group_reference(edit.new))
    }
    changes = [change for edit in edits for change in edit.template_changes]
    restart_reason = _restart_reason(changes, gangs) if changed else ""
    existed = any(item.old is not None for item in items)
    exists = any(item.new is not None for item in items)
    role_change = "replicas renamed" if added else ""
    if not (existed and exists):
        role_change = "role added" if exists else "role removed"
    elif replicas.before != replicas.after:
        role_change = f"replicas {replicas.before} -> {replicas.after}"
    # Updates of a service that runs in two clusters are independent.
    ordered = all(item.update is not None and not item.key.ordinal for item in changed)
    after = changed[-1].update.after if changed and changed[-1].update is not None else ()
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
        order=tuple(_stages(changed)) if ordered else (),
        after=tuple(name for name in after if name in restarting),
        held=tuple(name for i in items if i.changed for name in i.names[: i.frozen]),
        restart_reason=restart_reason,
        role_change=role_change,
    )


def _stages(items: Iterable[_Lws]) -> Iterator[RestartStage]:
    """Puts the restarts of a role in order: what the service needs first, the rest together."""
    updates = [(item, item.update) for item in items if item.update is not None]
    updates.sort(key=lambda pair: (pair[1].optional, pair[1].position))
    for _, same in groupby(updates, key=lambda pair: pair[1].optional):
        part = list(same)
        names = tuple(name for item, _ in part for name in reversed(item.restarts))
        paced = [update for item, update in part if not (update.recreated or item.is_replaced)]
        paces = [update.at_a_time or len(names) for update in paced]
        at_a_time = min(max(paces), len(names)) if len(paced) == len(part) else len(names)
        # LeaderWorkerSet itself updates replicas of one set in order, if the cluster has room.
        at_most = at_a_time > 1 and any(update.step.whole for update in paced)
        groups = part[0][1].groups if at_a_time < len(names) else None
        yield RestartStage(names, at_a_time, groups, at_most)


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

    Checks that need a plan skip services that occur several times in a source, because each of
    their clusters may be updated independently.
    """
    edited = {edit.key: edit for edit in edits}
    times = Counter((str(plan.namespace), plan.service) for plan in plans)
    unawaited = {
        (str(plan.namespace), plan.service) for plan in plans if not plan.wait.level.awaits_replicas
    }
    rejected = _layout_rejections(*lws, unawaited)
    for plan in plans:
        keys = lws_by_name(plan, lws[0])
        if not keys or times[str(plan.namespace), plan.service] > 1:
            continue
        edits_of = {name: edited[key] for name, key in keys.items() if key in edited}
        differing = {
            name
            for name, edit in edits_of.items()
            if (edit.immutable_field or "").startswith(SUB_GROUP_POLICY)
        }
        running = {name: _running(lws[0][key], edited.get(key)) for name, key in keys.items()}
        in_place = {
            name: (edit.old, edit.new)
            for name, edit in edits_of.items()
            if edit.old is not None and edit.new is not None and not edit.immutable_field
            # A secret template is a text.
            if all(isinstance(_template(side), Mapping) for side in (edit.old, edit.new))
        }
        service = next(iter(keys.values())).namespace, plan.service
        rejected.setdefault(service, []).extend(
            [
                *check_subgroup_policies(plan, differing),
                *check_kueue_changes(plan, in_place),
                *check_gang_joins(plan, running),
            ]
        )
    return rejected


def _layout_rejections(
    old: Objects, new: Objects, unawaited: Collection[Service]
) -> dict[Service, list[Finding]]:
    """Finds services that change between `PerReplica` and `PerRole`."""
    olds, news = _by_layout(old), _by_layout(new)
    return {
        service: check_layout_change(
            layout, others, planned, awaits_replicas=service not in unawaited
        )
        for service, layouts in news.items()
        for layout, planned in layouts.items()
        for other, others in olds.get(service, {}).items()
        if len(layouts) == 1 and other is not layout
    }


def _by_layout(lws: Objects) -> dict[Service, dict[Layout, dict[str, str]]]:
    """Roles of the LeaderWorkerSets by their names, by service and layout."""
    by_service: dict[Service, dict[Layout, dict[str, str]]] = {}
    for key, manifest in lws.items():
        lws_labels = at(manifest, "metadata", "labels")
        layout = layout_of(lws_labels) if isinstance(lws_labels, Mapping) else None
        if layout is not None:
            layouts = by_service.setdefault(service_of(key, manifest), {})
            layouts.setdefault(layout, {})[key.name] = role_of(key, manifest)
    return by_service


def lws_by_name(plan: ServicePlan, lws: Objects) -> dict[str, Identity]:
    """Returns the LeaderWorkerSets of a service by name, none if one occurs twice."""
    planned = {lws.name for role in plan.roles for lws in role.lws}
    known = isinstance(plan.namespace, str)
    keys = [k for k in lws if k.name in planned and (not known or k.namespace == plan.namespace)]
    matched = {key.name: key for key in keys}
    return matched if len(matched) == len(keys) else {}


def _template(manifest: Manifest) -> Any:
    return at(manifest, "spec", "leaderWorkerTemplate")


def _running(old: Manifest, edit: Edit | None) -> RunningLws | None:
    if edit is not None and edit.immutable_field:
        return None
    nodes = get_count(_template(old), "size")
    changes = edit is not None and edit.restarts
    return RunningLws(pod_group_reference(old), nodes, get_count(old, "spec", "replicas"), changes)
