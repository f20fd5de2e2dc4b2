"""Typed Kubernetes resources that show their live status, and outputs of what they show.

`pulumi_kubernetes.apiextensions.CustomResource` exposes no status in Python (pulumi-kubernetes
#1836); a resource does when `status` is among the properties that it registers.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pulumi

from fusioninfer_pulumi.component.pulumi_sdk import HeldResource

T = TypeVar("T")
#: `metadata` and `status` of objects, by name.
LiveObjects = dict[str, dict[str, Any]]
#: Pulumi type token of the component; a change of it would replace every user's service.
TOKEN = "fusioninfer:index:InferenceService"  # noqa: S105  # a type token is no password


@functools.cache
def _provider_options() -> pulumi.ResourceOptions:
    """Return the default provider of the installed pulumi-kubernetes, as for its own resources."""
    import importlib.metadata  # noqa: PLC0415  # start-up time: only a registration needs it

    return pulumi.ResourceOptions(version=importlib.metadata.version("pulumi-kubernetes"))


class KubernetesObject(HeldResource):
    """One Kubernetes object, registered from its manifest."""

    metadata: pulumi.Output[dict[str, Any]]
    """Metadata as the API server stores it."""

    spec: pulumi.Output[Any]
    """Spec as the API server stores it."""

    status: pulumi.Output[Any]
    """Live status, None until a controller writes one."""

    def __init__(
        self,
        name: str,
        manifest: Mapping[str, Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Register an object."""
        group_version = str(manifest["apiVersion"])
        group = group_version if "/" in group_version else f"core/{group_version}"
        super().__init__(
            f"kubernetes:{group}:{manifest['kind']}",
            name,
            {**manifest, "status": None},
            pulumi.ResourceOptions.merge(_provider_options(), opts),
        )


class LeaderWorkerSet(KubernetesObject):
    """A LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)."""

    #: Fields of a live object that LeaderWorkerSet's webhook does not let change.
    IMMUTABLE: ClassVar[list[str]] = ["spec.leaderWorkerTemplate.subGroupPolicy"]


class PodGroup(KubernetesObject):
    """A PodGroup (scheduling.volcano.sh/v1beta1, or Kubernetes' own scheduling.k8s.io/v1beta1)."""


class InferencePool(KubernetesObject):
    """The pods that a route leads to (inference.networking.k8s.io/v1)."""


class HTTPRoute(KubernetesObject):
    """An HTTPRoute (gateway.networking.k8s.io/v1)."""


class Gateway(KubernetesObject):
    """A Gateway (gateway.networking.k8s.io/v1)."""


def live_objects(objects: Mapping[str, KubernetesObject]) -> pulumi.Output[LiveObjects]:
    """`metadata` and `status` of objects by name: known when all are, secret when one is.

    As `pulumi.Output.all` would, which makes an Output of every structure inside of every value:
    for the metadata and status of 1,000 objects that takes as long as registering them.
    """
    outputs = [
        output for resource in objects.values() for output in (resource.metadata, resource.status)
    ]

    def states(values: list[Any]) -> LiveObjects:
        return {
            name: {"metadata": values[2 * at], "status": values[2 * at + 1]}
            for at, name in enumerate(objects)
        }

    return combined(outputs, states)


def combined(
    outputs: Sequence[pulumi.Output[Any]], make: Callable[[list[Any]], T]
) -> pulumi.Output[T]:
    """One Output of several, without an Output for each part of their values.

    `make` gets their values, which may be unknown. The result is known when all are, secret when
    one is.
    """

    async def resources() -> set[pulumi.Resource]:
        return {resource for output in outputs for resource in await output.resources()}

    async def value() -> T:
        return make([await output.future(with_unknowns=True) for output in outputs])

    async def known() -> bool:
        return all([await output.is_known() for output in outputs])

    async def secret() -> bool:
        return any([await output.is_secret() for output in outputs])

    return pulumi.Output(_Later(resources), _Later(value), _Later(known), _Later(secret))


class _Later(Awaitable[T]):
    """A coroutine that is created when it is awaited: a program that fails awaits none."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make

    def __await__(self) -> Generator[Any, Any, T]:
        return self._make().__await__()


def latest(*several: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the latest of several live states of one object.

    A resource that did not change keeps the state of its creation; the version of an object grows
    with every write.
    """

    def version(state: Mapping[str, Any]) -> int:
        text = str((state.get("metadata") or {}).get("resourceVersion") or "")
        return int(text) if text.isdecimal() else -1

    states = [state for state in several if state]
    return max(states, key=version) if states else None


def before_update(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a live object without its generation, as a preview needs it.

    The API server's dry run counts a change as a new generation; the status is that of the running
    object and cannot speak of it yet.
    """
    if not state or "generation" not in (state.get("metadata") or {}):
        return state
    metadata = {key: value for key, value in state["metadata"].items() if key != "generation"}
    return {**state, "metadata": metadata}
