"""Refuses to change the layout of a service that runs.

The engine makes what is new before it deletes what is gone: the sets of the new layout would need
room beside all of the old ones, and then every old replica would end at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import labels

#: Sets that a message names; the others are counted.
_NAMED = 3


def layout_of(own: Mapping[str, Any]) -> Layout | None:
    """The layout that the labels of a LeaderWorkerSet tell, None where it is not ours."""
    if labels.ROLE_NAME not in own:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in own else Layout.PER_ROLE


def layout_findings(layout: Layout, others: Collection[str]) -> list[Finding]:
    """Finds that sets of the other layout run.

    Args:
        layout: The layout that is to be.
        others: Names of the service's sets of the other one.
    """
    if not others:
        return []
    # The engine tells them in any order.
    names = sorted(others)
    listed = ", ".join(names[:_NAMED])
    if len(names) > _NAMED:
        listed += f" and {len(names) - _NAMED} more"
    other = Layout.PER_REPLICA if layout is Layout.PER_ROLE else Layout.PER_ROLE
    return [
        error(
            "layout-change-while-running",
            ("layout",),
            f"{layout.value} cannot take the place of {other.value} while the service runs "
            f"({listed}): it would need room for all replicas twice, and then every old one would "
            "end at once; make a second service of another name with this layout, move the "
            "clients over and remove this one (docs/rollout.md), or set replicas: 0 for all roles "
            "first, which ends the service for that time",
        )
    ]
