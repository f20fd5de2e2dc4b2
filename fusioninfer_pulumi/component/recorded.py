"""What the stack's state holds of LeaderWorkerSets, as the last update left them.

The one place that asks: once in a program, before it registers anything of ours. Which sets are
there already is known to the state alone, and the cluster need not be reached for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import rpc, settings
from pulumi.runtime.proto import resource_pb2

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.rollout import Layout

_READ = "pulumi:pulumi:readStackResourceOutputs"
_KIND = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
#: Marks values that are secret, among others, in what the engine tells.
_SPECIAL = "4dabf18193072939515e22adb298388d"
#: Has the provider take over objects that the state does not hold.
_UPSERT = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
_UPSERT_OPTION = "upsertExistingObjects"


@dataclass(frozen=True)
class RecordedSet:
    """One LeaderWorkerSet in the stack's state.

    Attributes:
        logical: Its logical name.
        name: Its Kubernetes name, empty where the engine does not know it yet.
        service: The service whose label it has.
        layout: The layout that its labels tell, None where they tell none: it is not ours.
        revision: Its revision label.
        sub_groups: Its `subGroupPolicy`: empty where it has none, None where its template is not
            known.
    """

    logical: str
    name: str
    service: str
    layout: Layout | None
    revision: str
    sub_groups: Mapping[str, Any] | None


# By the stack that a program builds, so that nothing outlives it.
_known: WeakKeyDictionary[pulumi.Resource, tuple[RecordedSet, ...] | None] = WeakKeyDictionary()


def recorded_sets() -> tuple[RecordedSet, ...] | None:
    """Reads which sets the stack had when its last update ended.

    Returns:
        Those of all services, in any order; None where nobody can tell: under mocks, on the
        command line, and where the engine does not answer.
    """
    stack = pulumi.runtime.get_root_resource()
    if stack is None or collect_plans.get() is not None:
        return None
    if stack not in _known:
        state = _state()
        _known[stack] = None if state is None else tuple(_sets(state))
    return _known[stack]


def existing_sets(name: str, plan: ServicePlan) -> frozenset[str] | None:
    """Tells which sets of a service there are already.

    A set counts as soon as its Kubernetes name or its logical one is in the state, in whatever
    component: what was renamed with an alias, or moved, may change as any other.

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

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        The sets that there are, by the Kubernetes name that they get; None where nobody can tell.
    """
    recorded = recorded_sets()
    if recorded is None:
        return None
    logical = {each.logical: each for each in recorded}
    known = {each.name: each for each in recorded}
    found = {}
    for planned in (each.name for role in plan.roles for each in role.sets):
        one = logical.get(name + planned[len(plan.service) :]) or known.get(planned)
        if one is not None:
            found[planned] = one
    return found


def _takes_over() -> bool:
    options = (os.environ.get(_UPSERT), pulumi.Config("kubernetes").get(_UPSERT_OPTION))
    return any((option or "").lower() not in ("", "0", "false") for option in options)


def _state() -> Mapping[str, Any] | None:
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


def _sets(state: Mapping[str, Any]) -> Iterator[RecordedSet]:
    for urn, resource in state.items():
        kind, _, logical = urn.partition("::")[2].partition("::")[2].partition("::")
        if kind.rpartition("$")[2] != _KIND:
            continue
        metadata = _read(resource, "outputs", "metadata") or {}
        own = metadata.get("labels") or {}
        layout = None
        if labels.ROLE_NAME in own:
            per_replica = labels.REPLICA_INDEX in own
            layout = Layout.PER_REPLICA if per_replica else Layout.PER_ROLE
        name, service = metadata.get("name"), own.get(labels.SERVICE)
        template = ("outputs", "spec", "leaderWorkerTemplate")
        sub_groups = None
        if _read(resource, *template, "workerTemplate") is not None:
            sub_groups = _read(resource, *template, "subGroupPolicy") or {}
        revision = own.get(labels.REVISION)
        yield RecordedSet(
            logical, str(name or ""), str(service), layout, str(revision or ""), sub_groups
        )


def _read(value: Any, *path: str) -> Any:
    """A part of what the engine told, secret or not; None where there is none."""
    for key in path:
        fields = _plain(value).struct_value.fields
        if key not in fields:
            return None
        value = fields[key]
    value = _plain(value)
    kind = value.WhichOneof("kind")
    found = getattr(value, kind)
    return rpc.unwrap_rpc_secret(rpc.deserialize_property(found)) if "struct" in kind else found


def _plain(value: Any) -> Any:
    fields = value.struct_value.fields
    return fields["value"] if _SPECIAL in fields and "value" in fields else value
