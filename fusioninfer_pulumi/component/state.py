"""What the stack's state says of a service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import rpc, settings
from pulumi.runtime.proto import resource_pb2

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.component.resources import TOKEN
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.layout_switch import layout_of
from fusioninfer_pulumi.service_plan import ServicePlan

_READ = "pulumi:pulumi:readStackResourceOutputs"
_KIND = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
#: Marks values that are secret, among others, in what the engine tells.
_SPECIAL = "4dabf18193072939515e22adb298388d"


@dataclass(frozen=True)
class RecordedTemplate:
    """What runs in a LeaderWorkerSet of the stack's state.

    Attributes:
        sub_groups: Its `subGroupPolicy`, empty where it has none.
        gang: PodGroup that its pods name, empty for none.
        nodes: Pods in one replica.
        replicas: Its replicas.
    """

    sub_groups: Mapping[str, Any]
    gang: str
    nodes: int
    replicas: int


@dataclass(frozen=True)
class RecordedSet:
    """One LeaderWorkerSet in the stack's state.

    Attributes:
        logical: Its logical name.
        name: Its Kubernetes name, empty where the engine does not know it yet.
        namespace: Its namespace, empty likewise.
        service: The service whose label it has, empty without one.
        layout: The layout that its labels tell, None where they tell none: it is not ours.
        revision: Its revision label.
        template: What runs in it, None where that is not known.
    """

    logical: str
    name: str
    namespace: str
    service: str
    layout: Layout | None
    revision: str
    template: RecordedTemplate | None

    @property
    def component(self) -> str:
        """Logical name of the component that made it; empty where it has no name of ours."""
        suffix = self.name[len(self.service) :]
        ours = self.service and suffix and self.name.startswith(f"{self.service}-")
        return self.logical[: -len(suffix)] if ours and self.logical.endswith(suffix) else ""

    def is_at(self, name: str, namespace: Any) -> bool:
        """Whether it has a Kubernetes name and a namespace, as far as both are known."""
        elsewhere = isinstance(namespace, str) and self.namespace not in ("", namespace)
        return self.name == name and not elsewhere


@dataclass(frozen=True)
class State:
    """What the state holds of ours.

    Attributes:
        sets: The LeaderWorkerSets of all services, in any order.
        components: Logical names of the components.
    """

    sets: tuple[RecordedSet, ...]
    components: frozenset[str]


def read_state() -> State | None:
    """Asks the engine for the stack as the last update left it.

    Returns:
        What it holds; None where the engine does not answer.
    """
    resources = _resources()
    if resources is None:
        return None
    kinds = {urn: _kind_and_name(urn) for urn in resources}
    sets = tuple(
        _set(logical, resources[urn]) for urn, (kind, logical) in kinds.items() if kind == _KIND
    )
    return State(sets, frozenset(logical for kind, logical in kinds.values() if kind == TOKEN))


def _resources() -> Mapping[str, Any] | None:
    """What the stack's resources were when the last update ended, by URN, as the engine tells it.

    The engine is asked without the SDK's `invoke`, which would let the whole program fail where
    there is no answer, and read the whole state into Python.
    """
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    request = resource_pb2.ResourceInvokeRequest(tok=_READ)
    request.args["stackName"] = stack
    try:
        monitor: Any = settings.get_monitor()
        answer = getattr(monitor.Invoke(request), "return").fields
    except Exception as problem:  # noqa: BLE001  # whatever it is: nothing is known
        pulumi.log.debug(f"the stack's state was not read: {problem}")
        return None
    found: Mapping[str, Any] | None
    found = answer["outputs"].struct_value.fields if "outputs" in answer else None
    return found


def _set(logical: str, resource: Any) -> RecordedSet:
    metadata = _read(resource, "outputs", "metadata") or {}
    own = metadata.get("labels") or {}
    return RecordedSet(
        logical,
        str(metadata.get("name") or ""),
        str(metadata.get("namespace") or ""),
        str(own.get(labels.SERVICE) or ""),
        layout_of(own),
        str(own.get(labels.REVISION) or ""),
        _template(resource),
    )


def _template(resource: Any) -> RecordedTemplate | None:
    template = ("outputs", "spec", "leaderWorkerTemplate")
    # Pod templates are large: nothing but what is asked for is read into Python.
    if _part(resource, *template, "workerTemplate") is None:
        return None
    annotations = _read(resource, *template, "workerTemplate", "metadata", "annotations")
    return RecordedTemplate(
        _read(resource, *template, "subGroupPolicy") or {},
        str((annotations or {}).get(labels.GROUP_NAME) or ""),
        _count(_read(resource, *template, "size")),
        _count(_read(resource, "outputs", "spec", "replicas")),
    )


def _count(found: Any) -> int:
    """A number of the state, 1 where there is none: the default of both fields that are read."""
    return int(found) if isinstance(found, (int, float)) else 1


def _kind_and_name(urn: str) -> tuple[str, str]:
    kinds, _, logical = urn.partition("::")[2].partition("::")[2].partition("::")
    return kinds.rpartition("$")[2], logical


def _read(value: Any, *path: str) -> Any:
    """A part of what the engine told, secret or not; None where there is none."""
    found = _part(value, *path)
    if found is None:
        return None
    kind = found.WhichOneof("kind")
    told = getattr(found, kind)
    return rpc.unwrap_rpc_secret(rpc.deserialize_property(told)) if "struct" in kind else told


def _part(value: Any, *path: str) -> Any:
    for key in path:
        fields = _plain(value).struct_value.fields
        if key not in fields:
            return None
        value = fields[key]
    return _plain(value)


def _plain(value: Any) -> Any:
    fields = value.struct_value.fields
    return fields["value"] if _SPECIAL in fields and "value" in fields else value


#: Has the provider take over objects that the state does not hold.
_UPSERT = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
_UPSERT_OPTION = "upsertExistingObjects"


@dataclass(frozen=True)
class _Stack:
    """A stack while a program builds it.

    Attributes:
        state: What it was before.
        made: Logical names of the components of this program, as far as it has come.
    """

    state: State
    made: set[str] = field(default_factory=set)


# By the stack that a program builds, so that nothing outlives it.
_known: WeakKeyDictionary[pulumi.Resource, _Stack | None] = WeakKeyDictionary()


def recorded_sets() -> tuple[RecordedSet, ...] | None:
    """Reads which sets the stack had when its last update ended.

    Returns:
        Those of all services, in any order; None where nobody can tell: under mocks, on the
        command line, and where the engine does not answer.
    """
    found = _stack()
    return None if found is None else found.state.sets


def existing_sets(name: str, plan: ServicePlan) -> frozenset[str] | None:
    """Tells which sets of a service there are already.

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        Their Kubernetes names; None where nobody can tell, or where this update takes over objects
        that the state does not hold.
    """
    if _takes_over():
        return None
    found = recorded_of(name, plan)
    return None if found is None else frozenset(found)


def recorded_of(name: str, plan: ServicePlan) -> dict[str, RecordedSet] | None:
    """What the state holds of the sets of a service.

    A set is known by its logical name. By its Kubernetes name it is known where the component was
    renamed (an alias), or the set moved into it: not where it belongs to a component that is there
    beside this one, of a service of the same name in another cluster.

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        The sets that there are, by the Kubernetes name that they get; None where nobody can tell.
    """
    stack = _stack()
    if stack is None:
        return None
    stack.made.add(name)
    logical: dict[str, list[RecordedSet]] = {}
    known: dict[str, list[RecordedSet]] = {}
    for each in stack.state.sets:
        logical.setdefault(each.logical, []).append(each)
        if each.service in ("", plan.service) and not _of_another(each, name, stack):
            known.setdefault(each.name, []).append(each)
    found = {}
    for planned in (each.name for role in plan.roles for each in role.sets):
        own = logical.get(name + planned[len(plan.service) :], [])
        # The same logical name may stand below several parents.
        same = (each for each in own if each.is_at(planned, plan.namespace))
        moved = (each for each in known.get(planned, []) if each.is_at(planned, plan.namespace))
        one = next(chain(same, own, moved), None)
        if one is not None:
            found[planned] = one
    return found


def _of_another(recorded: RecordedSet, name: str, stack: _Stack) -> bool:
    """Whether a set belongs to another component that this program has, as far as it is known."""
    component = recorded.component
    if component in ("", name):
        return False
    return component in stack.made or {component, name} <= stack.state.components


def _stack() -> _Stack | None:
    stack = pulumi.runtime.get_root_resource()
    if stack is None or collect_plans.get() is not None:
        return None
    if stack not in _known:
        state = read_state()
        _known[stack] = None if state is None else _Stack(state)
    return _known[stack]


def _takes_over() -> bool:
    options = (os.environ.get(_UPSERT), pulumi.Config("kubernetes").get(_UPSERT_OPTION))
    return any((option or "").lower() not in ("", "0", "false") for option in options)
