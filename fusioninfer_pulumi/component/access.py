"""With which kubeconfig the cluster of a component can be read, and whether it may be."""

from __future__ import annotations

import importlib.util

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.mocks import MockMonitor

from fusioninfer_pulumi.component.recorder import collect_plans


def readable() -> bool:
    """Tells whether clusters are read in this run: with an engine and the extra `cluster`."""
    if collect_plans.get() is not None or isinstance(settings.get_monitor(), MockMonitor):
        return False
    return importlib.util.find_spec("kubernetes") is not None


async def access(component: pulumi.Resource) -> tuple[str | None, str | None]:
    """Kubeconfig and context of the provider that a component's objects go to.

    Args:
        component: The component.

    Returns:
        Both as the provider has them, each None for what kubectl would use.
    """
    provider = component.get_provider("kubernetes:core/v1:Service")
    if provider is None:
        config = pulumi.Config("kubernetes")
        return config.get("kubeconfig"), config.get("context")
    query = {"urn": await provider.urn.future()}
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    state = (answer or {}).get("state") or {}
    given = state.get("kubeconfig"), state.get("context")
    return (
        given[0] if isinstance(given[0], str) else None,
        given[1] if isinstance(given[1], str) else None,
    )
