"""What a change does to the replicas of each role: which restart, why, in which order.

The order, and what `pulumi up` refuses, come from the functions that the update itself uses.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from fusioninfer_pulumi.api.rollout import Layout, RoleOrder, RolloutStrategy
from fusioninfer_pulumi.checks.gang_joins import RunningLws, gang_findings
from fusioninfer_pulumi.checks.update import kueue_findings, layout_findings, policy_findings
from fusioninfer_pulumi.cli.diff._records import FieldChange, ObjectChange, RestartStage, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_NETWORK,
    LWS_TEMPLATE,
    ROLLING,
    Identity,
    Manifest,
    Objects,
    at,
    count_at,
    gang_of,
    label,
    partition_of,
    role_of,
    service_of,
)
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.order import LwsStep, by_group, group_rollout, update_order
from fusioninfer_pulumi.rollout.running import layout_of
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY
from fusioninfer_pulumi.topology.role import replicas_of, surge_of

#: Namespace and name of a service.
Service = tuple[str, str]

# Above this count, replicas of one LeaderWorkerSet get no names.
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class Edit:
    """A change of one object, whose pods restart or not.

    `refused` is the field that no update changes, so that the object is deleted and created.
    """

    key: Identity
    old: Manifest | None
    new: Manifest | None
    change: ObjectChange
    restarts: bool = False
    refused: str | None = None

    @property
    def services(self) -> tuple[Service, ...]:
        """Services that the object belongs to: two where its label changed, else one or none."""
        pairs = {
            (self.key.namespace, service_of(self.key, manifest)): None
            for manifest in (self.old, self.new)
            if manifest is not None
        }
        return tuple(service for service in pairs if service[1])

    @property
    def reason(self) -> str:
        """Why the pods of a Deployment or the like restart."""
        changes = [
            field for field in self.change.fields if below(field.path, self.key.template_paths)
        ]
        refused = f"{self.refused} changed" if self.refused else ""
        return ", ".join(filter(None, (refused, restart_reason(changes))))


@dataclass(frozen=True)
class Turn:
    """When a LeaderWorkerSet of a planned service changes.

    Attributes:
        position: Its place in the rollout.
        step: What the update does with it.
        at_a_time: Replicas of the role that change side by side, None for all.
        after: Roles that change before its own.
        groups: Whole serving groups that change side by side, None where groups do not count.
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


class Turns(dict[tuple[str, str], Turn]):
    """Turns by namespace, empty where only the engine knows it, and name of the set."""

    def of(self, key: Identity) -> Turn | None:
        """When a LeaderWorkerSet changes, None without a plan of it."""
        return self.get((key.namespace, key.name)) or self.get(("", key.name))


def turns(plans: Iterable[ServicePlan]) -> Turns:
    """Reads when each set changes from the plans of services."""
    all_turns = Turns()
    for plan in plans:
        namespace = plan.namespace if isinstance(plan.namespace, str) else ""
        grouped = by_group(plan)
        groups = group_rollout(plan).side_by_side if grouped else None
        sequential = plan.rollout.role_order is RoleOrder.SEQUENTIAL and not grouped
        roles: list[str] = []
        for position, step in enumerate(update_order(plan)):
            if not roles or roles[-1] != step.role:
                roles.append(step.role)
            at_a_time = step.rollout.side_by_side
            if not (step.required or step.whole):
                at_a_time = None  # an optional set is waited for by nothing
            elif at_a_time is not None and groups is not None:
                at_a_time *= groups
            after = tuple(roles[:-1]) if sequential else ()
            all_turns[namespace, step.name] = Turn(position, step, at_a_time, after, groups)
    return all_turns


