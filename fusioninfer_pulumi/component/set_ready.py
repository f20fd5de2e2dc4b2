"""When a LeaderWorkerSet serves: the one place that says so, of live objects; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def observed(live: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The status of a set; nothing while it speaks of an older spec.

    Such a set is about to restart its replicas, whatever its conditions say still.
    """
    status: Mapping[str, Any] = (live or {}).get("status") or {}
    generation = ((live or {}).get("metadata") or {}).get("generation")
    # LeaderWorkerSet writes both since 0.9.
    seen = _available(status).get("observedGeneration", status.get("observedGeneration"))
    if generation is not None and seen is not None and int(seen) < int(generation):
        return {}
    return status


def says_available(live: Mapping[str, Any] | None) -> bool:
    """Whether its condition Available holds, for the spec that it has."""
    return _available(observed(live)).get("status") == "True"


def is_ready(live: Mapping[str, Any] | None) -> bool:
    """Whether all of a set serves, in the revision asked for.

    Args:
        live: The set; without its `spec` it counts as one of a single replica.

    Returns:
        Whether it is Available and has as many ready replicas as it asks for.
    """
    replicas = ((live or {}).get("spec") or {}).get("replicas")
    ready = int(observed(live).get("readyReplicas") or 0)
    return says_available(live) and ready >= (1 if replicas is None else int(replicas))


def _available(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    return conditions.get("Available") or {}
