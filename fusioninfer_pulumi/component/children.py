"""Registers a service's objects as typed children, in the order of their dependencies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pulumi

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.component.cluster_access import is_pulumi_update
from fusioninfer_pulumi.component.kubernetes_objects import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    LiveObjects,
    PodGroup,
    combine,
)
from fusioninfer_pulumi.component.pulumi_sdk import is_render_only
from fusioninfer_pulumi.component.route_shares import find_growing_shares
from fusioninfer_pulumi.component.stack_state import Observed, get_stack_state, read_observed
from fusioninfer_pulumi.component.update_run import Update
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.kube.object_metadata import Manifest, lookup
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.stack_lws import StackLws
from fusioninfer_pulumi.rollout.update_order import LwsStep, order_update
from fusioninfer_pulumi.topology.leader_worker_set import SUB_GROUP_POLICY, is_same_policy

Child = TypeVar("Child", bound=KubernetesObject)

#: The kinds that each kind depends on, in the same service. The pool does not depend on the
#: endpoint picker, which is ready only after the pool exists.
DEPENDENCIES = {
    # The scheduler ignores pods whose PodGroup does not exist yet, pods cannot be created without
    # their ServiceAccount, the Job fills the cache that pods read, and the DaemonSets pull images.
    "LeaderWorkerSet": (
        "PodGroup",
        "ServiceAccount",
        "RoleBinding",
        "ResourceClaimTemplate",
        "PersistentVolumeClaim",
        "Job",
        "DaemonSet",
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

#: Kinds that Pulumi's Kubernetes provider must not await. It would await some of them by default,
#: and others because of annotations from an earlier version of this library.
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
    # Its endpoints are the pods, for which the update itself waits.
    "Service",
)
_TEMPLATE = ("spec.leaderWorkerTemplate",)
# Fields whose change creates a new revision of a LeaderWorkerSet.
_REVISION_FIELDS = (*_TEMPLATE, "spec.networkConfig")
#: The provider's default timeout for a deletion, which is complete once the object's pods are gone.
_DEFAULT_DELETION_SECONDS = 600
#: Time for kubelets, finalizers and garbage collection after the pods' grace period.
_DELETION_MARGIN_SECONDS = 300


class Children:
    """The children of one component, and the update that registers them.

    Attributes:
        is_render_only: Whether the provider only renders the objects as YAML.
        observed: Live state at the end of the update, known when the update has ended. In a
            preview, the live state at the end of the last update.
        observed_objects: `observed.objects`: the live objects by Kubernetes name.
    """

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Manifest],
        existing: Mapping[str, StackLws] | None,
        child_options: pulumi.ResourceOptions,
    ) -> None:
        """Register all objects in apply order, with `child_options` for each.

        `existing`: the LeaderWorkerSets in the stack's state, by their planned names; None if the
        state cannot be read.
        """
        self._registered: dict[str, list[tuple[Manifest, KubernetesObject]]] = {}
        self._name, self._plan, self._child_options = name, plan, child_options
        self._render_only_input = is_render_only(component)
        self.is_render_only: pulumi.Output[bool] = pulumi.Output.from_input(self._render_only_input)
        self._steps = {step.name: step for step in order_update(plan)}
        self._existing = existing or {}
        self._update: Update | None = None
        self.observed = pulumi.Output.from_input(Observed())
        if is_pulumi_update() and self._render_only_input is not True:
            self._update = Update(
                component, name, plan, manifests, existing, self.is_render_only.future
            )
            self.observed = self._update.result
        elif pulumi.runtime.is_dry_run():
            self.observed = pulumi.Output.from_input(read_observed(name))
        self.observed_objects: pulumi.Output[LiveObjects] = combine(
            [self.observed], lambda values: dict(values[0].objects)
        )
        resource = None
        # This loop is not a function, because Pulumi's SDK records the call stack of each resource.
        for manifest in manifests:
            kind = manifest["kind"]
            resource_type = _TYPES.get(kind, KubernetesObject)
            annotated, opts = self._add_await_annotation(manifest), self._build_options(manifest)
            resource = resource_type(self._format_logical_name(manifest), annotated, opts)
            self._registered.setdefault(kind, []).append((manifest, resource))
            if self._update is not None:
                self._update.add_resource(kind, manifest["metadata"]["name"], resource)
        if self._update is not None:
            if resource is not None:
                # Dependents of the component wait for the URNs of all its objects. Holding the
                # last URN makes them wait for the end of the update.
                resource.hold(self.observed)
            self._update.start()

    def find_by_type(self, kind: type[Child]) -> dict[str, Child]:
        """Return the objects of a resource class by Kubernetes name, in apply order."""
        resources = self.find_by_kind(kind.__name__).items()
        return {name: resource for name, resource in resources if isinstance(resource, kind)}

    def find_by_kind(self, kind: str) -> dict[str, KubernetesObject]:
        """Return the objects of a kind by Kubernetes name, in apply order."""
        children = self._registered.get(kind, ())
        return {manifest["metadata"]["name"]: resource for manifest, resource in children}

    def get_deadline(self) -> pulumi.Output[float | None]:
        """Return the update's deadline (`time.monotonic`), known when the update has ended.

        None if the program does not wait: in previews, and if the provider only renders YAML.
        """
        # The endpoint can respond only once the Services are registered.
        service_ids = [resource.id for resource in self.find_by_kind("Service").values()]

        def select_deadline(values: list[Any]) -> float | None:
            render_only, *_ = values
            return None if render_only or self._update is None else self._update.deadline

        return combine([self.is_render_only, self.observed, *service_ids], select_deadline)

    def _format_logical_name(self, manifest: Mapping[str, Any]) -> str:
        """Return the object's name with the component's name in place of the service's."""
        metadata = manifest["metadata"]
        # Names of cluster-scoped objects and of objects in other namespaces have a prefix with a
        # namespace, which ends in a dot or colon.
        object_name = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + object_name[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _build_options(self, manifest: Manifest) -> pulumi.ResourceOptions:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        group = _get_group(manifest)
        dependencies = [
            dependency
            for other_kind in DEPENDENCIES.get(kind, ())
            for other_manifest, dependency in self._registered.get(other_kind, ())
            if _get_group(other_manifest) in (None, group)
        ]
        depends_on: Any = dependencies
        object_options = pulumi.ResourceOptions()
        if kind == "LeaderWorkerSet":
            existing = self._existing.get(name)
            old_policy = existing.spec.sub_group_policy if existing and existing.spec else None
            new_policy = manifest["spec"]["leaderWorkerTemplate"].get(SUB_GROUP_POLICY)
            object_options = build_lws_options(self._steps[name], old_policy, new_policy)
            if self._update is not None:
                gate = self._update.create_registration_gate(name)
                depends_on = gate.apply(lambda _: dependencies)
        elif kind == "HTTPRoute" and self._update is not None:
            shares_before = get_stack_state().shares.get(self._format_logical_name(manifest))
            growing = find_growing_shares(self._plan, shares_before)
            if growing:
                available: Any = self._update.wait_for_services(growing)
                depends_on = pulumi.Output.from_input(available).apply(lambda _: dependencies)
        elif kind == "InferencePool" and self._plan.picker is not None:
            object_options.protect = self._plan.picker.pool.args.protect
            object_options.retain_on_delete = self._plan.picker.pool.args.retain_on_delete
        object_options.depends_on = depends_on or None
        object_options.custom_timeouts = build_timeouts(manifest, self._plan)
        return pulumi.ResourceOptions.merge(self._child_options, object_options)

    def _add_await_annotation(self, manifest: Manifest) -> Manifest:
        """Add `skipAwait` if the provider must not wait for the object.

        Objects that are only rendered as YAML do not get the annotation.
        """
        kind, metadata = manifest["kind"], manifest["metadata"]
        skips_await = kind in _NEVER_AWAITED
        if kind == "Deployment":
            skips_await = not self._plan.wait.level.awaits_replicas
        if not skips_await or self._render_only_input is True:
            return manifest
        annotations = {**(metadata.get("annotations") or {}), labels.PULUMI_SKIP_AWAIT: "true"}
        annotated = {**metadata, "annotations": annotations}
        if isinstance(self._render_only_input, pulumi.Output):
            chosen = self._render_only_input.apply(
                lambda render_only: metadata if render_only else annotated
            )
            return {**manifest, "metadata": chosen}
        return {**manifest, "metadata": annotated}


def _get_group(manifest: Manifest) -> str | None:
    """Return the serving group of an object, or None if it belongs to all groups."""
    group: str | None = manifest["metadata"]["labels"].get(labels.GROUP_INDEX)
    return group


def build_timeouts(manifest: Manifest, plan: ServicePlan) -> pulumi.CustomTimeouts | None:
    """Return the provider's timeouts for an object, or None if the defaults apply."""
    kind, delete = manifest["kind"], _compute_deletion_timeout(manifest)
    timeout = plan.wait.timeout if kind in ("Deployment", "DaemonSet") else None
    if kind == "Job" and plan.model.warm_up:
        # The update always waits for the Job, because pods need the model.
        timeout = f"{plan.model.warm_up['activeDeadlineSeconds']}s"
    if timeout is None and delete is None:
        return None
    return pulumi.CustomTimeouts(create=timeout, update=timeout, delete=delete)


def build_lws_options(
    step: LwsStep, old_policy: Any = None, new_policy: Any = None
) -> pulumi.ResourceOptions:
    """Return a LeaderWorkerSet's options: which changes are ignored, and which replace it.

    The policies are the `subGroupPolicy`, which is immutable, in the stack's state and in the plan.
    """
    recreate = step.rollout.strategy is RolloutStrategy.RECREATE
    ignored: list[str] = []
    if step.is_frozen:
        # The pod template stays as it is in the stack's state. With layout PerRole, the number of
        # replicas may still change.
        ignored += list(_REVISION_FIELDS) if step.is_per_role else ["spec"]
        ignored.append(f'metadata.labels["{labels.REVISION}"]')
    elif old_policy and is_same_policy(old_policy, new_policy):
        # Pulumi compares fields, and would replace the LeaderWorkerSet if only one of the policies
        # sets the default type explicitly.
        ignored += LeaderWorkerSet.IMMUTABLE
    if step.is_autoscaled:
        ignored.append("spec.replicas")
    return pulumi.ResourceOptions(
        ignore_changes=ignored or None,
        replace_on_changes=[*LeaderWorkerSet.IMMUTABLE, *(_TEMPLATE if recreate else ())],
        # These replacements keep the name, so the old object must be deleted first. All other
        # replacements have a new name; Pulumi creates the new object first.
        delete_before_replace=bool(recreate or old_policy or new_policy) or None,
    )


def _compute_deletion_timeout(manifest: Manifest) -> str | None:
    """Return the timeout for deleting an object with pods, as a duration.

    The timeout is the longest `terminationGracePeriodSeconds` of the pods plus a margin, or None if
    the provider's default of 10 minutes is enough.
    """
    spec = manifest.get("spec") or {}
    lws = spec.get("leaderWorkerTemplate") or {}
    pods = (spec.get("template"), lws.get("leaderTemplate"), lws.get("workerTemplate"))
    grace_periods = [lookup(pod, "spec", "terminationGracePeriodSeconds") for pod in pods]
    longest = max((grace for grace in grace_periods if isinstance(grace, int)), default=0)
    seconds = longest + _DELETION_MARGIN_SECONDS
    return f"{seconds}s" if seconds > _DEFAULT_DELETION_SECONDS else None
