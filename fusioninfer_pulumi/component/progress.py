"""The line that shows how far an update is while it waits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import Cluster
from fusioninfer_pulumi.component.diagnosis import Snapshot, describe_waiting, read_pods
from fusioninfer_pulumi.component.status import ready_replicas
from fusioninfer_pulumi.kube.client import UnreadableError
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Between two reads of pods.
_PODS_SECONDS = 10.0
_READ_SECONDS = 5.0
#: Seconds of waiting after which a reason is shown.
_LONG_SECONDS = 3.0
_MINUTE = 60


class Progress:
    """Shows one line, each time in place of the one before."""

    def __init__(self, component: pulumi.Resource, plan: ServicePlan, cluster: Cluster) -> None:
        """Shows nothing yet; `cluster` is read for reasons."""
        self._component, self._plan, self._cluster = component, plan, cluster
        self._waiting, self._since = "", 0.0
        self._pods, self._next_read = Snapshot(), 0.0
        self._said: set[str] = set()
        self._last = ""

    async def show(self, live: Mapping[str, Any], waiting: str | None) -> None:
        """Show how many replicas are available, and what a LeaderWorkerSet waits for."""
        if waiting is None:
            return
        now = time.monotonic()
        if waiting != self._waiting:
            self._waiting, self._since = waiting, now
        if now - self._since >= _LONG_SECONDS and now >= self._next_read:
            self._next_read = now + _PODS_SECONDS
            try:
                self._pods = await self._cluster.read(
                    read_pods, self._plan.service, seconds=_READ_SECONDS
                )
            except UnreadableError:
                self._pods = Snapshot()
        reason = describe_waiting(waiting, self._pods)
        self.say(format_progress(self._plan, live, waiting, reason, now - self._since))

    def say_once(self, line: str) -> None:
        """Log a line that stays, once in an update."""
        if line not in self._said:
            self._said.add(line)
            pulumi.log.info(line, self._component)

    def say(self, line: str) -> None:
        """Show a line if it is another than the last one."""
        if line != self._last:
            self._last = line
            pulumi.log.info(line, self._component, ephemeral=True)


def format_progress(
    plan: ServicePlan, live: Mapping[str, Any], waiting: str, reason: str, seconds: float
) -> str:
    """Available replicas of each role, and what one LeaderWorkerSet waits for.

    Such as `decode 1/2, prefill 1/1 available; decode-1: ImagePullBackOff, 3 m`.
    """
    counts = ", ".join(
        f"{role.name} {sum(ready_replicas(lws, live.get(lws.name)) for lws in role.lws)}"
        f"/{len(role.replicas)}"
        for role in plan.roles
    )
    short = waiting.removeprefix(f"{plan.service}-")
    minutes = int(seconds // _MINUTE)
    parts = [part for part in (reason, f"{minutes} m" if minutes else "") if part]
    return f"{counts} available" + (f"; {short}: {', '.join(parts)}" if parts else "")
