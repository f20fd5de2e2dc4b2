"""Reads the stack's state before an update: LeaderWorkerSets, routes, outputs of components."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.component.kubernetes_objects import TOKEN
from fusioninfer_pulumi.component.pulumi_sdk import (
    SIGNATURE,
    collected_services,
    get_protobuf_value,
    get_python_value,
    get_running_stack,
    read_stack_resources,
)
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.mixed_revisions import extract_engines
from fusioninfer_pulumi.rollout.stack_lws import StackLws, StackSpec, derive_layout
from fusioninfer_pulumi.rollout.state_machine import ObjectVersion
from fusioninfer_pulumi.routing.http_route import compute_pool_shares
from fusioninfer_pulumi.topology.gang import get_gang_reference

#: Name of the component's output that holds an `Observed`.
OBSERVED = "observed"
#: Environment variable and option that make the provider adopt existing objects.
_UPSERT_VARIABLE = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
_UPSERT_OPTION = "upsertExistingObjects"


@dataclass(frozen=True)
class Observed:
    """Live state of a service at the end of its last successful update.

    Attributes:
        objects: `metadata` and `status` of live objects, by name.
        last_available: The last available revision of each LeaderWorkerSet, and the minimum number
            of pods with which each PodGroup was last scheduled, by name. None if the component is
            new, or if the last update was run by an older version of this library, which recorded
            nothing but waited until all were available.
    """

    objects: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    last_available: Mapping[str, str] | None = field(default_factory=dict)

    def build_output(self) -> dict[str, Any]:
        """Return the value of the output `OBSERVED`; `_parse_observed_output` is the inverse."""
        # `served` is the older name of `last_available`, which states of existing stacks contain.
        return {"objects": self.objects, "served": self.last_available}


@dataclass(frozen=True)
class StackState:
    """What the stack's state contains about all services.

    Attributes:
        is_known: Whether the state could be read; False under mocks and on the command line.
        lws: The LeaderWorkerSets of all components.
        components: Outputs of the components by logical name.
        shares: Percentage of each pool in each HTTPRoute, by the route's logical name.
        created: Logical names of the components that the program has created so far.
    """

    is_known: bool = False
    lws: tuple[StackLws, ...] = ()
    components: Mapping[str, Observed] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    created: set[str] = field(default_factory=set)


# Keyed by the stack, so that entries are dropped with it.
_states: WeakKeyDictionary[Any, StackState] = WeakKeyDictionary()


def _read_stack_state() -> StackState:
    resources = read_stack_resources()
    if resources is None:
        return StackState()
    lws, components, shares = [], {}, {}
    for urn, resource in resources.items():
        _stack, _project, types, logical = urn.split("::", 3)
        match types.rpartition("$")[2]:
            case "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet":
                lws.append(_build_stack_lws(logical, resource))
            case "kubernetes:gateway.networking.k8s.io/v1:HTTPRoute":
                rules = get_python_value(resource, "outputs", "spec", "rules")
                shares[logical] = compute_pool_shares(rules or ())
            case token if token == TOKEN:
                components[logical] = _parse_observed_output(resource)
    return StackState(is_known=True, lws=tuple(lws), components=components, shares=shares)


def get_stack_state() -> StackState:
    """Return the stack's state before the update, which is read once per program."""
    stack = get_running_stack()
    if stack is None or collected_services.get() is not None:
        return StackState()
    if stack not in _states:
        _states[stack] = _read_stack_state()
    return _states[stack]


def read_observed(name: str) -> Observed:
    """Return the `Observed` of a component's last update, by the component's logical name.

    If the state has no component of that name, because it is new or renamed, the result has no
    objects, and its `last_available` is None.
    """
    return get_stack_state().components.get(name, Observed(last_available=None))


