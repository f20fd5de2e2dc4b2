"""Typed Kubernetes resources that show their live status.

`pulumi_kubernetes.apiextensions.CustomResource` exposes no status in Python (pulumi-kubernetes
#1836); a resource does when `status` is among the properties that it registers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi

#: Pulumi type token of the component; a change of it would replace every user's service.
TOKEN = "fusioninfer:index:InferenceService"  # noqa: S105  # a type token is no password


@functools.cache
def _provider_options() -> pulumi.ResourceOptions:
    """The default provider of the installed pulumi-kubernetes, as for its own resources."""
    import importlib.metadata  # noqa: PLC0415  # start-up time: only a registration needs it

    return pulumi.ResourceOptions(version=importlib.metadata.version("pulumi-kubernetes"))


class KubernetesObject(pulumi.CustomResource):
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
        *,
        patch: bool = False,
    ) -> None:
        """Registers an object; a `patch` only adds to an object that another resource owns."""
        group_version = str(manifest["apiVersion"])
        group = group_version if "/" in group_version else f"core/{group_version}"
        super().__init__(
            f"kubernetes:{group}:{manifest['kind']}{'Patch' if patch else ''}",
            name,
            {**manifest, "status": None},
            pulumi.ResourceOptions.merge(_provider_options(), opts),
        )


class LeaderWorkerSet(KubernetesObject):
    """A LeaderWorkerSet (leaderworkerset.x-k8s.io/v1)."""

    @property
    def _direct_computed_dependencies(self) -> frozenset[pulumi.Resource]:
        """Ends the SDK's search for cycles at a set.

        For each dependency it walks, recursively, all that came before: in a chain of 1,000 sets
        that takes minutes or exceeds the interpreter's stack. The chain has no cycle.
        """
        return frozenset()

    @_direct_computed_dependencies.setter
    def _direct_computed_dependencies(self, _found: object) -> None:
        """Forgets what the SDK notes for that search."""

    #: What LeaderWorkerSet's webhook refuses to change on a live object.
    IMMUTABLE: ClassVar[list[str]] = ["spec.leaderWorkerTemplate.subGroupPolicy"]


class PodGroup(KubernetesObject):
    """A Volcano PodGroup (scheduling.volcano.sh/v1beta1)."""


class InferencePool(KubernetesObject):
    """The pods that a route leads to (inference.networking.k8s.io/v1)."""


class HTTPRoute(KubernetesObject):
    """An HTTPRoute (gateway.networking.k8s.io/v1)."""


class Gateway(KubernetesObject):
    """A Gateway (gateway.networking.k8s.io/v1)."""
