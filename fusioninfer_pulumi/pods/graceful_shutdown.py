"""How a serving pod ends: it leaves the pool first, and only then stops.

A pod that is deleted gets SIGTERM at once, while whoever sends it requests learns of its end a
moment later. A preStop hook that sleeps keeps it serving meanwhile; the workers of a replica sleep
as long as their leader, because it cannot answer without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Time for requests that are under way, and for endpoints and pickers to take the pod out.
PAUSE_SECONDS = 20
#: The same and a minute for the engine to end.
GRACE_SECONDS = 80
_GRACE = "terminationGracePeriodSeconds"


def graceful(spec: Mapping[str, Any], given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Lets a pod end gracefully, unless its author has said how it ends.

    Args:
        spec: The pod's spec.
        given: The serving container as its author wrote it.
        name: Name of the serving container.

    Returns:
        The spec with the pause and the time for it; as it was where it has a `lifecycle`, or less
        time than the pause takes.
    """
    allowed = spec.get(_GRACE)
    # Anything but a number is an Output, or for the API server to judge.
    enough = allowed is None or (isinstance(allowed, int) and allowed > PAUSE_SECONDS)
    if "lifecycle" in given or not enough:
        return dict(spec)
    pause = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {PAUSE_SECONDS}"]}}}
    containers = [
        {**each, "lifecycle": pause} if each["name"] == name else each
        for each in spec["containers"]
    ]
    return {**spec, "containers": containers, _GRACE: allowed or GRACE_SECONDS}
