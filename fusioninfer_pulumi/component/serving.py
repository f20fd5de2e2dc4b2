"""Lets an update at `wait.level: Serving` end only when the endpoint has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi
from pulumi.runtime.mocks import MockMonitor
from pulumi.runtime.settings import get_monitor

from fusioninfer_pulumi import durations
from fusioninfer_pulumi.component.answering import PATH, SilentError, answered
from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.spec.rollout import WaitLevel


def confirm(
    component: pulumi.Resource,
    plan: ServicePlan,
    endpoint: pulumi.Output[str],
    last: Callable[[], pulumi.Output[bool]],
) -> None:
    """Asks the endpoint, after all that is awaited, and fails the program if it does not serve.

    A preview, files, and a program without an engine (the command line, tests with mocks) ask
    nothing. No resource and no output depends on it.

    Args:
        component: The service's component, for messages.
        plan: The service.
        endpoint: Its endpoint.
        last: Makes what is known when everything that is awaited is there; false where files are
            written.
    """
    if plan.wait.level is not WaitLevel.SERVING or pulumi.runtime.is_dry_run() or not _on_engine():
        return

    async def asked(seen: list[Any]) -> bool:
        url, awaited = seen
        if not awaited:
            return False
        if not url:
            _note(component, "nobody knows its address here")
            return False
        try:
            why = await answered(url, float(durations.seconds(plan.wait.timeout) or 0))
        except SilentError as problem:
            raise pulumi.RunError(
                f"{plan.service}: {url}{PATH} did not answer within {plan.wait.timeout}: {problem}"
            ) from None
        if why is not None:
            _note(component, f"{url}: {why}")
        return why is None

    both: Any = pulumi.Output.all(endpoint, last())
    both.apply(asked)


def _on_engine() -> bool:
    return collect_plans.get() is None and not isinstance(get_monitor(), MockMonitor)


def _note(component: pulumi.Resource, why: str) -> None:
    pulumi.log.info(f"whether the endpoint answers was not checked: {why}", component)
