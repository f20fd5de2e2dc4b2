"""Registers a service's objects as typed children, each after the objects that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.component.cluster_access import reads_cluster
from fusioninfer_pulumi.component.kubernetes_objects import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    LiveObjects,
    PodGroup,
    combined,
)
from fusioninfer_pulumi.component.pulumi_sdk import renders_yaml
from fusioninfer_pulumi.component.route_shares import find_growing_shares
from fusioninfer_pulumi.component.stack_state import (
    Observed,
    find_stack_lws,
    read_observed,
    stack_shares,
)
from fusioninfer_pulumi.component.update_run import Update
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.update_order import LwsStep, update_order
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY, is_same_policy

Manifest = dict[str, Any]
Made = TypeVar("Made", bound=KubernetesObject)

#: Kinds of the same service that have to exist before a kind is created. The pool never waits for
#: the endpoint picker, which is Ready only once the pool exists.
AFTER = {
    # The scheduler ignores pods whose PodGroup does not exist yet, and no pod can be created
    # without its ServiceAccount: the sidecars' account is registered before the LeaderWorkerSets.
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
    "InferenceObjective": ("InferencePool",),
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

#: Kinds that the provider must not wait for. It would not wait for most of them anyway, unless the
#: live object has an annotation of an earlier version of this library.
_NEVER_AWAITED = (
    "LeaderWorkerSet",
    "PodGroup",
    "Gateway",
    "InferencePool",
    "InferenceModelRewrite",
    "InferenceObjective",
    "HTTPRoute",
    # It may be bound only when the first pod mounts it.
    "PersistentVolumeClaim",
    # Its endpoints are ready when the pods are, which the update waits for.
    "Service",
)
_TEMPLATE = ("spec.leaderWorkerTemplate",)
# What makes a revision of a LeaderWorkerSet.
_REVISED = (*_TEMPLATE, "spec.networkConfig")
#: The provider's default timeout of a deletion, which it makes in the foreground.
_DEFAULT_SECONDS = 600
#: Added to the pods' grace period: kubelets, finalizers and garbage collection.
_MARGIN_SECONDS = 300


class Children:
    """The children of one component, by kind, and the update that they are part of.

    Attributes:
        yaml_only: Whether objects are only written to files.
        observed: What the update has seen, when it is over.
        waited: Live objects as the update has last seen them, by Kubernetes name.
    """

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Manifest],
        child_options: pulumi.ResourceOptions,
    ) -> None:
        """Register all objects in apply order; `child_options` are those of every child."""
        self._registered: dict[str, list[tuple[Manifest, KubernetesObject]]] = {}
        self._name, self._plan, self._child_options = name, plan, child_options
        self._writes_files = renders_yaml(component)
        self.yaml_only: pulumi.Output[bool] = pulumi.Output.from_input(self._writes_files)
        self._steps = {step.name: step for step in update_order(plan)}
        self._sub_group_policies = _sub_group_policies(name, plan)
        self._update: Update | None = None
        self.observed = pulumi.Output.from_input(Observed())
        if reads_cluster() and self._writes_files is not True:
            self._update = Update(component, name, plan, manifests, self.yaml_only.future)
            self.observed = self._update.result
        elif pulumi.runtime.is_dry_run():
            self.observed = pulumi.Output.from_input(read_observed(name))
        self.waited: pulumi.Output[LiveObjects] = combined(
            [self.observed], lambda values: dict(values[0].objects)
        )
        resource = None
        # Pulumi's SDK records the call stack of every resource, so this loop is not nested deeper.
        for manifest in manifests:
            kind = manifest["kind"]
            make = _TYPES.get(kind, KubernetesObject)
            registered, opts = self._annotated(manifest), self._options(manifest)
            resource = make(self._logical(manifest), registered, opts)
            self._registered.setdefault(kind, []).append((manifest, resource))
            if self._update is not None:
                self._update.registered(kind, manifest["metadata"]["name"], resource)
        if self._update is not None:
            if resource is not None:
                # What depends on the component waits for the URNs of all its objects.
                resource.hold(self.observed)
            self._update.start()

    def of_type(self, kind: type[Made]) -> dict[str, Made]:
        """Return the objects of a type by Kubernetes name, in apply order."""
        resources = self.by_name(kind.__name__).items()
        return {name: resource for name, resource in resources if isinstance(resource, kind)}

    def by_name(self, kind: str) -> dict[str, KubernetesObject]:
        """Return the objects of a kind by Kubernetes name, in apply order."""
        children = self._registered.get(kind, ())
        return {manifest["metadata"]["name"]: resource for manifest, resource in children}

    def deadline(self) -> pulumi.Output[float | None]:
        """Return the update's deadline (`time.monotonic`) when all awaited objects are up.

        None if nothing is awaited, such as when files are written.
        """
        services = [resource.id for resource in self.by_name("Service").values()]

        def deadline(values: list[Any]) -> float | None:
            return None if values[0] or self._update is None else self._update.deadline

        return combined([self.yaml_only, self.observed, *services], deadline)

    def _logical(self, manifest: Mapping[str, Any]) -> str:
        """Return the name of the component and what the object's name has after the service's."""
        metadata = manifest["metadata"]
        # Names of cluster-scoped objects and of objects in other namespaces start with our
        # namespace and a separator.
        object_name = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + object_name[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _options(self, manifest: Manifest) -> pulumi.ResourceOptions:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        group = _group(manifest)
        needed = [
            resource
            for other_kind in AFTER.get(kind, ())
            for other, resource in self._registered.get(other_kind, ())
            if _group(other) in (None, group)
        ]
        after: Any = needed
        object_options = pulumi.ResourceOptions()
        if kind == "LeaderWorkerSet":
            before = self._sub_group_policies.get(name)
            now = manifest["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY)
            object_options = lws_options(
                self._steps[name],
                grouped=bool(before or now),
                is_same_policy=before is not None and is_same_policy(before, now),
            )
            if self._update is not None:
                after = self._update.registration_gate(name).apply(lambda _: needed)
        elif kind == "HTTPRoute" and self._update is not None:
            growing = find_growing_shares(self._plan, stack_shares(self._logical(manifest)))
            if growing:
                available: Any = self._update.wait_for_services(growing)
                after = pulumi.Output.from_input(available).apply(lambda _: needed)
        elif kind == "InferencePool" and self._plan.picker is not None:
            object_options.protect = self._plan.picker.pool.protect
            object_options.retain_on_delete = self._plan.picker.pool.retain
        object_options.depends_on = after or None
        object_options.custom_timeouts = timeouts(manifest, self._plan)
        return pulumi.ResourceOptions.merge(self._child_options, object_options)

    def _annotated(self, manifest: Manifest) -> Manifest:
        """Return the object as it is registered: with annotations that only the provider reads."""
        extra = await_annotations(manifest, self._plan)
        if not extra or self._writes_files is True:
            return manifest
        metadata = manifest["metadata"]
        added = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **extra}}
        if isinstance(self._writes_files, pulumi.Output):
            chosen = self._writes_files.apply(lambda files: metadata if files else added)
            return {**manifest, "metadata": chosen}
        return {**manifest, "metadata": added}


def _group(manifest: Manifest) -> str | None:
    """Return the serving group that an object belongs to, None if it belongs to all."""
    group: str | None = manifest["metadata"]["labels"].get(labels.GROUP_INDEX)
    return group


def _sub_group_policies(name: str, plan: ServicePlan) -> dict[str, Mapping[str, Any]]:
    """`subGroupPolicy` of existing LeaderWorkerSets, by name: those cannot change in place."""
    return {
        lws_name: lws.template.sub_groups
        for lws_name, lws in (find_stack_lws(name, plan) or {}).items()
        if lws.template is not None and lws.template.sub_groups
    }


def await_annotations(manifest: Manifest, plan: ServicePlan) -> dict[str, str]:
    """Annotations of an object that keep the provider from waiting for it."""
    kind = manifest["kind"]
    skips = kind in _NEVER_AWAITED
    if kind == "Deployment":
        skips = not plan.wait.level.awaits_replicas
    return {labels.PULUMI_SKIP_AWAIT: "true"} if skips else {}


def timeouts(manifest: Manifest, plan: ServicePlan) -> pulumi.CustomTimeouts | None:
    """Return how long the provider may take for an object; None for its own limits."""
    kind, delete = manifest["kind"], _deletion_timeout(manifest)
    if kind == "Job" and plan.model is not None and plan.model.warm_up:
        # Always awaited: the pods would find no model.
        text = f"{plan.model.warm_up['activeDeadlineSeconds']}s"
        return pulumi.CustomTimeouts(create=text, update=text, delete=delete)
    if kind == "Deployment":
        text = plan.wait.timeout
        return pulumi.CustomTimeouts(create=text, update=text, delete=delete)
    return pulumi.CustomTimeouts(delete=delete) if delete else None


def lws_options(
    step: LwsStep, *, grouped: bool = False, is_same_policy: bool = False
) -> pulumi.ResourceOptions:
    """Options of a LeaderWorkerSet: what is ignored, and what replaces it.

    `grouped`: it has a `subGroupPolicy`, which LeaderWorkerSet does not update. `is_same_policy`:
    the live one means the same as the new one. Pulumi compares the fields, and would replace the
    LeaderWorkerSet if only one of them sets the default `type` explicitly.
    """
    recreate = step.rollout.strategy is RolloutStrategy.RECREATE
    # The template in the stack's state stays, in spite of the program.
    ignored: list[str] = []
    if step.frozen:
        # Replicas may change all the same, where it runs several.
        ignored += list(_REVISED) if step.whole else ["spec"]
        ignored.append(f'metadata.labels["{labels.REVISION}"]')
    elif is_same_policy:
        ignored += LeaderWorkerSet.IMMUTABLE
    if step.scaled_externally:
        ignored.append("spec.replicas")
    return pulumi.ResourceOptions(
        ignore_changes=ignored or None,
        replace_on_changes=[*LeaderWorkerSet.IMMUTABLE, *(_TEMPLATE if recreate else ())],
        # If the name does not change, the old object must be deleted before the new one is created.
        # Others are replaced only when the service is renamed: then the new one is created first.
        delete_before_replace=(recreate or grouped) or None,
    )


def _deletion_timeout(manifest: Manifest) -> str | None:
    """Return how long the deletion of an object with pods may take, as a duration.

    The longest `terminationGracePeriodSeconds` of its pods and a margin; None where the provider's
    default of 10 minutes is enough.
    """
    spec = manifest.get("spec") or {}
    lws = spec.get("leaderWorkerTemplate") or {}
    pods = spec.get("template"), lws.get("leaderTemplate"), lws.get("workerTemplate")
    graces = [((pod or {}).get("spec") or {}).get("terminationGracePeriodSeconds") for pod in pods]
    longest = max((grace for grace in graces if isinstance(grace, int)), default=0)
    seconds = longest + _MARGIN_SECONDS
    return f"{seconds}s" if seconds > _DEFAULT_SECONDS else None
