"""Conditions and labels of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.harness.resources import Object

if TYPE_CHECKING:
    from e2e.harness.api import Client

#: Label selector of leader pods.
LEADERS = "leaderworkerset.sigs.k8s.io/worker-index=0"


def is_condition_true(manifest: Object, condition: str) -> bool:
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(item["type"] == condition and item["status"] == "True" for item in conditions)


def is_ready(pod: Object) -> bool:
    """Return whether a pod is ready and not terminating."""
    return is_condition_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def leaders(cluster: Client, namespace: str) -> list[Object]:
    return cluster.pods(namespace, LEADERS)
