"""Which LeaderWorkerSets of the stack's state are those of a service.

The one place that asks: once in a program, before it registers anything of ours.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import chain
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.component.state import RecordedSet, State, read_state
from fusioninfer_pulumi.plan.records import ServicePlan

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
