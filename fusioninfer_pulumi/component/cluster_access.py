"""Reads a component's cluster, and remembers which services the program has created there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pulumi

from fusioninfer_pulumi.checks.cross_service_checks import ClusterServices
from fusioninfer_pulumi.component.pulumi_sdk import (
    get_kubernetes_provider,
    has_pulumi_engine,
    is_program_running,
    read_provider_state,
)
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

T = TypeVar("T")
Objects = dict[str, dict[str, Any]]  # live objects by name

_READ_SECONDS = 15.0

# A separate thread pool, because the SDK's registrations use the event loop's threads.
THREADS = ThreadPoolExecutor(4, thread_name_prefix="fusioninfer-cluster")

# Keyed by the stack, so that entries are dropped with it, and by the provider, because clusters may
# have services of the same name.
_services: WeakKeyDictionary[pulumi.Resource, dict[int, ClusterServices]] = WeakKeyDictionary()


def is_pulumi_update() -> bool:
    """Return whether Pulumi runs an update: not a preview, a command or a unit test."""
    return has_pulumi_engine() and not pulumi.runtime.is_dry_run()


async def read_kubeconfig(component: pulumi.Resource) -> tuple[str | None, str | None]:
    """Return kubeconfig and context of a component's provider; None means kubectl's default."""
    provider = get_kubernetes_provider(component)
    if provider is None:
        config = pulumi.Config("kubernetes")
        return config.get("kubeconfig"), config.get("context")
    state = await read_provider_state(provider)
    kubeconfig, context = state.get("kubeconfig"), state.get("context")
    return (
        kubeconfig if isinstance(kubeconfig, str) else None,
        context if isinstance(context, str) else None,
    )


async def has_known_cluster(component: pulumi.Resource) -> bool:
    """Return whether a preview knows the cluster of a component's objects.

    The cluster is unknown if the program creates it and passes its kubeconfig to the provider.
    """
    return get_kubernetes_provider(component) is None or any(await read_kubeconfig(component))


class Cluster:
    """The cluster of a component's objects, read in threads over a reused connection."""

    def __init__(self, component: pulumi.Resource, namespace: pulumi.Input[str]) -> None:
        """Prepare reads with the credentials of the component's provider."""
        self._component, self._namespace = component, namespace
        self._target: tuple[str | None, str | None, str] | None = None
        self._api: KubernetesApi | None = None

    async def read(self, call: Callable[..., T], *arguments: Any, seconds: float) -> T:
        """Run `call` in a thread, with the connection, the namespace and `arguments`.

        Raises UnreadableError if the cluster does not respond within `seconds`.
        """

        async def run_in_thread() -> T:
            if self._target is None:
                kubeconfig, context = await read_kubeconfig(self._component)
                namespace = await pulumi.Output.from_input(self._namespace).future() or "default"
                self._target = kubeconfig, context, namespace
            run = asyncio.get_running_loop().run_in_executor
            return await run(THREADS, self._call, call, *self._target, *arguments)

        try:
            return await asyncio.wait_for(run_in_thread(), seconds)
        except asyncio.TimeoutError:
            # A TimeoutError has no message.
            raise UnreadableError(f"the cluster did not respond within {seconds:g} s") from None

    def _call(
        self,
        call: Callable[..., T],
        kubeconfig: str | None,
        context: str | None,
        namespace: str,
        *arguments: Any,
    ) -> T:
        # `_api` stays None after a failure, such as expired credentials, to reconnect next time.
        api = self._api or KubernetesApi(kubeconfig, context)
        self._api = None
        result = call(api, namespace, *arguments)
        self._api = None if api.unread else api
        return result

    async def read_objects(self, service: str, *kinds: tuple[str, str]) -> Objects:
        """Return a service's objects of some kinds (API version and kind), by name.

        Raises UnreadableError if they cannot be read.
        """
        return await self.read(list_objects, service, kinds, seconds=_READ_SECONDS)


def list_objects(
    api: KubernetesApi, namespace: str, service: str, kinds: Iterable[tuple[str, str]]
) -> Objects:
    """Return a service's objects of some kinds, by name; see `Cluster.read_objects`."""
    selector = f"{labels.SERVICE}={service}"
    objects = {
        live["metadata"]["name"]: live
        for api_version, kind in kinds
        for live in api.list_objects(api_version, kind, namespace, labelSelector=selector) or ()
    }
    if api.unread:
        raise UnreadableError(", ".join(api.unread))
    return objects


def describe_read_error(exc: Exception) -> str:
    """Return a message for a failed read, with the exception's type if it is unexpected."""
    return str(exc) if isinstance(exc, UnreadableError) else repr(exc)


def get_program_services(opts: pulumi.ResourceOptions | None) -> ClusterServices:
    """Return the services that the program has created so far in a component's cluster.

    `opts` are the component's options; their provider identifies the cluster.
    """
    stack = pulumi.runtime.get_root_resource()
    # Tests with mocks may register a service more than once, so nothing is remembered.
    if stack is None or not is_program_running():
        return ClusterServices()
    provider = _find_provider(opts) if opts is not None else None
    services_by_provider = _services.setdefault(stack, {})
    return services_by_provider.setdefault(
        0 if provider is None else id(provider), ClusterServices()
    )


def _find_provider(opts: pulumi.ResourceOptions) -> pulumi.ProviderResource | None:
    # Merged options map each package to its provider. `provider` takes precedence over `providers`.
    provider_option = pulumi.ResourceOptions(providers=[opts.provider] if opts.provider else None)
    providers = pulumi.ResourceOptions.merge(opts, provider_option).providers
    if isinstance(providers, Mapping) and "kubernetes" in providers:
        return providers["kubernetes"]
    return get_kubernetes_provider(opts.parent) if opts.parent is not None else None
