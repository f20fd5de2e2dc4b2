"""Which nodes of a cluster take new pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.spec.inventory import TaintEffect


def takes_pods(node: Mapping[str, Any]) -> bool:
    """Whether a node is ready, not cordoned and not kept free because of its condition.

    Taints that people set are not looked at: pods may tolerate them.

    Args:
        node: The Node object as JSON.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in status.get("conditions") or ()
    )
    passing = any(
        str(taint.get("key")).startswith(labels.NODE_CONDITION_TAINTS)
        and taint.get("effect") != TaintEffect.PREFER_NO_SCHEDULE.value
        for taint in spec.get("taints") or ()
    )
    return ready and not passing and not spec.get("unschedulable")
