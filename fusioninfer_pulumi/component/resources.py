"""Typed Kubernetes resources that show their live status.

`pulumi_kubernetes.apiextensions.CustomResource` exposes no status in Python (pulumi-kubernetes
#1836); a resource does when `status` is among the properties that it registers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi

from fusioninfer_pulumi.component.sdk import HeldResource

#: Pulumi type token of the component; a change of it would replace every user's service.
TOKEN = "fusioninfer:index:InferenceService"  # noqa: S105  # a type token is no password


@functools.cache
def _provider_options() -> pulumi.ResourceOptions:
    """The default provider of the installed pulumi-kubernetes, as for its own resources."""
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
        """Registers an object."""
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

    #: What LeaderWorkerSet's webhook refuses to change on a live object.
    IMMUTABLE: ClassVar[list[str]] = ["spec.leaderWorkerTemplate.subGroupPolicy"]


class PodGroup(KubernetesObject):
    """A PodGroup (scheduling.volcano.sh/v1beta1, or Kubernetes' own scheduling.k8s.io/v1beta1)."""


class InferencePool(KubernetesObject):
    """The pods that a route leads to (inference.networking.k8s.io/v1)."""


class HTTPRoute(KubernetesObject):
    """An HTTPRoute (gateway.networking.k8s.io/v1)."""


class Gateway(KubernetesObject):
    """A Gateway (gateway.networking.k8s.io/v1)."""
