"""Registers a service's objects as typed children, each after the objects that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component import patches
from fusioninfer_pulumi.component.max_unavailable import (
    RollingUpdateOrder,
    changing_roles,
    parallel_operations,
)
from fusioninfer_pulumi.component.outputs import LiveObjects, combined, live_objects
from fusioninfer_pulumi.component.patches import Patch, RegisteredObject, deletion_timeout
from fusioninfer_pulumi.component.resources import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)
from fusioninfer_pulumi.component.run_mode import renders_yaml
from fusioninfer_pulumi.component.state import existing_lws
from fusioninfer_pulumi.component.update_checks import current_sub_group_policies
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.order import Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import LwsStep
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.sub_group_policy import FIELD, same_policy

Manifest = dict[str, Any]

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
    """The children of one component, by kind, and the patches that wait for them."""

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        child_options: pulumi.ResourceOptions,
    ) -> None:
        """Registers nothing yet; `child_options` are those of every child."""
        self._registered: dict[str, list[RegisteredObject]] = {}
        self._lws: dict[str, RegisteredObject] = {}
        self._component = component
        self._name = name
        self._plan = plan
        self._child_options = child_options
        self._yaml_only = renders_yaml(component)
        self._existing = existing_lws(name, plan)
        self._rollout = rollout_plan(plan, parallel_operations(), self._existing)
        self._update_order: RollingUpdateOrder | None = None
        self._sub_group_policies = current_sub_group_policies(name, plan)
        self._patches: dict[str, Patch] | pulumi.Output[dict[str, Patch]] = {}

    def add_all(self, manifests: Sequence[Manifest]) -> None:
        """Registers all objects in apply order, and after the LeaderWorkerSets their patches."""
        lws = {each["metadata"]["name"]: each for each in manifests if _is_lws(each)}
        first = next((at for at, each in enumerate(manifests) if _is_lws(each)), 0)
        for manifest in manifests[:first]:
            self._add(manifest)
        changing = changing_roles(self._name, self._plan, lws)
        if changing and self._yaml_only is not True:
            self._update_order = RollingUpdateOrder(
                self._component, self._name, self._plan, changing, self.yaml_only()
            )
        steps = self._rollout.by_name
        # Files have no order but that of `render`, and depend on nothing.
        for name in lws if self._yaml_only is True else steps:
            self._add(lws[name], steps[name])
        self._wait()
        for manifest in manifests[first + len(lws) :]:
            self._add(manifest)
        if self._plan.wait.level is WaitLevel.SERVING:
            self._wait_for_routing()

    def resources(self) -> list[KubernetesObject]:
        """All objects, without the patches."""
        return [each.resource for made in self._registered.values() for each in made]

    def by_name(self, kind: str) -> dict[str, KubernetesObject]:
        """The objects of a kind by Kubernetes name, in apply order."""
        made = {each.manifest["metadata"]["name"]: each.resource for each in self._of(kind)}
        if kind != "LeaderWorkerSet":
            return made
        # LeaderWorkerSets are registered in the order of the rollout.
        return {each.name: made[each.name] for role in self._plan.roles for each in role.lws}

    def all_ready(self, waited: pulumi.Output[LiveObjects]) -> pulumi.Output[bool]:
        """Known when all that is awaited is there; false where files are written."""
        yaml_only = self.yaml_only()
        services = [each.resource.id for each in self._of("Service")]
        return combined([yaml_only, waited, *services], lambda values: not values[0])

    def yaml_only(self) -> pulumi.Output[bool]:
        """Whether objects are only written to files."""
        return pulumi.Output.from_input(self._yaml_only)

    def waited(self) -> pulumi.Output[LiveObjects]:
        """Objects as their patches last saw them, by Kubernetes name."""
        if isinstance(self._patches, pulumi.Output):
            return self._patches.apply(live_objects)
        return live_objects(self._patches)

    def _add(self, manifest: Manifest, step: LwsStep | None = None) -> None:
        kind = manifest["kind"]
        logical = self._logical(manifest)
        made = _TYPES.get(kind, KubernetesObject)(
            logical, self._annotated(manifest, step), self._options(manifest, step)
        )
        registered = RegisteredObject(logical, manifest, made)
        self._registered.setdefault(kind, []).append(registered)
        if step is not None:
            self._lws[step.name] = registered
            if self._update_order is not None:
                self._update_order.made(step.name, made)

    def _wait(self) -> None:
        def register(yaml_only: bool, rollout: Rollout) -> dict[str, Patch]:  # noqa: FBT001  # by apply
            if yaml_only:
                return {}
            made = patches.patch_lws(rollout, self._lws, self._child_options, self._existing or ())
            if self._plan.wait.level is WaitLevel.SCHEDULED:
                for group in self._of("PodGroup"):
                    made[group.manifest["metadata"]["name"]] = patches.patch_pod_group(
                        rollout, group, self._lws, self._child_options
                    )
            return made

        yaml_only = self._yaml_only
        if self._update_order is None and not isinstance(yaml_only, pulumi.Output):
            self._patches = register(yaml_only, self._rollout)
            return
        order = self._update_order.order if self._update_order is not None else self._rollout
        both: Any = pulumi.Output.all(yaml_only, order)
        self._patches = both.apply(lambda values: register(*values))

    def _wait_for_routing(self) -> None:
        router = self._plan.router
        if router is None or self._yaml_only is True:
            return
        objects = [each for kind in patches.KINDS for each in self._of(kind)]
        picker = [each.resource for each in self._of("Deployment")]

        def register(before: dict[str, Patch]) -> dict[str, Patch]:
            after = [*picker, *before.values()]
            return before | patches.patch_routing(
                self._rollout, router, objects, after, self._child_options
            )

        made = self._patches
        if isinstance(made, pulumi.Output):
            both: Any = pulumi.Output.all(self._yaml_only, made)
            self._patches = both.apply(lambda values: {} if values[0] else register(values[1]))
        else:
            self._patches = register(made)

    def _logical(self, manifest: Mapping[str, Any]) -> str:
        """Name of the component and what the object's name has after the service's."""
        metadata = manifest["metadata"]
        # Objects of the cluster or of other namespaces have our namespace before that.
        own = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + own[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _options(self, manifest: Manifest, step: LwsStep | None) -> pulumi.ResourceOptions:
        kind = manifest["kind"]
        after = [
            each.resource
            for other in AFTER.get(kind, ())
            for each in self._of(other)
            if _concerns(each.manifest, manifest)
        ]
        own, delete = pulumi.ResourceOptions(), deletion_timeout(manifest)
        if step is not None:
            if self._update_order is None:
                after += [self._lws[name].resource for name in step.after if name in self._lws]
            before = self._sub_group_policies.get(step.name)
            now = manifest["spec"]["leaderWorkerTemplate"].get(FIELD)
            own = patches.lws_options(
                step,
                grouped=bool(before or now),
                same_policy=before is not None and same_policy(before, now),
                delete=delete,
            )
        elif kind == "Job" and self._plan.model is not None and self._plan.model.warm_up:
            # Always awaited: the pods would find no model.
            seconds = f"{self._plan.model.warm_up.seconds}s"
            own.custom_timeouts = patches.timeouts(seconds, delete=delete)
        elif kind in patches.AWAITED_BY_PROVIDER:
            own.custom_timeouts = patches.timeouts(self._plan.wait.timeout, delete=delete)
        own.depends_on = after or None
        if step is not None and self._update_order is not None:
            own.depends_on = self._update_order.after(step.name).apply(lambda more: [*after, *more])
        if kind == "Service" and self._plan.wait.level is WaitLevel.SERVING:
            own.depends_on = self._after_patches(after)
        if kind == "InferencePool" and self._plan.router is not None:
            own.protect = self._plan.router.pool.protect
            own.retain_on_delete = self._plan.router.pool.retain
        return pulumi.ResourceOptions.merge(self._child_options, own)

    def _after_patches(self, after: list[KubernetesObject]) -> Any:
        if isinstance(self._patches, pulumi.Output):
            return self._patches.apply(lambda found: [*after, *found.values()])
        return [*after, *self._patches.values()]

    def _annotated(self, manifest: Manifest, step: LwsStep | None) -> Manifest:
        """The object as it is registered: files get no annotations that only the provider reads."""
        extra = patches.await_annotations(manifest, self._plan, step)
        if not extra or self._yaml_only is True:
            return manifest

        def added(metadata: Mapping[str, Any]) -> dict[str, Any]:
            annotations = metadata.get("annotations") or {}
            return {**metadata, "annotations": {**annotations, **extra}}

        metadata: Any = manifest["metadata"]
        if self._yaml_only is False:
            return {**manifest, "metadata": added(metadata)}
        both: Any = pulumi.Output.all(yaml_only=self._yaml_only, metadata=metadata)
        return {
            **manifest,
            "metadata": both.apply(
                lambda v: v["metadata"] if v["yaml_only"] else added(v["metadata"])
            ),
        }

    def _of(self, kind: str) -> list[RegisteredObject]:
        return self._registered.get(kind, [])


def _is_lws(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["kind"] == "LeaderWorkerSet")


def _concerns(other: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether an object belongs to the same serving group as another, or to none."""
    group = other["metadata"]["labels"].get(labels.GROUP_INDEX)
    return group is None or group == manifest["metadata"]["labels"].get(labels.GROUP_INDEX)
