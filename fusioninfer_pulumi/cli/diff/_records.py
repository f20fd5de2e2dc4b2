"""What a comparison finds: plain records, for people and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fusioninfer_pulumi.engines.argument_checks import ArgumentChanges

FieldKind = Literal["changed", "added", "removed"]
Action = Literal["added", "removed", "changed", "replaced"]


@dataclass(frozen=True)
class FieldChange:
    """One field that differs.

    Attributes:
        path: Where, e.g. `spec.template.spec.containers[vllm].image`. Items of a list are addressed
            by their name where all have one, else by their index (that of the old list, of the new
            one for an added item); `env[*].name` holds the names in their order.
        old: Value before, None where the field was absent.
        new: Value after, None where the field is gone.
        kind: What happened; whether it is absent or null.
    """

    path: str
    old: Any
    new: Any
    kind: FieldKind


@dataclass(frozen=True)
class ObjectChange:
    """One Kubernetes object that differs.

    Attributes:
        api_version: API version after the change, before it where the object is removed.
        kind: Kind.
        namespace: Namespace, `default` where the manifest names none.
        name: Name.
        action: `replaced` is deleted and then created, because the cluster refuses the update.
        fields: What differs; empty where the whole object is added or removed.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class RestartStage:
    """Replicas that restart before those of the next stage.

    Attributes:
        replicas: The replicas, in the order in which they restart.
        at_a_time: How many of them restart side by side.
        groups: How many whole serving groups that is, None where groups do not count.
        at_most: Whether it is one after the other in clusters whose StatefulSets go by no
            `maxUnavailable`.
    """

    replicas: tuple[str, ...]
    at_a_time: int
    groups: int | None = None
    at_most: bool = False


@dataclass(frozen=True)
class RoleEffect:
    """What happens to the replicas of one role.

    Attributes:
        service: Service; the workload's own name where it carries none of our labels.
        namespace: Namespace.
        role: Role; the workload's own name where it carries none of our labels.
        kind: Kind of the workloads that run the role.
        replicas_before: Replicas before.
        replicas_after: Replicas after.
        restarts: Replicas whose pods are replaced.
        added: Replicas that start.
        removed: Replicas that stop for good.
        kept: Replicas whose pods are not touched.
        restart_reason: Short text such as `image changed`; empty where no replica restarts.
        existed: Whether anything ran the role before.
        exists: Whether anything runs it after.
        order: The restarts in their order; empty where it is unknown.
        after: Roles of the service whose replicas restart before those of this one.
        held_back: Replicas among those kept that a partition holds back from the change.
    """

    service: str
    namespace: str
    role: str
    kind: str
    replicas_before: int
    replicas_after: int
    restarts: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    restart_reason: str = ""
    existed: bool = True
    exists: bool = True
    order: tuple[RestartStage, ...] = ()
    after: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def role_change(self) -> str:
        """What happens to the role itself, such as `replicas 2 -> 3`; empty where nothing does."""
        if not self.existed or not self.exists:
            return "role added" if self.exists else "role removed"
        if self.replicas_before != self.replicas_after:
            return f"replicas {self.replicas_before} -> {self.replicas_after}"
        return "replicas renamed" if self.added else ""

    @property
    def reason(self) -> str:
        """Why anything happens to replicas; empty where nothing does."""
        return ", ".join(filter(None, (self.restart_reason, self.role_change)))


@dataclass(frozen=True)
class ServiceTotals:
    """Pods and accelerators of all LeaderWorkerSets of a service."""

    service: str
    namespace: str
    pods_before: int
    pods_after: int
    accelerators_before: int
    accelerators_after: int


@dataclass(frozen=True)
class EngineChange:
    """What another release of the engine does to the arguments of a role.

    Attributes:
        service: Service; the workload's own name where it carries none of our labels.
        namespace: Namespace.
        role: Role, likewise.
        changes: The releases, and what differs between them.
    """

    service: str
    namespace: str
    role: str
    changes: ArgumentChanges


@dataclass(frozen=True)
class Difference:
    """What differs between two lists of manifests; false where nothing does.

    Attributes:
        objects: Objects that differ, in the order of the new list, then the removed ones.
        effects: What happens to the replicas of every service that has a changed object.
        notes: Sentences that say what the change does.
        totals: Pods and accelerators of every service that has a changed object.
        engines: Arguments that another release of an engine removes or gives another default.
        unknown: Workloads on both sides whose pod template is known before the update on neither,
            or on one: whether their pods restart is not known.
    """

    objects: tuple[ObjectChange, ...] = ()
    effects: tuple[RoleEffect, ...] = ()
    notes: tuple[str, ...] = ()
    totals: tuple[ServiceTotals, ...] = ()
    engines: tuple[EngineChange, ...] = ()
    unknown: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.objects or self.notes)