def released(
    lws: tuple[Objects, Objects], turns: tuple[Turns, Turns], edits: Iterable[Edit]
) -> list[Identity]:
    """Finds sets whose template looks the same before and after, but may not be the one they have.

    Those that were below the partition and are not any more, or of which fewer replicas are.
    """
    restarting = {edit.key for edit in edits if edit.restarts}
    keys = []
    for key in lws[0].keys() & lws[1].keys() - restarting:
        before, after = (turn.of(key) for turn in turns)
        freed = before and after and before.step.frozen and not after.step.frozen
        if freed or partition_of(lws[0][key]) > partition_of(lws[1][key]):
            keys.append(key)
    return keys


class _Restart(NamedTuple):
    """Replicas of one LeaderWorkerSet that restart, in their order; see `RestartStage`.

    Optional ones restart after those that the service needs. `at_a_time` is None for all.
    """

    optional: bool
    position: int
    replicas: tuple[str, ...]
    at_a_time: int | None
    groups: int | None
    at_most: bool


@dataclass
class _Role:
    """What is gathered about one role; lists as in `RoleEffect`."""

    replicas_before: int = 0
    replicas_after: int = 0
    existed: bool = False
    exists: bool = False
    names: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    order: list[_Restart] = field(default_factory=list)
    ordered: bool = True
    after: tuple[str, ...] = ()
    changes: list[FieldChange] = field(default_factory=list)
    gangs: set[str] = field(default_factory=set)


def role_effects(
    old: Objects, new: Objects, edits: Sequence[Edit], turns: Turns
) -> Iterator[RoleEffect]:
    """Yields what happens to the replicas of the services that have a changed object.

    One effect per role that LeaderWorkerSets run, and one per Deployment (or the like) whose pods
    restart.
    """
    edited = {edit.key: edit for edit in edits}
    by_service: dict[Service, dict[str, _Role]] = {
        service: {} for edit in edits for service in edit.services
    }
    for key in {**old, **new}:
        was, now = old.get(key), new.get(key)
        some = now or was or {}
        roles = by_service.get((key.namespace, service_of(key, some)))
        if roles is not None:
            role = roles.setdefault(role_of(key, some), _Role())
            _gather(role, key, was, now, edited.get(key), turns.of(key))
    for service, roles in by_service.items():
        restarting = [name for name, role in roles.items() if role.names["restarts"]]
        for name, role in roles.items():
            role.after = tuple(role_name for role_name in role.after if role_name in restarting)
            yield _effect(service, name, role)
        for edit in edits:
            if edit.restarts and edit.key.is_apps_workload and service in edit.services:
                yield _apps_effect(service, edit)


def _gather(
    role: _Role,
    key: Identity,
    old: Manifest | None,
    new: Manifest | None,
    edit: Edit | None,
    turn: Turn | None,
) -> None:
    before = 0 if old is None else count_at(old, "spec", "replicas")
    after = 0 if new is None else count_at(new, "spec", "replicas")
    some = old if new is None else new
    group, index = label(some, labels.GROUP_INDEX), label(some, labels.REPLICA_INDEX)
    prefix = f"{group}-{role_of(key, some)}" if group else role_of(key, some)
    most = min(max(before, after), _MOST_NAMES)
    # `decode-0`, `1-decode-0` in a serving group.
    names = [f"{prefix}-{index if index and most <= 1 else number}" for number in range(most)]
    role.existed |= old is not None
    role.exists |= new is not None
    role.replicas_before += before
    role.replicas_after += after
    common = min(before, after)
    role.names["added"] += names[common:after]
    role.names["removed"] += names[common:before]
    if edit is None or edit.new is None or not edit.restarts or not common:
        role.names["kept"] += names[:common]
        return
    _restart(role, edit, edit.new, turn, names[:common])
    role.changes += (
        change for change in edit.change.fields if below(change.path, key.template_paths)
    )
    had, has = bool(gang_of(old)), bool(gang_of(new))
    if had != has:
        role.gangs.add(f"gang scheduling switched {'on' if has else 'off'}")


