"""The cluster that a component's objects go to: which one, how it is read, what a program has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.checks.between_services import Cluster as ServicesOfCluster
from fusioninfer_pulumi.component.pulumi_sdk import (
    has_engine,
    provider_of,
    provider_state,
    runs_program,
)
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

Read = TypeVar("Read")
Live = dict[str, dict[str, Any]]

_READ_SECONDS = 15.0

# The SDK's registrations use the event loop's threads, so reads have their own.
THREADS = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-cluster")

# Keyed by the stack, so that nothing outlives it, and by provider, because each cluster may have
# the same name once.
_programs: WeakKeyDictionary[pulumi.Resource, dict[int, ServicesOfCluster]] = WeakKeyDictionary()


def reads_cluster() -> bool:
    """Return whether this run reads clusters: only updates by Pulumi do."""
    return has_engine() and not pulumi.runtime.is_dry_run()


async def kubeconfig_of(component: pulumi.Resource) -> tuple[str | None, str | None]:
    """Return kubeconfig and context of a component's provider; None for kubectl's default."""
    provider = provider_of(component)
    if provider is None:
        config = pulumi.Config("kubernetes")
        return config.get("kubeconfig"), config.get("context")
    state = await provider_state(provider)
    kubeconfig, context = state.get("kubeconfig"), state.get("context")
    return (
        kubeconfig if isinstance(kubeconfig, str) else None,
        context if isinstance(context, str) else None,
    )


async def has_known_cluster(component: pulumi.Resource) -> bool:
    """Return whether a preview knows which cluster the component's objects go to.

    The kubeconfig of an explicit provider may be that of a cluster which the update creates first.
    """
    return provider_of(component) is None or any(await kubeconfig_of(component))


class Cluster:
    """The cluster of a component's objects, read in threads, again over the same connection."""

    def __init__(self, component: pulumi.Resource, namespace: pulumi.Input[str]) -> None:
        """Asks nothing yet; `component` is for its provider."""
        self._component, self._namespace = component, namespace
        self._where: tuple[str | None, str | None, str] | None = None
        self._api: KubernetesApi | None = None

    async def read(self, call: Callable[..., Read], *arguments: Any, seconds: float) -> Read:
        """Run `call` in a thread, with kubeconfig, context, namespace and `arguments`.

        Raises UnreadableError where the cluster does not answer within `seconds`.
        """

        async def reading() -> Read:
            if self._where is None:
                kubeconfig, context = await kubeconfig_of(self._component)
                namespace = await pulumi.Output.from_input(self._namespace).future() or "default"
                self._where = kubeconfig, context, namespace
            run = asyncio.get_running_loop().run_in_executor
            return await run(THREADS, call, *self._where, *arguments)

        try:
            return await asyncio.wait_for(reading(), seconds)
        except asyncio.TimeoutError:
            # The exception's own text is empty.
            raise UnreadableError(f"the cluster did not answer within {seconds:g} s") from None

    async def read_objects(self, service: str, *kinds: tuple[str, str]) -> Live:
        """Return the objects of a service by name, of these kinds with their API versions.

        Raises UnreadableError where they cannot be read.
        """
        return await self.read(self.listed, service, kinds, seconds=_READ_SECONDS)

    def listed(
        self,
        kubeconfig: str | None,
        context: str | None,
        namespace: str,
        service: str,
        kinds: Iterable[tuple[str, str]],
    ) -> Live:
        """List objects in a thread: one request for 500 of each kind."""
        # After a failure, such as expired credentials, the next read connects again.
        api, self._api = self._api or KubernetesApi(kubeconfig, context), None
        selector = f"{labels.SERVICE}={service}"
        objects: Live = {}
        for api_version, kind in kinds:
            for live in api.objects(api_version, kind, namespace, labelSelector=selector) or ():
                objects[live["metadata"]["name"]] = live
        if api.unread:
            raise UnreadableError(", ".join(api.unread))
        self._api = api
        return objects


def describe_read_error(problem: Exception) -> str:
    """Message for a read that failed; an unexpected error keeps its type."""
    return str(problem) if isinstance(problem, UnreadableError) else repr(problem)


def program_services(opts: pulumi.ResourceOptions | None) -> ServicesOfCluster:
    """Return the services that the program has created so far in a component's cluster.

    `opts` are the component's, for its provider and so its cluster.
    """
    stack = pulumi.runtime.get_root_resource()
    # Unit tests with mocks may share one stack and register the same service each.
    if stack is None or not runs_program():
        return ServicesOfCluster()
    provider = _provider_in(opts) if opts is not None else None
    clusters = _programs.setdefault(stack, {})
    return clusters.setdefault(id(provider) if provider is not None else 0, ServicesOfCluster())


def _provider_in(opts: pulumi.ResourceOptions) -> pulumi.ProviderResource | None:
    several: Any = opts.providers or []
    if isinstance(several, Mapping):
        several = several.values()
    elif not isinstance(several, Iterable):
        several = [several]
    explicit = (item for item in (opts.provider, *several) if item and item.package == "kubernetes")
    inherited = provider_of(opts.parent) if opts.parent is not None else None
    return next(explicit, inherited)
