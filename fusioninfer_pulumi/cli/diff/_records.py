"""Records of a comparison.

Their fields are the keys of `--output json`, in camelCase; see `formats.to_json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fusioninfer_pulumi.engines.argument_checks import ChangedDefault, RemovedArgument

FieldKind = Literal["changed", "added", "removed"]
Action = Literal["added", "removed", "changed", "replaced"]


@dataclass(frozen=True)
class Pair:
    """A value before and after."""

    before: Any
    after: Any


@dataclass(frozen=True)
class FieldChange:
    """One field that differs.

    Attributes:
        path: Where, e.g. `spec.template.spec.containers[vllm].image`. Items of a list are addressed
            by their name where all have one, else by their index (that of the old list, of the new
            one for an added item); `env[*].name` holds the names in their order.
        old: None where the field was absent; `kind` distinguishes that from null.
        new: None where the field is gone.
    """

    path: str
    kind: FieldKind
    old: Any
    new: Any


@dataclass(frozen=True)
class ObjectChange:
    """One Kubernetes object that differs.

    Attributes:
        api_version: API version after the change, before it where the object is removed.
        namespace: Namespace, `default` where the manifest names none.
        action: `replaced` is deleted and then created, because a changed field is immutable.
        fields: The changed fields; empty for added and removed objects.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class RoleEffect:
    """The effects of a change on the replicas of a role.

    Attributes:
        service: Service; the workload's name without our labels.
        role: Role, likewise.
        kind: Kind of the workloads that run the role.
        kept: Replicas whose pods keep running.
        reason: Why replicas change; empty if none does.
        held: Replicas among those kept that keep the old template because of the partition.
        restart_reason: The part of the reason that is about restarts.
        role_change: The part about the role itself, such as `replicas 2 -> 3`.
    """

    service: str
    namespace: str
    role: str
    kind: str
    replicas: Pair
    restarts: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reason: str = ""
    held: tuple[str, ...] = ()
    restart_reason: str = ""
    role_change: str = ""


@dataclass(frozen=True)
class EngineChange:
    """Arguments of a role that another engine release removes or gives another default."""

    service: str
    namespace: str
    role: str
    engine: str
    release: Pair
    removed: tuple[RemovedArgument, ...]
    defaults: tuple[ChangedDefault, ...]


@dataclass(frozen=True)
class ServiceTotals:
    """Pods and accelerators of all LeaderWorkerSets of a service."""

    service: str
    namespace: str
    pods: Pair
    accelerators: Pair


@dataclass(frozen=True)
class Difference:
    """The difference between two lists of manifests; false if there is none.

    Attributes:
        objects: Objects that differ, in the order of the new list, then the removed ones.
        effects: The effects on replicas of every service that has a changed object.
        notes: Sentences about the effects of the change.
        engines: Arguments that another release of an engine removes or gives another default.
        totals: Pods and accelerators of every service that has a changed object.
    """

    objects: tuple[ObjectChange, ...] = ()
    effects: tuple[RoleEffect, ...] = ()
    notes: tuple[str, ...] = ()
    engines: tuple[EngineChange, ...] = ()
    totals: tuple[ServiceTotals, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects or self.notes)
