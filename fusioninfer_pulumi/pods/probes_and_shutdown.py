"""Passes for the probes and the graceful shutdown of serving pods."""

from __future__ import annotations

import math
from typing import Any

from fusioninfer_pulumi.api.availability import StartupArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

#: Startup time in addition to reading the weights: compilation, CUDA graphs and warm-up.
BASE_SECONDS = 300
PERIOD_SECONDS = 10


def compute_startup_seconds(args: StartupArgs) -> int:
    """Return the seconds that an engine may take to start, rounded up."""
    if args.timeout is not None:
        return math.ceil(durations.parse_duration(args.timeout) or 0)
    size, rate = quantity.parse(args.model_size or 0), quantity.parse(args.read_rate)
    return BASE_SECONDS + math.ceil(size / rate)


def add_model_size(args: InferenceServiceArgs) -> InferenceServiceArgs:
    """Return the service with `model.size` in each `startup` that has no timeout and no size."""
    size = args.model.size if args.model is not None else None
    if size is None:
        return args

    def add_size(role: RoleArgs) -> RoleArgs:
        startup = role.startup
        if startup is None or startup.timeout is not None or startup.model_size is not None:
            return role
        return role.model_copy(update={"startup": startup.model_copy(update={"model_size": size})})

    return args.model_copy(update={"roles": [add_size(role) for role in args.roles]})


def add_health_probes(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add a readiness probe to a leader without one and, if `startup` is set, a startup probe."""
    command = pods.command
    if command.engine is None:
        return pods, []
    # The probe uses the engine's port, because Ray's and a sidecar's port accept requests before
    # the model is loaded.
    port = pods.engine_port
    if ctx.role.parallelism is not None and ctx.role.parallelism.port_per_rank:
        port = command.health_port or port
    https = {"scheme": "HTTPS"} if command.serves_https else {}
    probe = {
        "httpGet": {"path": command.engine.http.health_path, "port": port, **https},
        "periodSeconds": PERIOD_SECONDS,
        "timeoutSeconds": 5,
    }
    probes: dict[str, Any] = {}
    if "readinessProbe" not in pods.leader.initial_container:
        probes["readinessProbe"] = probe
    if ctx.role.startup is not None:
        failures = math.ceil(compute_startup_seconds(ctx.role.startup) / PERIOD_SECONDS)
        probes["startupProbe"] = {**probe, "failureThreshold": failures}
    return pods.with_pod(pods.leader.with_fields(**probes)), []


#: Sleep before SIGTERM, until Services and endpoint pickers no longer choose the pod.
PAUSE_SECONDS = 20
#: Seconds from SIGTERM to SIGKILL, at least, if the user sets no grace period.
_MIN_SHUTDOWN_SECONDS = 60
#: Time for the engine to exit once its running requests have ended.
_TEARDOWN_SECONDS = 20
GRACE_FIELD = "terminationGracePeriodSeconds"


def compute_max_drain_seconds(grace: int) -> int:
    """Return how many seconds a grace period leaves for running requests after SIGTERM."""
    return grace - PAUSE_SECONDS - _TEARDOWN_SECONDS


def add_graceful_shutdown(pods: RolePods, _: Context) -> tuple[RolePods, list[Finding]]:
    """Make pods of a known engine shut down gracefully, unless the user configures `lifecycle`.

    Without a hook, a deleted pod receives SIGTERM before its clients know of the deletion. A
    preStop hook that sleeps keeps the pod serving until the clients know. Workers also sleep for
    the leader's drain time, because they cannot see when the leader has finished its requests.
    There is no hook if the user's grace period is at most PAUSE_SECONDS, or an Output.
    """
    command = pods.command
    if command.engine is None:
        return pods, []
    for pod in pods.all:
        pods = pods.with_pod(_add_pause(pod, command.drain_seconds))
    return pods, []


def _add_pause(pod: Pod, drain_seconds: int) -> Pod:
    user_grace = pod.spec.get(GRACE_FIELD)
    # An Output's value is unknown, and the API server rejects types other than integers.
    allows_pause = user_grace is None or (
        isinstance(user_grace, int) and user_grace > PAUSE_SECONDS
    )
    if "lifecycle" in pod.initial_container or not allows_pause:
        return pod
    seconds = PAUSE_SECONDS if pod.is_leader else PAUSE_SECONDS + drain_seconds
    pause = {"preStop": {"exec": {"command": ["/bin/sh", "-c", f"sleep {seconds}"]}}}
    grace = PAUSE_SECONDS + max(_MIN_SHUTDOWN_SECONDS, drain_seconds + _TEARDOWN_SECONDS)
    return pod.with_fields(lifecycle=pause).with_spec(**{GRACE_FIELD: user_grace or grace})
