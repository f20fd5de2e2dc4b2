"""Reads the cluster that a component's objects go to: whether, with which kubeconfig, how long."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.component.run_mode import has_engine
from fusioninfer_pulumi.kube.client import UnreadableError

Read = TypeVar("Read")

# Threads of our own: the SDK's registrations use those of the event loop.
_threads = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-cluster")


def can_read_cluster() -> bool:
    """Whether this run reads clusters: Pulumi runs it and the extra `cluster` is installed."""
    return has_engine() and importlib.util.find_spec("kubernetes") is not None


async def kubeconfig_of(component: pulumi.Resource) -> tuple[str | None, str | None]:
    """Kubeconfig and context of a component's provider; each None for what kubectl would use."""
    provider = component.get_provider("kubernetes:core/v1:Service")
    if provider is None:
        config = pulumi.Config("kubernetes")
        return config.get("kubeconfig"), config.get("context")
    query = {"urn": await provider.urn.future()}
    answer = await pulumi.runtime.invoke_async("pulumi:pulumi:getResource", query)
    state = (answer or {}).get("state") or {}
    kubeconfig, context = state.get("kubeconfig"), state.get("context")
    return (
        kubeconfig if isinstance(kubeconfig, str) else None,
        context if isinstance(context, str) else None,
    )


async def read_from_cluster(
    component: pulumi.Resource,
    namespace: pulumi.Input[str],
    read: Callable[..., Read],
    *arguments: Any,
    seconds: float,
) -> Read:
    """Runs `read` in a thread, with kubeconfig, context, namespace and `arguments`.

    Raises UnreadableError where the cluster does not answer within `seconds`.
    """

    async def reading() -> Read:
        kubeconfig, context = await kubeconfig_of(component)
        known_namespace = await pulumi.Output.from_input(namespace).future() or "default"
        run = asyncio.get_running_loop().run_in_executor
        return await run(_threads, read, kubeconfig, context, known_namespace, *arguments)

    try:
        return await asyncio.wait_for(reading(), seconds)
    except asyncio.TimeoutError:
        # Its own text is empty.
        raise UnreadableError(f"the cluster did not answer within {seconds:g} s") from None


def read_error_text(problem: Exception) -> str:
    """Message for a read that failed; an unexpected error keeps its type."""
    return str(problem) if isinstance(problem, UnreadableError) else repr(problem)