def _restart(role: _Role, edit: Edit, new: Manifest, turn: Turn | None, names: list[str]) -> None:
    """Notes which replicas of a set restart, and when; a partition holds some back."""
    # Below its partition LeaderWorkerSet keeps what there is, and so does the engine's state below
    # that of sets of one replica. A recreated LeaderWorkerSet has none.
    frozen = len(names) if turn is not None and turn.step.frozen else partition_of(new)
    frozen = 0 if edit.refused else frozen
    role.names["held_back"] += names[:frozen]
    role.names["kept"] += names[:frozen]
    restarting = names[frozen:]
    role.names["restarts"] += restarting
    if not restarting:
        return
    several = not label(new, labels.REPLICA_INDEX)
    if edit.key.ordinal or (turn is None and not several):
        # The service runs in two clusters, which update independently.
        role.ordered = False
        return
    recreated = bool(edit.refused) or (turn is not None and turn.recreated)
    # LeaderWorkerSet itself updates replicas of one set in order, if the cluster has room.
    paced = several and not recreated
    at_a_time = None
    if not recreated:
        at_a_time = _own_pace(new, len(names)) if turn is None or paced else turn.at_a_time
    replicas = tuple(reversed(restarting))
    optional = turn is not None and not turn.step.required and not turn.step.whole
    position, groups = (turn.position, turn.groups) if turn else (0, None)
    role.order.append(_Restart(optional, position, replicas, at_a_time, groups, paced))
    role.after = turn.after if turn else ()


def _own_pace(manifest: Manifest, replicas: int) -> int:
    """How many replicas of a set LeaderWorkerSet itself changes side by side."""
    limits = [at(manifest, *ROLLING, name) for name in ("maxUnavailable", "maxSurge")]
    down, more = (limit if isinstance(limit, int | str) else None for limit in limits)
    try:
        pace = replicas_of(1 if down is None else down, replicas) + surge_of(more or 0, replicas)
    except ValueError:
        return 1  # the API server refuses it
    return max(1, pace)


def _stages(restarts: Iterable[_Restart]) -> Iterator[RestartStage]:
    """Puts the restarts of a role in order: what the service needs first, the rest together."""
    ordered = sorted(restarts, key=lambda restart: restart[:2])
    for _, restart in groupby(ordered, key=lambda restart: restart.optional):
        part = list(restart)
        names = tuple(name for one in part for name in one.replicas)
        at_a_time = min(max(one.at_a_time or len(names) for one in part), len(names))
        groups = part[0].groups if at_a_time < len(names) else None
        at_most = at_a_time > 1 and any(one.at_most for one in part)
        yield RestartStage(names, at_a_time, groups, at_most)


def _effect(service: Service, name: str, role: _Role) -> RoleEffect:
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=name,
        kind="LeaderWorkerSet",
        replicas_before=role.replicas_before,
        replicas_after=role.replicas_after,
        restart_reason=restart_reason(role.changes, role.gangs) if role.names["restarts"] else "",
        existed=role.existed,
        exists=role.exists,
        order=tuple(_stages(role.order)) if role.ordered else (),
        after=role.after,
        restarts=tuple(role.names["restarts"]),
        added=tuple(role.names["added"]),
        removed=tuple(role.names["removed"]),
        kept=tuple(role.names["kept"]),
        held_back=tuple(role.names["held_back"]),
    )


def _apps_effect(service: Service, edit: Edit) -> RoleEffect:
    return RoleEffect(
        service=service[1],
        namespace=service[0],
        role=role_of(edit.key, edit.new),
        kind=edit.key.kind,
        replicas_before=count_at(edit.old, "spec", "replicas"),
        replicas_after=count_at(edit.new, "spec", "replicas"),
        restarts=(edit.key.name,),
        restart_reason=edit.reason,
    )


_REVISION = f"[{labels.REVISION}]"
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


def without_revision(
    fields: Sequence[FieldChange], templates: Sequence[str]
) -> tuple[FieldChange, ...]:
    """Leaves out the revision where another field of a template changed, which is why it did."""
    others = [change for change in fields if not change.path.endswith(_REVISION)]
    explained = any(below(change.path, templates) for change in others)
    return tuple(others if explained else fields)


