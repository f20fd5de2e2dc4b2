"""How long an engine may take to start, as a startup probe, and probes that end it too early."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.health import StartupArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.rollout import RolloutArgs, WaitArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.engines.command import serving_container
from fusioninfer_pulumi.findings import Finding, error, join, warning
from fusioninfer_pulumi.kube import durations, quantity
from fusioninfer_pulumi.topology.role import RolePlan
from fusioninfer_pulumi.topology.role_rollout import role_rollout

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


def startup_failures(args: StartupArgs) -> int:
    """Failures of the startup probe, one every ten seconds, until the container is restarted."""
    return math.ceil(startup_seconds(args) / PERIOD_SECONDS)


def startup_findings(role: RolePlan, rollout: RolloutArgs, wait: WaitArgs) -> Iterator[Finding]:
    """Checks how long a role's engine may take to start.

    Args:
        role: The role.
        rollout: How the service is updated.
        wait: What an update of it waits for.

    Yields:
        Errors where no startup probe can be made, warnings about times that do not fit.
    """
    at = join("roles", role.position, "startup")
    own = serving_container(role.leader_template, role.args.container)
    given = role.args.startup
    if given is None:
        yield from _early(role, own)
        return
    if given.timeout is None and given.model_size is None:
        yield error(
            at, "needs timeout or modelSize, or the size of the service's model (model.size)"
        )
    elif "startupProbe" in own:
        yield error(at, "the container has a startupProbe of its own; remove one of them")
    elif role.serving.command.engine is None:
        yield error(
            at,
            "how the program tells that it serves is not known; remove this, and write a "
            "startupProbe into the template",
        )
    longest = startup_seconds(given)
    for field, text in (
        ("wait.timeout", wait.timeout),
        ("rollout.timeout", role_rollout(rollout, role).timeout),
    ):
        waited = durations.seconds(text)
        if waited is not None and longest > waited:
            yield warning(
                at,
                f"allows {longest} s, and an update gives up after {field} ({text}): raise that",
            )


def _early(role: RolePlan, own: Mapping[str, Any]) -> Iterator[Finding]:
    probe = own.get("livenessProbe")
    if not isinstance(probe, Mapping) or "startupProbe" in own:
        return
    if role.serving.command.engine is None:
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
            join("roles", role.position, "startup"),
            f"is not given, and the livenessProbe restarts a container that does not serve after "
            f"{seconds} s: a model that takes longer never loads; give startup.timeout",
        )
