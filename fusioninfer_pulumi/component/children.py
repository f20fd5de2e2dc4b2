"""Registers a service's objects as typed children, each after the objects that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.component import options
from fusioninfer_pulumi.component.cluster_access import reads_cluster
from fusioninfer_pulumi.component.outputs import LiveObjects, combined
from fusioninfer_pulumi.component.resources import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)
from fusioninfer_pulumi.component.sdk import renders_yaml
from fusioninfer_pulumi.component.split import growing_shares
from fusioninfer_pulumi.component.state import Observed, observed_of, stack_lws_of, stack_shares
from fusioninfer_pulumi.component.update import Update
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.order import update_order
from fusioninfer_pulumi.rollout.replacement import Replacement
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY, same_policy

Manifest = dict[str, Any]
Made = TypeVar("Made", bound=KubernetesObject)

#: Kinds of the same service that have to exist before a kind is created. The pool never waits for
#: the endpoint picker, which is Ready only once the pool exists.
AFTER = {
    # The scheduler ignores pods whose PodGroup does not exist yet, and no pod can be created whose
    # ServiceAccount does not: that of the sidecars is registered before the sets.
    # The Job fills the cache that the pods read.
    "LeaderWorkerSet": (
        "PodGroup",
        "ServiceAccount",
        "RoleBinding",
        "ResourceClaimTemplate",
        "PersistentVolumeClaim",
        "Job",
    ),
    "Job": ("PersistentVolumeClaim",),
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
    "InferenceModelRewrite": ("InferencePool",),
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


@dataclass(frozen=True)
class _Registered:
    """An object of the service with its resource."""

    manifest: Manifest
    resource: KubernetesObject


class Children:
    """The children of one component, by kind, and the update that they are part of."""

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Manifest],
        beside: Replacement | None,
        child_options: pulumi.ResourceOptions,
    ) -> None:
        """Registers all objects in apply order.

        `beside` are roles that take the place of others, `child_options` those of every child.
        """
        self._registered: dict[str, list[_Registered]] = {}
        self._name, self._plan, self._child_options = name, plan, child_options
        self._yaml_only = renders_yaml(component)
        self._steps = {step.name: step for step in update_order(plan)}
        self._sub_group_policies = _sub_group_policies(name, plan)
        self._update: Update | None = None
        self._seen = pulumi.Output.from_input(Observed())
        if reads_cluster() and self._yaml_only is not True:
            yaml_only = self.yaml_only()
            self._update = Update(component, name, plan, manifests, beside, yaml_only.future)
            self._seen = self._update.result
        elif pulumi.runtime.is_dry_run():
            self._seen = pulumi.Output.from_input(observed_of(name))
        resource = None
        # The SDK notes the whole call stack with each resource: few calls lie between.
        for manifest in manifests:
            kind = manifest["kind"]
            make = _TYPES.get(kind, KubernetesObject)
            registered, opts = self._annotated(manifest), self._options(manifest)
            resource = make(self._logical(manifest), registered, opts)
            self._registered.setdefault(kind, []).append(_Registered(manifest, resource))
            if self._update is not None:
                self._update.registered(kind, manifest["metadata"]["name"], resource)
        if self._update is not None:
            if resource is not None:
                # What depends on the component waits for the URNs of all its objects.
                resource.hold(self._seen)
            self._update.start()

    def of_type(self, kind: type[Made]) -> dict[str, Made]:
        """The objects of a type by Kubernetes name, in apply order."""
        resources = self.by_name(kind.__name__)
        return {
            name: resource for name, resource in resources.items() if isinstance(resource, kind)
        }

    def by_name(self, kind: str) -> dict[str, KubernetesObject]:
        """The objects of a kind by Kubernetes name, in apply order."""
        return {child.manifest["metadata"]["name"]: child.resource for child in self._of(kind)}

    def deadline(self) -> pulumi.Output[float | None]:
        """Known when all that is awaited is there: the deadline of the update (`time.monotonic`).

        None where nothing is awaited, as where files are written.
        """
        services = [child.resource.id for child in self._of("Service")]

        def deadline(values: list[Any]) -> float | None:
            return None if values[0] or self._update is None else self._update.deadline

        return combined([self.yaml_only(), self._seen, *services], deadline)

    def yaml_only(self) -> pulumi.Output[bool]:
        """Whether objects are only written to files."""
        return pulumi.Output.from_input(self._yaml_only)

    def observed(self) -> pulumi.Output[Observed]:
        """What the update has seen, when it is over."""
        return self._seen

    def waited(self) -> pulumi.Output[LiveObjects]:
        """Live objects as the update has last seen them, by Kubernetes name."""
        return combined([self._seen], lambda values: dict(values[0].objects))

    def _logical(self, manifest: Mapping[str, Any]) -> str:
        """Name of the component and what the object's name has after the service's."""
        metadata = manifest["metadata"]
        # Objects of the cluster or of other namespaces have our namespace before that.
        object_name = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + object_name[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _options(self, manifest: Manifest) -> pulumi.ResourceOptions:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        needed = [
            child.resource
            for other in AFTER.get(kind, ())
            for child in self._of(other)
            if _concerns(child.manifest, manifest)
        ]
        after: Any = needed
        object_options = pulumi.ResourceOptions()
        if kind == "LeaderWorkerSet":
            before = self._sub_group_policies.get(name)
            now = manifest["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY)
            object_options = options.lws_options(
                self._steps[name],
                grouped=bool(before or now),
                same_policy=before is not None and same_policy(before, now),
            )
            if self._update is not None:
                after = self._update.turn(name).apply(lambda _: needed)
        elif kind == "HTTPRoute" and self._update is not None:
            growing = growing_shares(self._plan, stack_shares(self._logical(manifest)))
            if growing:
                after = self._update.when_available(growing).apply(lambda _: needed)
        elif kind == "InferencePool" and self._plan.picker is not None:
            object_options.protect = self._plan.picker.pool.protect
            object_options.retain_on_delete = self._plan.picker.pool.retain
        object_options.depends_on = after or None
        object_options.custom_timeouts = options.timeouts(manifest, self._plan)
        return pulumi.ResourceOptions.merge(self._child_options, object_options)

    def _annotated(self, manifest: Manifest) -> Manifest:
        """The object as it is registered: files get no annotations that only the provider reads."""
        extra = options.await_annotations(manifest, self._plan)
        if not extra or self._yaml_only is True:
            return manifest
        metadata = manifest["metadata"]
        added: Any = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **extra}}
        if isinstance(self._yaml_only, pulumi.Output):
            return {
                **manifest,
                "metadata": self._yaml_only.apply(
                    lambda yaml_only: metadata if yaml_only else added
                ),
            }
        return {**manifest, "metadata": added}

    def _of(self, kind: str) -> list[_Registered]:
        return self._registered.get(kind, [])


def _concerns(other: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether an object belongs to the same serving group as another, or to none."""
    group = other["metadata"]["labels"].get(labels.GROUP_INDEX)
    return group is None or group == manifest["metadata"]["labels"].get(labels.GROUP_INDEX)


def _sub_group_policies(name: str, plan: ServicePlan) -> dict[str, Mapping[str, Any]]:
    """`subGroupPolicy` of existing LeaderWorkerSets, by name: those cannot change in place."""
    return {
        lws_name: lws.template.sub_groups
        for lws_name, lws in (stack_lws_of(name, plan) or {}).items()
        if lws.template is not None and lws.template.sub_groups
    }
