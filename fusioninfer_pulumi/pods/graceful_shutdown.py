"""How a serving pod ends: it leaves the pool first, and only then stops.

A pod that is deleted gets SIGTERM at once, while whoever sends it requests learns of its end a
moment later. A preStop hook that sleeps keeps it serving meanwhile; the workers of a replica sleep
as long as their leader, because it cannot answer without them.
"""

from __future__ import annotations

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods

#: Time for requests that are under way, and for endpoints and pickers to take the pod out.
PAUSE_SECONDS = 20
#: The same and a minute for the engine to end.
GRACE_SECONDS = 80
_GRACE = "terminationGracePeriodSeconds"


def graceful_shutdown(pods: Pods, _: Context) -> tuple[Pods, list[Finding]]:
    """Lets pods of a known engine end gracefully, unless their author has said how they end."""
    if pods.engine_command.engine is None:
        return pods, []
    for pod in pods.each():
        pods = pods.put(_graceful(pod))
    return pods, []


def _graceful(pod: Pod) -> Pod:
    allowed = pod.spec.get(_GRACE)
    # Anything but a number is an Output, or for the API server to judge.
    enough = allowed is None or (isinstance(allowed, int) and allowed > PAUSE_SECONDS)
    if "lifecycle" in pod.own or not enough:
        return pod
    pause = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {PAUSE_SECONDS}"]}}}
    pausing = pod.with_container(lambda each: {**each, "lifecycle": pause})
    return pausing.with_spec(**{_GRACE: allowed or GRACE_SECONDS})