def find_stack_lws(name: str, plan: ServicePlan) -> dict[str, StackLws] | None:
    """Return a service's LeaderWorkerSets in the stack's state, by their planned Kubernetes names.

    They are found by logical name. If the component was renamed (alias), or the LeaderWorkerSet
    moved into it, they are found by Kubernetes name, unless they belong to another component, such
    as a service of the same name in another cluster. Return None if the state cannot be read.

    Also add the component to `StackState.created`.
    """
    state = get_stack_state()
    if not state.is_known:
        return None
    state.created.add(name)
    by_logical_name: dict[str, list[StackLws]] = {}
    by_name: dict[str, list[StackLws]] = {}
    for state_lws in state.lws:
        component = state_lws.component
        # The other component still exists: the program created it, or the state has both.
        has_other_component = component not in ("", name) and (
            component in state.created or {component, name} <= state.components.keys()
        )
        by_logical_name.setdefault(state_lws.logical_name, []).append(state_lws)
        if state_lws.service in ("", plan.service) and not has_other_component:
            by_name.setdefault(state_lws.name, []).append(state_lws)
    existing = {}
    for lws_name in (lws_plan.name for role in plan.roles for lws_plan in role.lws):
        same_logical_name = by_logical_name.get(name + lws_name.removeprefix(plan.service), [])
        # Resources with different parents may have the same logical name.
        same_names = [lws for lws in same_logical_name if lws.has_name(lws_name, plan.namespace)]
        moved = [lws for lws in by_name.get(lws_name, []) if lws.has_name(lws_name, plan.namespace)]
        lws = next(iter([*same_names, *same_logical_name, *moved]), None)
        if lws is not None:
            existing[lws_name] = lws
    return existing


def is_adopting_objects() -> bool:
    """Return whether this update adopts existing objects that are not in the state."""
    options = (os.environ.get(_UPSERT_VARIABLE), pulumi.Config("kubernetes").get(_UPSERT_OPTION))
    return any((option or "").lower() not in ("", "0", "false") for option in options)


def _build_stack_lws(logical: str, resource: Any) -> StackLws:
    metadata = get_python_value(resource, "outputs", "metadata") or {}
    lws_labels = metadata.get("labels") or {}
    engine = None
    # Only previews need the engine. An object with secrets (SIGNATURE) is not converted.
    if pulumi.runtime.is_dry_run() and SIGNATURE not in str(
        get_protobuf_value(resource, "outputs")
    ):
        spec = get_python_value(resource, "outputs", "spec")
        engine = next(iter(extract_engines([{"metadata": metadata, "spec": spec}])), None)
    return StackLws(
        logical_name=logical,
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or ""),
        service=str(lws_labels.get(labels.SERVICE) or ""),
        layout=derive_layout(lws_labels),
        revision=str(lws_labels.get(labels.REVISION) or ""),
        spec=_build_stack_spec(resource),
        version=get_object_version(metadata),
        role=str(lws_labels.get(labels.ROLE_NAME) or ""),
        pair_revision=str(lws_labels.get(labels.PAIR_REVISION) or ""),
        engine=engine,
    )


def _parse_observed_output(component: Any) -> Observed:
    observed = get_python_value(component, "outputs", OBSERVED)
    if isinstance(observed, Mapping):
        return Observed(observed.get("objects") or {}, observed.get("served") or {})
    # A successful update registers outputs at its end, in older versions without `observed`.
    has_finished = get_protobuf_value(component, "outputs", "name") is not None
    return Observed(last_available=None if has_finished else {})


def _build_stack_spec(resource: Any) -> StackSpec | None:
    template = ("outputs", "spec", "leaderWorkerTemplate")
    # Pod templates are large, so only a few fields are converted to Python.
    if get_protobuf_value(resource, *template, "workerTemplate") is None:
        return None
    annotations = get_python_value(resource, *template, "workerTemplate", "metadata", "annotations")
    pod_group = get_python_value(
        resource, *template, "workerTemplate", "spec", "schedulingGroup", "podGroupName"
    )
    return StackSpec(
        sub_group_policy=get_python_value(resource, *template, "subGroupPolicy") or {},
        gang=get_gang_reference(annotations, pod_group),
        nodes=_parse_count(get_python_value(resource, *template, "size")),
        replicas=_parse_count(get_python_value(resource, "outputs", "spec", "replicas")),
    )


def get_object_version(metadata: Mapping[str, Any]) -> ObjectVersion:
    """Return the UID and generation in an object's metadata."""
    return str(metadata.get("uid") or ""), int(metadata.get("generation") or 0)


def _parse_count(number: Any) -> int:
    """Return a count in the state, or 1, the default of `size` and `replicas`, if it is missing."""
    return int(number) if isinstance(number, (int, float)) else 1
