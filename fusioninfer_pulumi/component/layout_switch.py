"""Refuses to change the layout of a service that runs.

The engine makes what is new before it deletes what is gone: the sets of the new layout would need
room beside all of the old ones, and then every old replica would end at once. Which sets there are
is known to the stack's own state alone, so that is what is asked; the cluster need not be reached.
"""

from __future__ import annotations

from fusioninfer_pulumi.component.recorded import recorded_sets
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.rollout import Layout

#: Sets that a message names; the others are counted.
_NAMED = 3


def switch_findings(name: str, plan: ServicePlan) -> list[Finding]:
    """Compares a service's layout with that of its sets in the stack's state.

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        One finding where sets of the other layout exist; none where the state cannot be read, as
        in tests with mocks.
    """
    # The engine tells them in any order.
    others = sorted(
        each.name
        for each in recorded_sets() or ()
        if each.service == plan.service
        and each.component == name
        and each.is_at(each.name, plan.namespace)
        and each.layout not in (None, plan.layout)
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
