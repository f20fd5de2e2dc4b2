"""Typed Kubernetes resources with their live status, and functions that combine their Outputs.

`pulumi_kubernetes.apiextensions.CustomResource` has no status in Python (pulumi-kubernetes#1836).
These resources have one, because they register a property `status`.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pulumi

from fusioninfer_pulumi.component.pulumi_sdk import HeldResource

T = TypeVar("T")
#: `metadata` and `status` of objects, by name.
LiveObjects = dict[str, dict[str, Any]]
#: Pulumi type token of `InferenceService`. Changing it would replace every user's service.
TOKEN = "fusioninfer:index:InferenceService"  # noqa: S105  # a type token, not a password

_get_version = functools.cache(importlib.metadata.version)


class KubernetesObject(HeldResource):
    """One Kubernetes object, registered from its manifest."""

    metadata: pulumi.Output[dict[str, Any]]
    """Metadata as the API server stores it."""

    spec: pulumi.Output[Any]
    """Spec as the API server stores it."""

    status: pulumi.Output[Any]
    """Live status, or None until a controller writes one."""

    def __init__(
        self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Register an object from its manifest."""
        group_version = str(manifest["apiVersion"])
        group = group_version if "/" in group_version else f"core/{group_version}"
        super().__init__(
            f"kubernetes:{group}:{manifest['kind']}",
            name,
            {**manifest, "status": None},
            # The provider's version, as pulumi-kubernetes sets it for its own resources.
            pulumi.ResourceOptions.merge(
                pulumi.ResourceOptions(version=_get_version("pulumi-kubernetes")), opts
            ),
        )


class LeaderWorkerSet(KubernetesObject):
    """A LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)."""

    #: Fields set by this library that LeaderWorkerSet's webhook treats as immutable.
    IMMUTABLE: ClassVar[list[str]] = ["spec.leaderWorkerTemplate.subGroupPolicy"]


class PodGroup(KubernetesObject):
    """A PodGroup (scheduling.volcano.sh/v1beta1, or Kubernetes' own scheduling.k8s.io/v1beta1)."""


class InferencePool(KubernetesObject):
    """An InferencePool (inference.networking.k8s.io/v1)."""


class HTTPRoute(KubernetesObject):
    """An HTTPRoute (gateway.networking.k8s.io/v1)."""


class Gateway(KubernetesObject):
    """A Gateway (gateway.networking.k8s.io/v1)."""


def combine_live_objects(objects: Mapping[str, KubernetesObject]) -> pulumi.Output[LiveObjects]:
    """Return an Output that maps each object's name to its `metadata` and `status`."""
    resources = objects.values()

    def build_states(values: list[Any]) -> LiveObjects:
        all_metadata, all_statuses = values[: len(objects)], values[len(objects) :]
        return {
            name: {"metadata": metadata, "status": status}
            for name, metadata, status in zip(objects, all_metadata, all_statuses, strict=True)
        }

    outputs = [
        *(resource.metadata for resource in resources),
        *(resource.status for resource in resources),
    ]
    return combine(outputs, build_states)


def combine(
    outputs: Sequence[pulumi.Output[Any]], make: Callable[[list[Any]], T]
) -> pulumi.Output[T]:
    """Return an Output with the result of `make`, which is called with the values of all `outputs`.

    The values may be unknown. The Output is known if all `outputs` are, and secret if any is.
    `pulumi.Output.all` would create an Output for each nested structure in the values, which for
    the metadata and status of 1,000 objects takes as long as registering them.
    """

    async def get_resources() -> set[pulumi.Resource]:
        return {resource for output in outputs for resource in await output.resources()}

    async def get_value() -> T:
        return make([await output.future(with_unknowns=True) for output in outputs])

    async def is_known() -> bool:
        return all([await output.is_known() for output in outputs])

    async def is_secret() -> bool:
        return any([await output.is_secret() for output in outputs])

    return pulumi.Output(_Lazy(get_resources), _Lazy(get_value), _Lazy(is_known), _Lazy(is_secret))


class _Lazy(Awaitable[T]):
    """Creates its coroutine when awaited, because Python warns if a coroutine is never awaited."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make

    def __await__(self) -> Generator[Any, Any, T]:
        return self._make().__await__()


def find_latest(*candidates: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the state with the highest resource version among states of one object.

    The stack's state may be older than the state that an update has read from the cluster.
    """

    def parse_resource_version(state: Mapping[str, Any]) -> int:
        text = str((state.get("metadata") or {}).get("resourceVersion") or "")
        return int(text) if text.isdecimal() else -1

    states = [state for state in candidates if state]
    return max(states, key=parse_resource_version) if states else None
