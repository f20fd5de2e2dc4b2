"""Changes of a running service that are rejected because they would interrupt it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.kube import labels


def layout_of(own: Mapping[str, Any]) -> Layout | None:
    """Returns the layout of a LeaderWorkerSet by its labels, None if it is not of this library."""
    if labels.ROLE_NAME not in own:
        return None
    return Layout.PER_REPLICA if labels.REPLICA_INDEX in own else Layout.PER_ROLE
