"""What pods say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from e2e.harness.resources import Object

if TYPE_CHECKING:
    from e2e.harness.api import Client

#: Selects the pods that lead a replica, as LeaderWorkerSet labels them.
LEADERS = "leaderworkerset.sigs.k8s.io/worker-index=0"


def is_ready(pod: Object) -> bool:
    """Tell whether a pod is ready, and not about to end."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    up = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
    return up and "deletionTimestamp" not in pod["metadata"]


def leaders(cluster: Client, namespace: str) -> list[Object]:
    """The pods of a namespace that lead a replica."""
    return cluster.pods(namespace, LEADERS)
