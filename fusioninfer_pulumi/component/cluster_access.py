"""Reads the cluster of a component: whether it may be read, with which kubeconfig, how long."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pulumi
from pulumi.runtime import settings
from pulumi.runtime.mocks import MockMonitor

from fusioninfer_pulumi.component.recorder import collect_plans
from fusioninfer_pulumi.kube.client import UnreadableError

Read = TypeVar("Read")

# Threads of our own: the SDK's registrations use those of the event loop.
_threads = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-cluster")


def readable() -> bool:
    """Tells whether clusters are read in this run: with an engine and the extra `cluster`."""
    if collect_plans.get() is not None or isinstance(settings.get_monitor(), MockMonitor):
        return False
    return importlib.util.find_spec("kubernetes") is not None


async def kubeconfig_of(component: pulumi.Resource) -> tuple[str | None, str | None]:
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


async def ask(
    component: pulumi.Resource,
    namespace: pulumi.Input[str],
    read: Callable[..., Read],
    *given: Any,
    seconds: float,
) -> Read:
    """Has the cluster of a component read, in a thread.

    Args:
        component: The component.
        namespace: The namespace of its objects.
        read: Reads; it is given kubeconfig, context and namespace first.
        given: What else it is given.
        seconds: How long it may take.

    Returns:
        What was read.

    Raises:
        UnreadableError: There is no answer in time, or what `read` raises.
    """

    async def asked() -> Read:
        kubeconfig, context = await kubeconfig_of(component)
        where = await pulumi.Output.from_input(namespace).future() or "default"
        run = asyncio.get_running_loop().run_in_executor
        return await run(_threads, read, kubeconfig, context, where, *given)

    try:
        return await asyncio.wait_for(asked(), seconds)
    except asyncio.TimeoutError:
        # Its own text is empty.
        raise UnreadableError(f"the cluster did not answer within {seconds:g} s") from None


def why_unread(problem: Exception) -> str:
    """Words for a look that failed; what nobody expected keeps its type."""
    return str(problem) if isinstance(problem, UnreadableError) else repr(problem)
