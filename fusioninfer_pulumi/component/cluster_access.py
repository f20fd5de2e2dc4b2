"""Reads the cluster that a component's objects go to: whether, with which kubeconfig, how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.component.sdk import has_engine, provider_state
from fusioninfer_pulumi.kube.client import UnreadableError

Read = TypeVar("Read")

# The SDK's registrations use the event loop's threads, so reads have their own.
_threads = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-cluster")


def reads_cluster() -> bool:
    """Whether this run reads clusters: an update by Pulumi, no preview, no test with mocks."""
    return has_engine() and not pulumi.runtime.is_dry_run()


async def kubeconfig_of(component: pulumi.Resource) -> tuple[str | None, str | None]:
    """Kubeconfig and context of a component's provider; each None for what kubectl would use."""
    provider = component.get_provider("kubernetes:core/v1:Service")
    if provider is None:
        config = pulumi.Config("kubernetes")
        return config.get("kubeconfig"), config.get("context")
    state = await provider_state(provider)
    kubeconfig, context = state.get("kubeconfig"), state.get("context")
    return (
        kubeconfig if isinstance(kubeconfig, str) else None,
        context if isinstance(context, str) else None,
    )


async def names_cluster(component: pulumi.Resource) -> bool:
    """Whether a preview knows which cluster the component's objects go to.

    The kubeconfig of an explicit provider may be that of a cluster which the update creates first.
    """
    return component.get_provider("kubernetes:core/v1:Service") is None or any(
        await kubeconfig_of(component)
    )


class Cluster:
    """The cluster of a component's objects, read in threads."""

    def __init__(self, component: pulumi.Resource, namespace: pulumi.Input[str]) -> None:
        """Asks nothing yet; `component` is for its provider."""
        self._component, self._namespace = component, namespace
        self._where: tuple[str | None, str | None, str] | None = None

    async def read(self, call: Callable[..., Read], *arguments: Any, seconds: float) -> Read:
        """Runs `call` in a thread, with kubeconfig, context, namespace and `arguments`.

        Raises UnreadableError where the cluster does not answer within `seconds`.
        """

        async def reading() -> Read:
            if self._where is None:
                kubeconfig, context = await kubeconfig_of(self._component)
                namespace = await pulumi.Output.from_input(self._namespace).future() or "default"
                self._where = kubeconfig, context, namespace
            run = asyncio.get_running_loop().run_in_executor
            return await run(_threads, call, *self._where, *arguments)

        try:
            return await asyncio.wait_for(reading(), seconds)
        except asyncio.TimeoutError:
            # The exception's own text is empty.
            raise UnreadableError(f"the cluster did not answer within {seconds:g} s") from None


def read_error_text(problem: Exception) -> str:
    """Message for a read that failed; an unexpected error keeps its type."""
    return str(problem) if isinstance(problem, UnreadableError) else repr(problem)
