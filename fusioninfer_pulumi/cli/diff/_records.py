"""Records of a comparison. Their fields, in camelCase, are the keys of `--output json`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from fusioninfer_pulumi.engines.argument_checks import ChangedDefault, RemovedArgument

FieldKind = Literal["changed", "added", "removed"]
Action = Literal["added", "removed", "changed", "replaced"]


class BeforeAfter(NamedTuple):
    """A value before and after."""

    before: Any
    after: Any


class FieldChange(NamedTuple):
    """One field that differs.

    Attributes:
        path: Such as `spec.template.spec.containers[vllm].image`. List items are identified by
            name if all have one. Otherwise added items have their index in the new list, changed
            and removed items their index in the old list. The path `env[*].name` means that only
            the order of the items differs.
        kind: Whether the field changed, was added or removed; a changed value may be null.
        old: Old value; None if the field was added, or for null.
        new: New value; None if the field was removed, or for null.
        suffix: Text after the path in text and markdown, such as ` (--port)` for an item that is
            the value of this flag.
    """

    path: str
    kind: FieldKind
    old: Any
    new: Any
    suffix: str = ""


class ObjectChange(NamedTuple):
    """One Kubernetes object that differs.

    Attributes:
        api_version: API version after the change; before the change if the object is removed.
        namespace: Namespace, `default` if the manifest has none.
        action: `replaced` means deleted and created, because a changed field is immutable.
        fields: The changed fields; empty for added and removed objects.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...]


class RoleEffect(NamedTuple):
    """The effects of a change on the replicas of a role.

    Attributes:
        service: Service, or the workload's name if it has no labels of this library.
        role: Role, or the workload's name if it has no labels of this library.
        kind: Kind of the workloads that run the role.
        replicas: Number of replicas.
        restarts: Replicas that restart.
        added: Replicas that start.
        removed: Replicas that stop.
        kept: Replicas that do not restart.
        reason: Why replicas change; empty if no replica changes.
        held: The part of `kept` that does not receive a new pod template, because of
            `rollout.partition`.
        restart_reason: The part of `reason` about restarts. If `partition lowered`, the replicas
            that still have the old template restart; they are not in `restarts`.
        role_change: The part of `reason` about the role, such as `replicas 2 -> 3`.
    """

    service: str
    namespace: str
    role: str
    kind: str
    replicas: BeforeAfter
    restarts: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reason: str = ""
    held: tuple[str, ...] = ()
    restart_reason: str = ""
    role_change: str = ""


class EngineChange(NamedTuple):
    """Arguments of a role's engine that its new release removes or gives another default."""

    service: str
    namespace: str
    role: str
    engine: str
    release: BeforeAfter
    removed: tuple[RemovedArgument, ...]
    defaults: tuple[ChangedDefault, ...]


class ServiceTotals(NamedTuple):
    """Pods and accelerators in all LeaderWorkerSets of a service."""

    service: str
    namespace: str
    pods: BeforeAfter
    accelerators: BeforeAfter


class Difference(NamedTuple):
    """The difference between two lists of manifests; its `bool` is False if nothing differs.

    Attributes:
        objects: Objects that differ, in the order of the new list; removed objects are last.
        effects: Effects on the replicas of each service with a changed object.
        notes: Sentences about the effects of the change.
        engines: Changes of engine releases.
        totals: Pods and accelerators of each service with a changed object.
    """

    objects: tuple[ObjectChange, ...] = ()
    effects: tuple[RoleEffect, ...] = ()
    notes: tuple[str, ...] = ()
    engines: tuple[EngineChange, ...] = ()
    totals: tuple[ServiceTotals, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects or self.notes)
