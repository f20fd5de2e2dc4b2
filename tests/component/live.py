"""Live objects for tests of the status."""

from __future__ import annotations

from typing import Any

Objects = dict[str, Any]


def group(
    available: str | None = "True",
    ready: float | None = 1,
    *,
    generation: float | None = 2,
    observed: float | None = 2,
    own: int | None = None,
) -> Objects:
    """Return a live LeaderWorkerSet.

    `observed` and `own` are the observed generations in its condition and in its status.
    """
    status: Objects = {"readyReplicas": ready}
    if available is not None:
        condition: Objects = {"type": "Available", "status": available}
        if observed is not None:
            condition["observedGeneration"] = observed
        status["conditions"] = [{"type": "Progressing", "status": "True"}, condition]
    if own is not None:
        status["observedGeneration"] = own
    return {"metadata": {"generation": generation}, "status": status}


READY = group()
ROLLING = group("False", 0)
NEW: Objects = {"metadata": {"generation": 1}, "status": None}
