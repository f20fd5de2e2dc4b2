"""Registers a service's objects as typed children, each after those that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import WaitLevel
from fusioninfer_pulumi.component import patches as routing_waits
from fusioninfer_pulumi.component import patches as waits
from fusioninfer_pulumi.component.max_unavailable import Pace, changing_roles, workers
from fusioninfer_pulumi.component.outputs import Looks, live, rendering, together
from fusioninfer_pulumi.component.patches import Awaited, Patch, deletion_timeout
from fusioninfer_pulumi.component.resources import (
    Gateway,
    HTTPRoute,
    InferencePool,
    KubernetesObject,
    LeaderWorkerSet,
    PodGroup,
)
from fusioninfer_pulumi.component.running_checks import grouped_sets
from fusioninfer_pulumi.component.state import existing_sets
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.order import Rollout, rollout_plan
from fusioninfer_pulumi.rollout.steps import SetStep
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.sub_group_policy import FIELD, same_policy

Manifest = dict[str, Any]

#: Kinds of the same service that have to exist before one of a kind is created. The pool never
#: waits for the picker, which is Ready only once the pool exists.
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
        given: pulumi.ResourceOptions,
    ) -> None:
        """Registers nothing yet.

        Args:
            component: Their parent.
            name: Its logical name.
            plan: The service.
            given: Options of every child.
        """
        self._registered: dict[str, list[Awaited]] = {}
        self._sets: dict[str, Awaited] = {}
        self._component = component
        self._name = name
        self._plan = plan
        self._given = given
        self._files = rendering(component)
        self._existing = existing_sets(name, plan)
        self._rollout = rollout_plan(plan, workers(), self._existing)
        self._pace: Pace | None = None
        self._grouped = grouped_sets(name, plan)
        self._patches: dict[str, Patch] | pulumi.Output[dict[str, Patch]] = {}

    def add_all(self, manifests: Sequence[Manifest]) -> None:
        """Registers all objects, and after the sets what waits for them.

        Args:
            manifests: The objects of the service, in apply order.
        """
        sets = {each["metadata"]["name"]: each for each in manifests if _is_set(each)}
        first = next((at for at, each in enumerate(manifests) if _is_set(each)), 0)
        for manifest in manifests[:first]:
            self._add(manifest)
        changing = changing_roles(self._name, self._plan, sets)
        if changing and self._files is not True:
            self._pace = Pace(self._component, self._name, self._plan, changing, self.files())
        steps = self._rollout.by_name
        # Files have no order but that of `render`, and depend on nothing.
        for name in sets if self._files is True else steps:
            self._add(sets[name], steps[name])
        self._wait()
        for manifest in manifests[first + len(sets) :]:
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
        # Sets are registered in the order of the rollout.
        return {each.name: made[each.name] for role in self._plan.roles for each in role.sets}

    def last(self, waited: pulumi.Output[Looks]) -> pulumi.Output[bool]:
        """Known when all that is awaited is there; false where files are written."""
        files = self.files()
        services = [each.resource.id for each in self._of("Service")]
        return together([files, waited, *services], lambda seen: not seen[0])

    def files(self) -> pulumi.Output[bool]:
        """Whether objects are only written to files."""
        return pulumi.Output.from_input(self._files)

    def waited(self) -> pulumi.Output[Looks]:
        """Objects as they were when a patch last waited for them, by Kubernetes name."""
        if isinstance(self._patches, pulumi.Output):
            return self._patches.apply(live)
        return live(self._patches)

    def _add(self, manifest: Manifest, step: SetStep | None = None) -> None:
        kind = manifest["kind"]
        logical = self._logical(manifest)
        made = _TYPES.get(kind, KubernetesObject)(
            logical, self._annotated(manifest, step), self._options(manifest, step)
        )
        registered = Awaited(logical, manifest, made)
        self._registered.setdefault(kind, []).append(registered)
        if step is not None:
            self._sets[step.name] = registered
            if self._pace is not None:
                self._pace.made(step.name, made)

    def _wait(self) -> None:
        def register(files: bool, rollout: Rollout) -> dict[str, Patch]:  # noqa: FBT001  # by apply
            if files:
                return {}
            patches = waits.patch_sets(rollout, self._sets, self._given, self._existing or ())
            if self._plan.wait.level is WaitLevel.SCHEDULED:
                for group in self._of("PodGroup"):
                    patches[group.manifest["metadata"]["name"]] = waits.patch_pod_group(
                        rollout, group, self._sets, self._given
                    )
            return patches

        files = self._files
        if self._pace is None and not isinstance(files, pulumi.Output):
            self._patches = register(files, self._rollout)
            return
        order = self._pace.order if self._pace is not None else self._rollout
        both: Any = pulumi.Output.all(files, order)
        self._patches = both.apply(lambda seen: register(*seen))

    def _wait_for_routing(self) -> None:
        router = self._plan.router
        if router is None or self._files is True:
            return
        objects = [each for kind in routing_waits.KINDS for each in self._of(kind)]
        picker = [each.resource for each in self._of("Deployment")]

        def register(patches: dict[str, Patch]) -> dict[str, Patch]:
            after = [*picker, *patches.values()]
            return patches | routing_waits.patch_routing(
                self._rollout, router, objects, after, self._given
            )

        patches, files = self._patches, self._files
        if isinstance(patches, pulumi.Output):
            both: Any = pulumi.Output.all(files, patches)
            self._patches = both.apply(lambda seen: {} if seen[0] else register(seen[1]))
        else:
            self._patches = register(patches)

    def _logical(self, manifest: Mapping[str, Any]) -> str:
        """Name of the component and what the object's name has after the service's."""
        metadata = manifest["metadata"]
        # Objects of the cluster or of other namespaces have our namespace before that.
        own = re.split(r"[.:]", metadata["name"])[-1]
        logical = self._name + own[len(self._plan.service) :]
        if manifest["kind"] == "ReferenceGrant":
            logical += f"-{metadata['namespace']}"
        return logical

    def _options(self, manifest: Manifest, step: SetStep | None) -> pulumi.ResourceOptions:
        kind = manifest["kind"]
        after = [
            each.resource
            for other in AFTER.get(kind, ())
            for each in self._of(other)
            if _concerns(each.manifest, manifest)
        ]
        own, delete = pulumi.ResourceOptions(), deletion_timeout(manifest)
        if step is not None:
            if self._pace is None:
                after += [self._sets[name].resource for name in step.after if name in self._sets]
            before = self._grouped.get(step.name)
            now = manifest["spec"]["leaderWorkerTemplate"].get(FIELD)
            own = waits.set_options(
                step,
                grouped=bool(before or now),
                same_policy=before is not None and same_policy(before, now),
                delete=delete,
            )
        elif kind == "Job" and self._plan.model is not None and self._plan.model.warm_up:
            # Always awaited: the pods would find no model.
            seconds = f"{self._plan.model.warm_up.seconds}s"
            own.custom_timeouts = waits.timeouts(seconds, delete=delete)
        elif kind in waits.AWAITED_BY_PROVIDER:
            own.custom_timeouts = waits.timeouts(self._plan.wait.timeout, delete=delete)
        own.depends_on = after or None
        if step is not None and self._pace is not None:
            own.depends_on = self._pace.after(step.name).apply(lambda more: [*after, *more])
        if kind == "Service" and self._plan.wait.level is WaitLevel.SERVING:
            own.depends_on = self._after_patches(after)
        if kind == "InferencePool" and self._plan.router is not None:
            own.protect = self._plan.router.pool.protect
            own.retain_on_delete = self._plan.router.pool.retain
        return pulumi.ResourceOptions.merge(self._given, own)

    def _after_patches(self, after: list[KubernetesObject]) -> Any:
        if isinstance(self._patches, pulumi.Output):
            return self._patches.apply(lambda found: [*after, *found.values()])
        return [*after, *self._patches.values()]

    def _annotated(self, manifest: Manifest, step: SetStep | None) -> Manifest:
        """The object as it is registered: files get nothing that only the engine reads."""
        extra = waits.own_annotations(manifest, self._plan, step)
        if not extra or self._files is True:
            return manifest

        def added(metadata: Mapping[str, Any]) -> dict[str, Any]:
            given = metadata.get("annotations") or {}
            return {**metadata, "annotations": {**given, **extra}}

        metadata: Any = manifest["metadata"]
        if self._files is False:
            return {**manifest, "metadata": added(metadata)}
        both: Any = pulumi.Output.all(files=self._files, metadata=metadata)
        return {
            **manifest,
            "metadata": both.apply(
                lambda seen: seen["metadata"] if seen["files"] else added(seen["metadata"])
            ),
        }

    def _of(self, kind: str) -> list[Awaited]:
        return self._registered.get(kind, [])


def _is_set(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["kind"] == "LeaderWorkerSet")


def _concerns(other: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether an object is of the same serving group as another, or of none."""
    group = other["metadata"]["labels"].get(labels.GROUP_INDEX)
    return group is None or group == manifest["metadata"]["labels"].get(labels.GROUP_INDEX)
