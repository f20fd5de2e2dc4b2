"""What was read of a cluster to explain a failure: plain objects, as the API server has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """Objects around one service.

    Attributes:
        pods: The pods of its replicas.
        events: Warnings of its namespace, and what LeaderWorkerSet says of groups that it deletes.
        pod_groups: Its PodGroups.
        nodes: All nodes, None where they were not read.
        bound: Pods of any namespace that hold a node, None where they were not read.
        unread: What could not be read, and why.
    """

    pods: Sequence[Object] = ()
    events: Sequence[Object] = ()
    pod_groups: Sequence[Object] = ()
    nodes: Sequence[Object] | None = None
    bound: Sequence[Object] | None = None
    unread: Sequence[str] = ()


def name_of(each: Object) -> str:
    """Name of an object."""
    return str(each["metadata"]["name"])


def label_of(each: Object, key: str) -> str | None:
    """A label of an object, None where it has none of that key."""
    value = (each["metadata"].get("labels") or {}).get(key)
    return None if value is None else str(value)
