"""Registers a service's objects as typed children, each after those that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pulumi

from fusioninfer_pulumi.component.resources import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)
from fusioninfer_pulumi.plan.records import ServicePlan

#: Kinds of the same service that have to exist before one of a kind is created. The pool never
#: waits for the picker, which is Ready only once the pool exists.
AFTER = {
    # The scheduler ignores pods whose PodGroup does not exist yet, and no pod can be created whose
    # ServiceAccount does not: that of the sidecars is registered before the sets.
    "LeaderWorkerSet": ("PodGroup", "ServiceAccount", "RoleBinding"),
    "RoleBinding": ("ServiceAccount", "Role"),
    "ClusterRoleBinding": ("ServiceAccount",),
    "Deployment": (
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRoleBinding",
        "ConfigMap",
        "InferencePool",
    ),
    "HTTPRoute": ("InferencePool", "Service", "Gateway"),
    "HealthCheckPolicy": ("InferencePool",),
    "GCPBackendPolicy": ("InferencePool",),
}

_TYPES: Mapping[str, type[KubernetesObject]] = {
    "Gateway": Gateway,
    "HTTPRoute": HTTPRoute,
    "InferencePool": InferencePool,
    "LeaderWorkerSet": LeaderWorkerSet,
    "PodGroup": PodGroup,
}


class Children:
    """The children of one component, by kind.

    Attributes:
        registered: The resources of each kind, in apply order.
    """

    def __init__(self, name: str, plan: ServicePlan, given: pulumi.ResourceOptions) -> None:
        """Registers nothing yet.

        Args:
            name: Logical name of the component.
            plan: The service.
            given: Options of every child.
        """
        self.registered: dict[str, list[KubernetesObject]] = {}
        self._name = name
        self._plan = plan
        self._given = given

    def add(self, manifest: Mapping[str, Any]) -> KubernetesObject:
        """Registers one object.

        Args:
            manifest: The object.

        Returns:
            Its resource.
        """
        kind = manifest["kind"]
        made = _TYPES.get(kind, KubernetesObject)(
            self._logical(manifest), manifest, self._options(kind)
        )
        self.registered.setdefault(kind, []).append(made)
        return made

    def _logical(self, manifest: Mapping[str, Any]) -> str:
        """Name of the component and what the object's name has after the service's."""
        metadata = manifest["metadata"]
        # Objects of the cluster or of other namespaces have our namespace before that.
        own = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + own[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _options(self, kind: str) -> pulumi.ResourceOptions:
        own = pulumi.ResourceOptions(
            depends_on=[resource for other in AFTER.get(kind, ()) for resource in self._of(other)]
            or None
        )
        if kind == "LeaderWorkerSet":
            own.replace_on_changes = LeaderWorkerSet.IMMUTABLE
            # Names are fixed: the old object has to go before the new one comes.
            own.delete_before_replace = True
        if kind == "InferencePool" and self._plan.router is not None:
            own.protect = self._plan.router.pool.protect
            own.retain_on_delete = self._plan.router.pool.retain
        return pulumi.ResourceOptions.merge(self._given, own)

    def _of(self, kind: str) -> list[KubernetesObject]:
        return self.registered.get(kind, [])
