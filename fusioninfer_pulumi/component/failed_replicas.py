"""Finds replicas that fail, for the status: LeaderWorkerSets do not say so, but their pods do.

Only where a set is not available, so that an update that went well asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import ask, readable, why_unread
from fusioninfer_pulumi.component.diagnosis.explain import failing_sets
from fusioninfer_pulumi.component.diagnosis.read import read_pods
from fusioninfer_pulumi.component.status import says_available
from fusioninfer_pulumi.kube.labels import REVISION
from fusioninfer_pulumi.service_plan import ServicePlan

#: How long the end of an update may be held up by reading.
_SECONDS = 10.0


def looks_at_pods() -> bool:
    """Tells whether pods are read in this run: not in a preview, whose status is the last one."""
    return not pulumi.runtime.is_dry_run() and readable()


async def failing(
    component: pulumi.Resource,
    plan: ServicePlan,
    seen: Mapping[str, Mapping[str, Any] | None],
    files: pulumi.Output[bool],
) -> dict[str, str]:
    """Reads why replicas fail; fails for nothing itself.

    Args:
        component: The service's component.
        plan: The service.
        seen: Its sets as they were seen last, by name.
        files: Whether objects are only written to files.

    Returns:
        What their pods show just now, by the names of those that fail; nothing where the cluster
        cannot be read, which is told.
    """
    down = {name: _revision(look) for name, look in seen.items() if not says_available(look)}
    try:
        if not down or await files.future():
            return {}
        pods = await ask(component, plan.namespace, read_pods, plan.service, seconds=_SECONDS)
        return failing_sets(down, pods)
    # Whatever it is: without it the status says less, as without rights.
    except Exception as problem:  # noqa: BLE001
        told = f"whether replicas fail was not read: {why_unread(problem)}"
        pulumi.log.info(told, component)
        return {}


def _revision(look: Mapping[str, Any] | None) -> str | None:
    metadata = (look or {}).get("metadata") or {}
    found: str | None = (metadata.get("labels") or {}).get(REVISION)
    return found
