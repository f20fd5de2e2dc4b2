"""Checks of the time that an engine has to start."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.health import StartupArgs
from fusioninfer_pulumi.api.model import hub_name
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.presets.layout import model_bytes
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN, FIELD_REQUIRED, TAKEN_BY_TEMPLATE

LIVENESS_PROBE_TOO_EARLY = Rule(
    "liveness-probe-too-early",
    "warning",
    "A liveness probe leaves the model time to load.",
    remedy="Set `startup.timeout`, or a startup probe.",
    source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
)

STARTUP_PROBE_TOO_SHORT = Rule(
    "startup-probe-too-short",
    "warning",
    "Startup probe restarts the container before the model is loaded.",
    remedy="Raise `startup.timeout`, or failureThreshold of the template's startup probe.",
    source="https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/",
)

#: A liveness probe that waits no longer than this restarts most engines while they load.
_EARLY_SECONDS = 600


def startup_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks `startup`, and liveness probes that end an engine which still loads."""
    at, startup = ctx.at("startup"), ctx.role.startup
    leader, command = pods.leader, pods.command
    yield from _short_startup(pods, ctx)
    if startup is None:
        if command.engine is not None:
            yield from _early(at, leader.own)
    elif startup.timeout is None and startup.model_size is None:
        message = "needs timeout or modelSize, or the size of the service's model (model.size)"
        yield error(FIELD_REQUIRED, at, message)
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


def _early(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    probe = container.get("livenessProbe")
    if not isinstance(probe, Mapping) or "startupProbe" in container:
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


def _short_startup(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Compare the startup probe with the time that reading the weights takes."""
    probe = pods.leader.container.get("startupProbe")
    user_probe = "startupProbe" in pods.leader.own
    startup = ctx.role.startup or StartupArgs()
    chosen = user_probe or startup.timeout is not None
    if ctx.model is None or not isinstance(probe, Mapping) or not chosen:
        return
    size = ctx.model.size or model_bytes(ctx.model, hub_name(ctx.model.uri) or "")
    numbers = [probe.get("periodSeconds") or 10, probe.get("failureThreshold") or 3]
    if size is None or not all(isinstance(number, int) for number in numbers):
        return
    allowed = math.prod(numbers) + (probe.get("initialDelaySeconds") or 0)
    needed = math.ceil(quantity.parse(size) / quantity.parse(startup.read_rate))
    if allowed < needed:
        probe_path = (*pods.leader.container_path, "startupProbe")
        yield warning(
            STARTUP_PROBE_TOO_SHORT,
            probe_path if user_probe else ctx.at("startup", "timeout"),
            f"allows {allowed} s, but reading the weights ({quantity.parse(size) / 2**30:.0f} GiB) "
            f"takes {needed} s at {startup.read_rate}/s; the kubelet restarts the container before "
            "the model is loaded",
        )
