"""Checks of the time that an engine has to start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context
from fusioninfer_pulumi.rules.common import ENGINE_UNKNOWN, FIELD_REQUIRED, TAKEN_BY_TEMPLATE

LIVENESS_PROBE_TOO_EARLY = Rule("liveness-probe-too-early")

#: A liveness probe that waits no longer than this restarts most engines while they load.
_EARLY_SECONDS = 600


def startup_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks `startup`, and liveness probes that end an engine which still loads."""
    at, startup = ctx.at("startup"), ctx.role.startup
    leader, command = pods.leader, pods.command
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
