"""Registers the objects of a service: in which order, with which options, and what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi

from fusioninfer_pulumi.component import waits
from fusioninfer_pulumi.component.render_mode import rendering
from fusioninfer_pulumi.component.resources import KubernetesObject, LeaderWorkerSet, PodGroup
from fusioninfer_pulumi.component.waits import Awaited, Patch
from fusioninfer_pulumi.plan import ServicePlan
from fusioninfer_pulumi.plan.rollout import SetStep, rollout_plan
from fusioninfer_pulumi.spec.rollout import WaitLevel

Manifest = dict[str, Any]

#: Key of the PodGroup's patch among those of the sets, which are never named so.
_GANG = ""


class Children:
    """The objects of one service.

    Attributes:
        sets: The LeaderWorkerSets by Kubernetes name, in the order of the plan.
        pod_group: The PodGroup, None without a gang.
        service: The Service in front of the serving pods.
    """

    def __init__(
        self,
        component: pulumi.Resource,
        name: str,
        plan: ServicePlan,
        manifests: Sequence[Manifest],
        opts: pulumi.ResourceOptions | None,
    ) -> None:
        """Registers them.

        Args:
            component: Their parent.
            name: Its logical name.
            plan: The service.
            manifests: Its objects, in apply order.
            opts: Options of the component.
        """
        self._name, self._plan = name, plan
        self._files = rendering(component)
        self._rollout = rollout_plan(plan, pulumi.runtime.settings.SETTINGS.parallel or None)
        # Pulumi passes provider, aliases, transforms and protect on to children, not these two.
        self._given = pulumi.ResourceOptions(
            parent=component,
            depends_on=opts.depends_on if opts else None,
            retain_on_delete=opts.retain_on_delete if opts else None,
        )
        self.pod_group: PodGroup | None = None
        self.service: KubernetesObject | None = None
        sets = {each["metadata"]["name"]: each for each in manifests if _is_set(each)}
        others = [each for each in manifests if not _is_set(each)]
        self._group: Awaited | None = None
        for manifest in others:
            if manifest["kind"] == "PodGroup":
                self.pod_group = PodGroup(
                    self._logical(manifest), self._annotated(manifest), self._given
                )
                self._group = Awaited(self._logical(manifest), manifest, self.pod_group)
        self._sets: dict[str, Awaited] = {}
        for step in self._rollout.steps:
            self._sets[step.name] = self._set(step, sets[step.name])
        self.sets = {name: cast("LeaderWorkerSet", self._sets[name].resource) for name in sets}
        self._wait()
        for manifest in others:
            if manifest["kind"] != "PodGroup":
                self.service = self._endpoint(manifest)

    def _logical(self, manifest: Manifest) -> str:
        return self._name + str(manifest["metadata"]["name"])[len(self._plan.service) :]

    def _set(self, step: SetStep, manifest: Manifest) -> Awaited:
        # The scheduler ignores pods whose PodGroup does not exist yet.
        first: list[pulumi.Resource] = [self.pod_group] if self.pod_group is not None else []
        own = pulumi.ResourceOptions(
            depends_on=[*first, *(self._sets[name].resource for name in step.after)],
            replace_on_changes=LeaderWorkerSet.IMMUTABLE,
            # Names are fixed: the old object has to go before the new one comes.
            delete_before_replace=True,
        )
        options = pulumi.ResourceOptions.merge(
            pulumi.ResourceOptions.merge(self._given, own), waits.set_options(step)
        )
        logical = self._logical(manifest)
        resource = LeaderWorkerSet(logical, self._annotated(manifest, step), options)
        return Awaited(logical, manifest, resource)

    def _endpoint(self, manifest: Manifest) -> KubernetesObject:
        """The Service; it waits for its endpoints where the update has to return serving."""
        options = self._given
        if self._plan.wait.level is WaitLevel.SERVING:
            patches = self._patches
            after: Any = (
                patches.apply(lambda found: list(found.values()))
                if isinstance(patches, pulumi.Output)
                else list(patches.values())
            )
            timeout = self._plan.wait.timeout
            timeouts = pulumi.CustomTimeouts(create=timeout, update=timeout)
            options = pulumi.ResourceOptions.merge(
                options, pulumi.ResourceOptions(depends_on=after, custom_timeouts=timeouts)
            )
        return KubernetesObject(self._logical(manifest), self._annotated(manifest), options)

    def _wait(self) -> None:
        def register(files: bool) -> dict[str, Patch]:  # noqa: FBT001  # called by apply
            if files:
                return {}
            patches = waits.patch_sets(self._rollout, self._sets, self._given)
            if self._group is not None and self._plan.wait.level is WaitLevel.SCHEDULED:
                patches[_GANG] = waits.patch_pod_group(
                    self._rollout, self._group, self._sets, self._given
                )
            return patches

        self._patches: Any = (
            self._files.apply(register)
            if isinstance(self._files, pulumi.Output)
            else register(self._files)
        )

    def _annotated(self, manifest: Manifest, step: SetStep | None = None) -> Manifest:
        """The object as it is registered: files get nothing that only the engine reads."""
        extra = waits.own_annotations(manifest["kind"], self._plan.wait.level, step)
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

    def live(self) -> pulumi.Output[dict[str, Any]]:
        """Sets and PodGroup as they were when an update looked at them, and when it last waited."""

        def seen(resource: KubernetesObject) -> dict[str, Any]:
            return {"metadata": resource.metadata, "status": resource.status}

        patches: Any = self._patches
        waited = pulumi.Output.from_input(patches).apply(
            lambda found: {name: seen(patch) for name, patch in found.items()}
        )
        group = seen(self.pod_group) if self.pod_group is not None else None
        read: Any = {
            "sets": {name: seen(each) for name, each in self.sets.items()},
            "group": group,
            "waited": waited,
            "scheduled": waited.apply(lambda found: found.get(_GANG)),
        }
        return cast("pulumi.Output[dict[str, Any]]", pulumi.Output.from_input(read))


def _is_set(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest["kind"] == "LeaderWorkerSet")


def newest(*seen: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Which of several looks at one object came last.

    A resource that did not change keeps what it saw when it was made; the version of an object
    grows with every write.
    """

    def version(look: Mapping[str, Any]) -> int:
        text = str((look.get("metadata") or {}).get("resourceVersion") or "")
        return int(text) if text.isdecimal() else -1

    looks = [look for look in seen if look]
    return max(looks, key=version) if looks else None
