"""Effects of a change on replicas: which restart and why, and changes that `pulumi up` rejects."""

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
from fusioninfer_pulumi.cli.diff._records import BeforeAfter, FieldChange, ObjectChange, RoleEffect
from fusioninfer_pulumi.cli.diff.manifests import (
    LWS_NETWORK,
    LWS_TEMPLATE,
    Identity,
    Objects,
    ParsedManifest,
    ServiceIdentity,
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
from fusioninfer_pulumi.rollout.stack_lws import derive_layout
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update
from fusioninfer_pulumi.topology.gang import get_lws_gang_reference
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY

# Maximum number of replicas of a LeaderWorkerSet that are listed by name.
_MAX_NAMES = 10_000


@dataclass(frozen=True)
class Edit:
    """An object that differs; `old` is None for an added object, `new` for a removed object.

    Attributes:
        change: The difference as it is printed.
        restarts: Whether pods of the object restart, except pods that the partition keeps.
        immutable_field: A changed field that forces Pulumi to delete and create the object.
    """

    key: Identity
    old: ParsedManifest | None
    new: ParsedManifest | None
    change: ObjectChange
    restarts: bool = False
    immutable_field: str | None = None

    @property
    def service(self) -> ServiceIdentity:
        """The service that the object belongs to."""
        return get_service(self.key, self.new or self.old)

    @property
    def template_changes(self) -> list[FieldChange]:
        """The changes that restart pods."""
        paths = self.key.template_paths
        return [field for field in self.change.fields if is_overlapping(field.path, paths)]

    @property
    def reason(self) -> str:
        """Why the pods of a Deployment, StatefulSet or DaemonSet restart."""
        reasons = [] if self.immutable_field is None else [f"{self.immutable_field} changed"]
        return ", ".join(filter(None, [*reasons, _describe_reason(self.template_changes)]))


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
    """Return the step of a LeaderWorkerSet, or None if no plan has it."""
    return steps.get((key.namespace, key.name)) or steps.get(("", key.name))


def find_unfrozen_lws(
    lws: tuple[Objects, Objects], steps: tuple[Steps, Steps], edits: Iterable[Edit]
) -> list[Identity]:
    """Return LeaderWorkerSets whose replicas restart only because the partition is lowered."""
    old_lws, new_lws = lws
    old_steps, new_steps = steps
    restarting = {edit.key for edit in edits if edit.restarts}
    unfrozen_lws = []
    for key, old in old_lws.items():
        new = new_lws.get(key)
        if new is None or key in restarting:
            continue
        before, after = find_step(key, old_steps), find_step(key, new_steps)
        was_frozen = before is not None and before.is_frozen
        is_free = after is not None and not after.is_frozen
        if (was_frozen and is_free) or get_partition(old) > get_partition(new):
            unfrozen_lws.append(key)
    return unfrozen_lws


@dataclass(frozen=True)
class _ComparedLws:
    """A LeaderWorkerSet of a changed service; `edit` is None if it is the same before and after."""

    key: Identity
    old: ParsedManifest | None
    new: ParsedManifest | None
    edit: Edit | None
    step: LwsStep | None
    is_unfrozen: bool

    @property
    def counts(self) -> BeforeAfter:
        """Replicas before and after."""
        before = 0 if self.old is None else get_count(self.old, "spec", "replicas")
        after = 0 if self.new is None else get_count(self.new, "spec", "replicas")
        return BeforeAfter(before, after)

    @property
    def names(self) -> list[str]:
        """Names of all replicas before or after: `decode-0`, or `1-decode-0` in a serving group."""
        manifest = self.new or self.old
        group = get_label(manifest, labels.GROUP_INDEX)
        index = get_label(manifest, labels.REPLICA_INDEX)
        role = get_role(self.key, manifest)
        prefix = f"{group}-{role}" if group else role
        count = min(max(self.counts), _MAX_NAMES)
        # The label exists if each replica has its own LeaderWorkerSet.
        if index and count == 1:
            return [f"{prefix}-{index}"]
        return [f"{prefix}-{number}" for number in range(count)]

    @property
    def restarting_edit(self) -> Edit | None:
        """The edit if it restarts pods, else None."""
        if self.edit is None or not self.edit.restarts or min(self.counts) == 0:
            return None
        return self.edit

    @property
    def first_restarting(self) -> int:
        """The lowest ordinal that restarts; if none restarts, the number of kept replicas.

        Ordinals below the partition keep their template, unless the LeaderWorkerSet is replaced.
        """
        common: int = min(self.counts)
        if self.restarting_edit is None or self.new is None:
            return common
        if self.restarting_edit.immutable_field:
            return 0
        is_frozen = self.step is not None and self.step.is_frozen
        return common if is_frozen else min(get_partition(self.new), common)

    @property
    def restarts(self) -> list[str]:
        return self.names[self.first_restarting : min(self.counts)]

    @property
    def kept(self) -> list[str]:
        """Names of the replicas that run before and after, and do not restart."""
        return self.names[: self.first_restarting]

    @property
    def added(self) -> list[str]:
        return self.names[self.counts.before : self.counts.after]

    @property
    def removed(self) -> list[str]:
        return self.names[self.counts.after : self.counts.before]


def find_role_effects(
    lws: tuple[Objects, Objects],
    edits: Sequence[Edit],
    steps: Steps,
    unfrozen_lws: Container[Identity],
) -> Iterator[RoleEffect]:
    """Yield the effects on replicas of the services that have a changed object.

    There is one effect for each role with LeaderWorkerSets, and one for each restarting Deployment,
    StatefulSet or DaemonSet.
    """
    old_lws, new_lws = lws
    edits_by_key = {edit.key: edit for edit in edits}
    services: dict[ServiceIdentity, dict[str, list[_ComparedLws]]] = {
        edit.service: {} for edit in edits if edit.service.name
    }
    for key in {**old_lws, **new_lws}:
        compared = _ComparedLws(
            key=key,
            old=old_lws.get(key),
            new=new_lws.get(key),
            edit=edits_by_key.get(key),
            step=find_step(key, steps),
            is_unfrozen=key in unfrozen_lws,
        )
        manifest = compared.new or compared.old
        service = get_service(key, manifest)
        if service in services:
            services[service].setdefault(get_role(key, manifest), []).append(compared)
    for service, roles in services.items():
        for role, role_lws in roles.items():
            yield _describe_role_effect(service, role, role_lws)
        for edit in edits:
            if edit.restarts and edit.key.is_apps_workload and service == edit.service:
                yield _describe_apps_effect(service, edit)


def _describe_role_effect(
    service: ServiceIdentity, role: str, lws: Sequence[_ComparedLws]
) -> RoleEffect:
    replicas = BeforeAfter(
        sum(item.counts.before for item in lws), sum(item.counts.after for item in lws)
    )
    added = [name for item in lws for name in item.added]
    edits = [item.restarting_edit for item in lws if item.restarting_edit is not None]
    gang_changes = {
        f"gang scheduling switched {'on' if get_lws_gang_reference(edit.new) else 'off'}"
        for edit in edits
        if bool(get_lws_gang_reference(edit.old)) != bool(get_lws_gang_reference(edit.new))
    }
    changes = [change for edit in edits for change in edit.template_changes]
    restart_reason = "partition lowered" if any(item.is_unfrozen for item in lws) else ""
    if any(item.restarts for item in lws):
        restart_reason = _describe_reason(changes, gang_changes)
    existed = any(item.old is not None for item in lws)
    exists = any(item.new is not None for item in lws)
    if not (existed and exists):
        role_change = "role added" if exists else "role removed"
    elif replicas.before != replicas.after:
        role_change = f"replicas {replicas.before} -> {replicas.after}"
    elif len({derive_layout(get_labels(item.new or item.old)) for item in lws}) > 1:
        role_change = "layout changed"
    else:
        role_change = "replicas renamed" if added else ""
    return RoleEffect(
        service=service.name,
        namespace=service.namespace,
        role=role,
        kind="LeaderWorkerSet",
        replicas=replicas,
        restarts=tuple(name for item in lws for name in item.restarts),
        added=tuple(added),
        removed=tuple(name for item in lws for name in item.removed),
        kept=tuple(name for item in lws for name in item.kept),
        reason=", ".join(filter(None, (restart_reason, role_change))),
        held=tuple(name for item in lws if item.restarting_edit for name in item.kept),
        restart_reason=restart_reason,
        role_change=role_change,
    )


def _describe_apps_effect(service: ServiceIdentity, edit: Edit) -> RoleEffect:
    return RoleEffect(
        service=service.name,
        namespace=service.namespace,
        role=get_role(edit.key, edit.new),
        kind=edit.key.kind,
        replicas=BeforeAfter(
            *(get_count(side, "spec", "replicas") for side in (edit.old, edit.new))
        ),
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
        (re.escape(f"[{labels.CONFIG_CHECKSUM}]") + "$", "endpoint picker configuration"),
        (r"\.metadata\.annotations\b", "pod annotations"),
        (r"\.spec\.(nodeSelector|tolerations|affinity|topologySpreadC\w+)\b", "scheduling"),
        (r"\.spec\.(schedulerName|priorityClassName|schedulingGroup)\b", "scheduling"),
        (r"", "pod template"),
    )
)