def below(path: str, roots: Iterable[str]) -> bool:
    """Whether a path is one of the roots, below one, or holds one."""
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[")) or root.startswith(f"{path}.")
        for root in roots
    )


def restart_reason(changes: Iterable[FieldChange], gangs: Collection[str] = ()) -> str:
    """Says why pods restart: `image, arguments changed`.

    What happened to their gangs comes first; the fields of a gang say nothing more then.
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


def refusals(
    plans: Sequence[ServicePlan], lws: tuple[Objects, Objects], edits: Iterable[Edit]
) -> dict[Service, list[Finding]]:
    """What `pulumi up` refuses, by service, where the old sets are those that run.

    What needs a plan leaves out a service that stands several times in either source: each of its
    clusters may go its own way.
    """
    edited = {edit.key: edit for edit in edits}
    keys: dict[str, list[Identity]] = {}
    for key in lws[0]:
        keys.setdefault(key.name, []).append(key)
    times = Counter((str(plan.namespace), plan.service) for plan in plans)
    unawaited = {
        (str(plan.namespace), plan.service) for plan in plans if not plan.wait.level.awaits_replicas
    }
    refused = _layout_refusals(*lws, unawaited)
    for plan in plans:
        planned_keys = keys_of(plan, keys)
        if not planned_keys or times[str(plan.namespace), plan.service] > 1:
            continue
        differing = {
            name
            for name, key in planned_keys.items()
            if key in edited and (edited[key].refused or "").startswith(SUB_GROUP_POLICY)
        }
        running = {
            name: _running(lws[0][key], edited.get(key)) for name, key in planned_keys.items()
        }
        service = next(iter(planned_keys.values())).namespace, plan.service
        refused.setdefault(service, []).extend(
            [
                *policy_findings(plan, differing),
                *kueue_findings(plan, _in_place(planned_keys, edited)),
                *gang_findings(plan, running),
            ]
        )
    return refused


def _in_place(
    keys: Mapping[str, Identity], edited: Mapping[Identity, Edit]
) -> dict[str, tuple[Manifest, Manifest]]:
    """LeaderWorkerSets that are updated in place, before and after, by name."""
    edits = {name: edited[key] for name, key in keys.items() if key in edited}
    return {
        name: (edit.old, edit.new)
        for name, edit in edits.items()
        if edit.old is not None and edit.new is not None and not edit.refused
        # A hidden template is a text.
        if all(isinstance(at(m, *LWS_TEMPLATE.split(".")), Mapping) for m in (edit.old, edit.new))
    }


def _layout_refusals(
    old: Objects, new: Objects, unawaited: Collection[Service]
) -> dict[Service, list[Finding]]:
    """Services whose sets run one replica each and are to run all of a role, or the other way."""
    olds, news = _by_layout(old), _by_layout(new)
    return {
        service: layout_findings(layout, others, planned, awaits_replicas=service not in unawaited)
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
            layouts = by_service.setdefault((key.namespace, service_of(key, manifest)), {})
            layouts.setdefault(layout, {})[key.name] = role_of(key, manifest)
    return by_service


def keys_of(plan: ServicePlan, keys: Mapping[str, Sequence[Identity]]) -> dict[str, Identity]:
    """The LeaderWorkerSets of a service by name, none if a source has one of them twice."""
    matched = {}
    for planned in (lws.name for role in plan.roles for lws in role.lws):
        known = isinstance(plan.namespace, str)
        same = [k for k in keys.get(planned, ()) if not known or k.namespace == plan.namespace]
        if len(same) > 1:
            return {}
        if same:
            matched[planned] = same[0]
    return matched


def _running(old: Manifest, edit: Edit | None) -> RunningLws | None:
    if edit is not None and edit.refused:
        return None
    nodes = count_at(old, "spec", "leaderWorkerTemplate", "size")
    changes = edit is not None and edit.restarts
    return RunningLws(gang_of(old), nodes, count_at(old, "spec", "replicas"), changes)
