"""Refuses to change the layout of a service that runs.

The engine makes what is new before it deletes what is gone: the sets of the new layout would need
room beside all of the old ones, and then every old replica would end at once. Which sets there are
is known to the stack's own state alone, so that is what is asked; the cluster need not be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime import rpc, settings
from pulumi.runtime.proto import resource_pb2

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.rollout import Layout

_READ = "pulumi:pulumi:readStackResourceOutputs"
_SETS = "$kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
#: Sets that a message names; the others are counted.
_NAMED = 3


@dataclass(frozen=True)
class _Set:
    """One LeaderWorkerSet of a component in the stack's state."""

    logical: str
    name: str
    service: str
    layout: Layout


# By the stack that a program builds, so that nothing outlives it.
_recorded: WeakKeyDictionary[pulumi.Resource, list[_Set]] = WeakKeyDictionary()


def switch_findings(name: str, plan: ServicePlan) -> list[Finding]:
    """Compares a service's layout with that of its sets in the stack's state.

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        One finding where sets of the other layout exist; none where the state cannot be read, as
        in tests with mocks.
    """
    stack = pulumi.runtime.get_root_resource()
    if stack is None or collect_plans.get() is not None:
        return []
    if stack not in _recorded:
        _recorded[stack] = list(_sets(_state()))
    # The engine tells them in any order.
    others = sorted(
        each.name
        for each in _recorded[stack]
        if each.service == plan.service
        and each.logical.startswith(f"{name}-")
        and each.layout is not plan.layout
    )
    if not others:
        return []
    listed = ", ".join(others[:_NAMED])
    if len(others) > _NAMED:
        listed += f" and {len(others) - _NAMED} more"
    return [
        error(
            "layout",
            f"{plan.layout.value} cannot take the place of {_other(plan.layout).value} "
            f"while the service runs ({listed}): it would need room for all replicas twice, and "
            "then every old one would end at once; make a second service of another name with "
            "this layout, move the clients over and remove this one (docs/rollout.md), or set "
            "replicas: 0 for all roles first, which ends the service for that time",
        )
    ]


def _other(layout: Layout) -> Layout:
    return Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE


def _state() -> Mapping[str, Any]:
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
    except Exception as problem:  # noqa: BLE001  # whatever it is: the check is left out
        pulumi.log.debug(f"the layout of running services is not checked: {problem}")
        return {}
    found: Mapping[str, Any] = answer["outputs"].struct_value.fields if "outputs" in answer else {}
    return found


def _sets(state: Mapping[str, Any]) -> Iterator[_Set]:
    for urn, resource in state.items():
        kind, _, logical = urn.partition("::")[2].partition("::")[2].partition("::")
        outputs = resource.struct_value.fields.get("outputs") if kind.endswith(_SETS) else None
        if outputs is None or "metadata" not in outputs.struct_value.fields:
            continue
        read = rpc.deserialize_property(outputs.struct_value.fields["metadata"].struct_value)
        metadata = rpc.unwrap_rpc_secret(read) or {}
        own = metadata.get("labels") or {}
        if labels.ROLE_NAME in own:
            per_replica = labels.REPLICA_INDEX in own
            yield _Set(
                logical,
                str(metadata.get("name")),
                str(own.get(labels.SERVICE)),
                Layout.PER_REPLICA if per_replica else Layout.PER_ROLE,
            )