def drop_explained_revision(
    fields: Sequence[FieldChange], templates: Sequence[str]
) -> tuple[FieldChange, ...]:
    """Drop changes of the revision labels that another change of the template explains.

    A changed pair revision explains a changed revision.
    """
    for labels_to_drop in ((_REVISION, _PAIR_REVISION), (_REVISION,)):
        remaining = [change for change in fields if not change.path.endswith(labels_to_drop)]
        if any(is_overlapping(change.path, templates) for change in remaining):
            return tuple(remaining)
    return tuple(fields)


def is_overlapping(path: str, roots: Iterable[str]) -> bool:
    """Return whether a path is equal to a root, an ancestor of it, or a descendant of it."""
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[")) or root.startswith(f"{path}.")
        for root in roots
    )


def _describe_reason(changes: Iterable[FieldChange], gang_changes: Collection[str] = ()) -> str:
    """Return why pods restart, such as `image, arguments changed`.

    `gang_changes` are texts about gang scheduling, which replace changes of the gang's fields.
    """
    reasons = sorted(gang_changes)
    parts: list[str] = []
    for change in changes:
        if change.path == f"{LWS_TEMPLATE}.size":
            reasons.append(f"nodes per replica {change.old or 1} -> {change.new or 1}")
        elif not (gang_changes and _is_gang_field(change)):
            parts += [next(name for pattern, name in _PART_NAMES if pattern.search(change.path))]
    specific_parts = [part for part in parts if part != "pod template"]
    if parts:
        reasons.append(f"{', '.join(dict.fromkeys(specific_parts or parts))} changed")
    return ", ".join(dict.fromkeys(reasons))


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
) -> dict[ServiceIdentity, list[Finding]]:
    """Return findings about changes that `pulumi up` rejects if the old objects are running.

    Kueue's webhook rejects the changes that `check_kueue_changes` finds, and the library rejects
    all others. Services without LeaderWorkerSets have no entry, and neither do services with
    several plans, which may run in several clusters.
    """
    old_lws, new_lws = lws
    edits_by_key = {edit.key: edit for edit in edits}
    plan_counts = Counter((str(plan.namespace), plan.service) for plan in plans)
    rejections: dict[ServiceIdentity, list[Finding]] = {}
    for plan in plans:
        new_keys = index_lws_by_name(plan, new_lws)
        if not new_keys or plan_counts[str(plan.namespace), plan.service] > 1:
            continue
        service = ServiceIdentity(next(iter(new_keys.values())).namespace, plan.service)
        old_keys = index_lws_by_name(plan, old_lws)
        roles_of_other_layout = {
            key.name: get_role(key, manifest)
            for key, manifest in old_lws.items()
            if get_service(key, manifest) == service
            and derive_layout(get_labels(manifest)) not in (None, plan.shape.layout)
        }
        changed_policies: set[str] = set()
        updated_in_place: dict[str, tuple[ParsedManifest, ParsedManifest]] = {}
        running: dict[str, RunningLws | None] = {}
        for name, key in old_keys.items():
            edit = edits_by_key.get(key)
            if edit is not None and edit.immutable_field:
                running[name] = None  # Pulumi replaces it
                if edit.immutable_field == SUB_GROUP_POLICY:
                    changed_policies.add(name)
                continue
            if edit is not None and edit.old is not None and edit.new is not None:
                templates = [_get_template(side) for side in (edit.old, edit.new)]
                # A template that is a Pulumi secret is masked by a string.
                if all(isinstance(template, Mapping) for template in templates):
                    updated_in_place[name] = edit.old, edit.new
            running[name] = RunningLws(
                gang=get_lws_gang_reference(old_lws[key]),
                nodes=get_count(_get_template(old_lws[key]), "size"),
                replicas=get_count(old_lws[key], "spec", "replicas"),
                is_outdated=edit is not None and edit.restarts,
            )
        rejections[service] = [
            *check_layout_change(
                plan.shape.layout,
                roles_of_other_layout,
                {name: get_role(key, new_lws[key]) for name, key in new_keys.items()},
                awaits_replicas=plan.wait.level.awaits_replicas,
            ),
            *check_subgroup_policies(plan, changed_policies),
            *check_kueue_changes(plan, updated_in_place),
            *check_gang_joins(plan, running),
        ]
    return rejections


def index_lws_by_name(plan: ServicePlan, lws: Objects) -> dict[str, Identity]:
    """Index the LeaderWorkerSets of a service by name; empty if a name is not unique."""
    names = {planned.name for role in plan.roles for planned in role.lws}
    keys = [key for key in lws if key.name in names]
    if isinstance(plan.namespace, str):  # it may be an Output
        keys = [key for key in keys if key.namespace == plan.namespace]
    by_name = {key.name: key for key in keys}
    return by_name if len(by_name) == len(keys) else {}


def _get_template(manifest: ParsedManifest) -> Any:
    return lookup(manifest, "spec", "leaderWorkerTemplate")
