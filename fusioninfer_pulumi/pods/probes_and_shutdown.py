"""How a serving pod starts, shows that it serves, and ends: probes and graceful shutdown."""

from __future__ import annotations

import math
from typing import Any

from fusioninfer_pulumi.api.availability import StartupArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

#: Time for all but reading the weights: start of the image, compilation, CUDA graphs, warm-up.
BASE_SECONDS = 300
PERIOD_SECONDS = 10


def compute_startup_seconds(args: StartupArgs) -> int:
    """Return seconds that an engine may take to start, rounded up."""
    if args.timeout is not None:
        return math.ceil(durations.seconds(args.timeout) or 0)
    size, rate = quantity.parse(args.model_size or 0), quantity.parse(args.read_rate)
    return BASE_SECONDS + math.ceil(size / rate)


def add_model_size(args: InferenceServiceArgs) -> InferenceServiceArgs:
    """Return the service with its model's size in each `startup` without a timeout or size."""
    size = args.model.size if args.model is not None else None
    if size is None:
        return args

    def sized(role: RoleArgs) -> RoleArgs:
        startup = role.startup
        if startup is None or startup.timeout is not None or startup.model_size is not None:
            return role
        return role.model_copy(update={"startup": startup.model_copy(update={"model_size": size})})

    return args.model_copy(update={"roles": [sized(role) for role in args.roles]})


def health(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add a readiness probe and, with `startup`, a startup probe to the leader."""
    command = pods.command
    probes: dict[str, Any] = {}
    if command.engine is not None:
        # The probe asks the engine: ray and a sidecar answer long before the model is loaded.
        https = {"scheme": "HTTPS"} if command.serves_https else {}
        port = pods.engine_port
        if ctx.role.parallelism is not None and ctx.role.parallelism.port_per_rank:
            port = command.health_port or port
        probe = {
            "httpGet": {"path": command.engine.health_path, "port": port, **https},
            "periodSeconds": PERIOD_SECONDS,
            "timeoutSeconds": 5,
        }
        if "readinessProbe" not in pods.leader.user_container:
            probes["readinessProbe"] = probe
        if ctx.role.startup is not None:
            # Failures, one every ten seconds, until the container is restarted.
            failures = math.ceil(compute_startup_seconds(ctx.role.startup) / PERIOD_SECONDS)
            probes["startupProbe"] = {**probe, "failureThreshold": failures}
    return pods.put(pods.leader.with_fields(**probes)), []


#: Time for short requests, and for endpoints and pickers to take the pod out.
PAUSE_SECONDS = 20
#: Time for the engine to end after it.
END_SECONDS = 60
#: The same after it has waited for running requests.
_TEARDOWN_SECONDS = 20
GRACE = "terminationGracePeriodSeconds"


def drain_within(grace: int) -> int:
    """Return the seconds of a grace period that are left for running requests."""
    return grace - PAUSE_SECONDS - _TEARDOWN_SECONDS


def graceful_shutdown(pods: RolePods, _: Context) -> tuple[RolePods, list[Finding]]:
    """Make pods of a known engine shut down gracefully, unless the user configured it.

    A deleted pod gets SIGTERM at once, before those that send it requests know. A preStop hook that
    sleeps keeps it serving meanwhile. Workers sleep as long as their leader needs them.
    """
    command = pods.command
    if command.engine is None:
        return pods, []
    for pod in pods.all:
        pods = pods.put(_graceful(pod, command.drain_seconds))
    return pods, []


def _graceful(pod: Pod, drain: int) -> Pod:
    allowed = pod.spec.get(GRACE)
    # Anything but a number is an Output, or is rejected by the API server.
    enough = allowed is None or (isinstance(allowed, int) and allowed > PAUSE_SECONDS)
    if "lifecycle" in pod.user_container or not enough:
        return pod
    seconds = PAUSE_SECONDS if pod.is_leader else PAUSE_SECONDS + drain
    pause = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {seconds}"]}}}
    pausing = pod.with_fields(lifecycle=pause)
    grace = PAUSE_SECONDS + max(END_SECONDS, drain + _TEARDOWN_SECONDS)
    return pausing.with_spec(**{GRACE: allowed or grace})
