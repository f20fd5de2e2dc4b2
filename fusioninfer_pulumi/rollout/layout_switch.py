"""Rejects a change of the layout of a running service.

Pulumi creates new objects before it deletes old ones. The LeaderWorkerSets of the new layout would
need accelerators beside all old ones; then all old replicas would end at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import labels

#: LeaderWorkerSets that a message names; the others are counted.
_NAMED = 3


def layout_of(own: Mapping[str, Any]) -> Layout | None:
    """Returns the layout of a LeaderWorkerSet by its labels, None if it is not of this library."""
    if labels.ROLE_NAME not in own:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in own else Layout.PER_ROLE


def layout_findings(layout: Layout, others: Collection[str]) -> list[Finding]:
    """Returns an error if LeaderWorkerSets of the other layout run.

    Args:
        layout: The new layout.
        others: Names of the service's LeaderWorkerSets of the other layout.
    """
    if not others:
        return []
    # Pulumi reports them in any order.
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
            f"({listed}): that would need room for all replicas twice, and then end all old "
            "ones at once; create a second service with this layout, move the clients and remove "
            "this one (docs/rollout.md), or set replicas: 0 for all roles first, which interrupts "
            "the service",
        )
    ]
