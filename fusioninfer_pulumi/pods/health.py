"""How a serving pod starts, shows that it serves, and ends: probes and graceful shutdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.health import StartupArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods
from fusioninfer_pulumi.pods.rules import ENGINE_UNKNOWN, TAKEN_BY_TEMPLATE

STARTUP_TIME_REQUIRED = Rule(
    "startup-time-required",
    "error",
    "The time that a start may take is known.",
    remedy="Set `startup.timeout`.",
)
LIVENESS_PROBE_TOO_EARLY = Rule(
    "liveness-probe-too-early",
    "warning",
    "A liveness probe leaves the model time to load.",
    remedy="Set `startup.timeout`, or a startup probe.",
    source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
)

#: For everything but reading the weights: the image's start, compilation, CUDA graphs, warm-up.
BASE_SECONDS = 300
PERIOD_SECONDS = 10
#: A liveness probe that waits no longer than this ends most loading engines.
_EARLY_SECONDS = 600


def startup_seconds(args: StartupArgs) -> int:
    """Seconds that an engine may take to start, rounded up."""
    if args.timeout is not None:
        return math.ceil(durations.seconds(args.timeout) or 0)
    size, rate = quantity.parse(args.model_size or 0), quantity.parse(args.read_rate)
    return BASE_SECONDS + math.ceil(size / rate)


def with_model_size(args: InferenceServiceArgs) -> InferenceServiceArgs:
    """A service whose roles start by its model's size, where they state no time and no size."""
    size = args.model.size if args.model is not None else None
    if size is None:
        return args

    def sized(role: RoleArgs) -> RoleArgs:
        given = role.startup
        if given is None or given.timeout is not None or given.model_size is not None:
            return role
        return role.model_copy(update={"startup": given.model_copy(update={"model_size": size})})

    return args.model_copy(update={"roles": [sized(role) for role in args.roles]})


def health(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Adds the leader's probes: whether it serves, and how long it may take until it does."""
    command = pods.engine_command
    probes: dict[str, Any] = {}
    if command.engine is not None:
        # On the engine's port: ray's port answers long before the model is loaded, and so does a
        # sidecar.
        https = {"scheme": "HTTPS"} if command.serves_https else {}
        port = pods.engine_port
        if ctx.role.parallelism is not None and ctx.role.parallelism.port_per_rank:
            port = command.engine.health_port(command) or port
        probe = {
            "httpGet": {"path": command.engine.health_path, "port": port, **https},
            "periodSeconds": PERIOD_SECONDS,
            "timeoutSeconds": 5,
        }
        if "readinessProbe" not in pods.leader.own:
            probes["readinessProbe"] = probe
        if ctx.role.startup is not None:
            # Failures, one every ten seconds, until the container is restarted.
            failures = math.ceil(startup_seconds(ctx.role.startup) / PERIOD_SECONDS)
            probes["startupProbe"] = {**probe, "failureThreshold": failures}
    findings = list(_findings(pods.leader, command, ctx))
    return pods.put(pods.leader.with_container(lambda each: {**each, **probes})), findings


def _findings(leader: Pod, command: EngineCommand, ctx: Context) -> Iterator[Finding]:
    at, given = ctx.at("startup"), ctx.role.startup
    if given is None:
        if command.engine is not None:
            yield from _early(at, leader.own)
    elif given.timeout is None and given.model_size is None:
        message = "needs timeout or modelSize, or the size of the service's model (model.size)"
        yield error(STARTUP_TIME_REQUIRED, at, message)
    elif "startupProbe" in leader.own:
        message = "the container has a startupProbe of its own; remove one of them"
        yield error(TAKEN_BY_TEMPLATE, at, message)
    elif command.engine is None:
        yield error(
            ENGINE_UNKNOWN,
            at,
            "how the program tells that it serves is not known; remove this, and write a "
            "startupProbe into the template",
        )


def _early(at: Location, own: Mapping[str, Any]) -> Iterator[Finding]:
    probe = own.get("livenessProbe")
    if not isinstance(probe, Mapping) or "startupProbe" in own:
        return
    numbers = [
        probe.get("initialDelaySeconds") or 0,
        probe.get("periodSeconds") or 10,
        probe.get("failureThreshold") or 3,
    ]
    if not all(isinstance(number, int) for number in numbers):
        return  # an Output, or for the API server to judge
    delay, period, failures = numbers
    seconds = delay + period * failures
    if seconds < _EARLY_SECONDS:
        yield warning(
            LIVENESS_PROBE_TOO_EARLY,
            at,
            f"is not given, and the livenessProbe restarts a container that does not serve after "
            f"{seconds} s: a model that takes longer never loads; give startup.timeout",
        )


#: Time for requests that are under way, and for endpoints and pickers to take the pod out.
PAUSE_SECONDS = 20
#: The same and a minute for the engine to end.
GRACE_SECONDS = 80
_GRACE = "terminationGracePeriodSeconds"


def graceful_shutdown(pods: Pods, _: Context) -> tuple[Pods, list[Finding]]:
    """Lets pods of a known engine end gracefully, unless the user has set how they end.

    A deleted pod gets SIGTERM at once, before those that send it requests know. A preStop hook that
    sleeps keeps it serving meanwhile. Workers sleep as long as their leader, which needs them.
    """
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
