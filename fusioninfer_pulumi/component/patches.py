"""Resource options and patches by which Pulumi waits for LeaderWorkerSets and routing objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import RolloutStrategy, WaitLevel
from fusioninfer_pulumi.component.resources import KubernetesObject, LeaderWorkerSet
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.order import Rollout
from fusioninfer_pulumi.rollout.steps import LwsStep
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.service_plan import ServicePlan

Manifest = Mapping[str, Any]

_FORCE = {labels.PULUMI_PATCH_FORCE: "true"}
_SKIP = {labels.PULUMI_SKIP_AWAIT: "true"}
#: Kinds that the provider waits for by itself, for ten minutes unless a timeout is given.
AWAITED_BY_PROVIDER = ("Deployment", "Service")
#: Kinds whose objects never wait; their patches do.
AWAITED_BY_PATCH = ("PodGroup", "Gateway", "InferencePool", "HTTPRoute")
_TEMPLATE = ("spec.leaderWorkerTemplate",)
# What makes a revision of a set.
_REVISED = (*_TEMPLATE, "spec.networkConfig")
# The state of the object before the patch does not count: the provider may still hold it, and the
# stack's state would keep it.
PATCHED = f"jsonpath={{.metadata.annotations['{labels.PULUMI_PATCH_FORCE}']}}"
AVAILABLE = json.dumps(["condition=Available", PATCHED])
# The status has no count of ready replicas as long as there is none.
SOME_READY = json.dumps(["jsonpath={.status.readyReplicas}", PATCHED])
SCHEDULED = json.dumps(["jsonpath={.status.phase}=Running", PATCHED])

#: Kinds whose conditions a gateway's controller writes.
KINDS = ("Gateway", "InferencePool", "HTTPRoute")

# No `>=`, because the provider takes every single `=` for the end of the path; and no blanks around
# `&&`, because its parser takes none before a third term.
_CURRENT = "!(@.observedGeneration < $.metadata.generation)"
_ACCEPTED = f'@.conditions[?@.type=="Accepted"&&@.status=="True"&&{_CURRENT}]'
_RESOLVED = f'@.conditions[?@.type=="ResolvedRefs"&&@.status=="True"&&{_CURRENT}]'

#: The provider's default timeout of a deletion, which it makes in the foreground.
_DEFAULT_SECONDS = 600
#: Beside the time that pods have to end: kubelets, finalizers and garbage collection.
_MARGIN_SECONDS = 300


class Patch(KubernetesObject):
    """Annotations that are added to an object of another resource, and awaited."""

    def __init__(
        self,
        name: str,
        manifest: Manifest,
        annotations: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Registers the patch of an object."""
        identity = {key: manifest["metadata"][key] for key in ("name", "namespace")}
        super().__init__(
            name,
            {
                "apiVersion": manifest["apiVersion"],
                "kind": manifest["kind"],
                "metadata": {**identity, "annotations": {**annotations, **_FORCE}},
            },
            opts,
            patch=True,
        )


@dataclass(frozen=True)
class RegisteredObject:
    """An object of the service with its resource and logical name."""

    logical: str
    manifest: Manifest
    resource: KubernetesObject


def timeouts(
    create: str, update: str | None = None, delete: str | None = None
) -> pulumi.CustomTimeouts:
    """How long each operation may take; an update as long as a creation unless given."""
    return pulumi.CustomTimeouts(create=create, update=update or create, delete=delete)


def lws_options(
    step: LwsStep,
    *,
    grouped: bool = False,
    same_policy: bool = False,
    delete: str | None = None,
) -> pulumi.ResourceOptions:
    """Options of a LeaderWorkerSet: timeouts, what is ignored, and what replaces it.

    `grouped`: it has a `subGroupPolicy`, which LeaderWorkerSet does not update. `same_policy`: the
    live one means the same as the new one. Pulumi compares how they are written, and would replace
    the LeaderWorkerSet for a type that is written out.
    """
    recreate = _recreates(step)
    # The template in the stack's state stays, whatever the program says.
    ignored: list[str] = []
    if step.frozen:
        # Replicas may change all the same, where a set runs several.
        ignored += list(_REVISED) if step.whole else ["spec"]
        ignored.append(f'metadata.labels["{labels.REVISION}"]')
    elif same_policy:
        ignored += LeaderWorkerSet.IMMUTABLE
    if step.scaled_externally:
        ignored.append("spec.replicas")
    return pulumi.ResourceOptions(
        custom_timeouts=pulumi.CustomTimeouts(update=step.timeout, delete=delete),
        ignore_changes=ignored or None,
        replace_on_changes=[*LeaderWorkerSet.IMMUTABLE, *(_TEMPLATE if recreate else ())],
        # Where the name stays, the old object has to go before the new one comes. A set without
        # these fields is replaced when its service is renamed: then the new one comes first.
        delete_before_replace=(recreate or grouped) or None,
    )


def await_annotations(
    manifest: Manifest, plan: ServicePlan, step: LwsStep | None = None
) -> dict[str, str]:
    """Annotations of the object itself that keep the provider from waiting for it."""
    kind, level = manifest["kind"], plan.wait.level
    if kind == "LeaderWorkerSet":
        at_once = step is not None and step.rollout.strategy is RolloutStrategy.ALL_AT_ONCE
        return dict(_SKIP) if at_once else {}
    if kind == "PersistentVolumeClaim":
        # Where its class waits for a pod, it is bound when the first one mounts it.
        return dict(_SKIP)
    if kind in AWAITED_BY_PATCH:
        # They precede what they would wait for: pods, a route. At every level, because what a
        # patch left on the live object stays until after it has been updated.
        return dict(_SKIP)
    if kind == "Service":
        # The provider would wait for its endpoints; that of a picker is as good as the picker.
        awaited = level is WaitLevel.SERVING and plan.router is None
        return {} if awaited else dict(_SKIP)
    if kind == "Deployment":
        return {} if level.awaits_replicas else dict(_SKIP)
    return {}


def patch_lws(
    rollout: Rollout,
    lws: Mapping[str, RegisteredObject],
    child_options: pulumi.ResourceOptions,
    existing: Collection[str] = (),
) -> dict[str, Patch]:
    """Registers the patches of all LeaderWorkerSets that need one, by Kubernetes name."""
    barrier = [lws[name].resource for name in rollout.barrier]
    patches = {}
    for step in rollout.steps:
        if step.name not in rollout.patched:
            continue
        target = lws[step.name]
        annotations = {labels.PULUMI_WAIT_FOR: SOME_READY if step.partial else AVAILABLE}
        if not rollout.awaited:
            annotations.update(_SKIP)
        if not step.paced:
            # The set does not wait, so the patch has to be touched by each change of it.
            annotations[labels.REVISION] = target.manifest["metadata"]["labels"][labels.REVISION]
        patches[step.name] = Patch(
            f"{target.logical}-wait",
            target.manifest,
            annotations,
            patch_options(
                rollout,
                target,
                [target.resource, *barrier],
                child_options,
                frozen=step.frozen,
                create=step.timeout if step.name in existing and _recreates(step) else None,
                update=None if step.paced else step.timeout,
            ),
        )
    return patches


def patch_pod_group(
    rollout: Rollout,
    group: RegisteredObject,
    lws: Mapping[str, RegisteredObject],
    child_options: pulumi.ResourceOptions,
) -> Patch:
    """Registers the patch that waits until the scheduler has placed the gang.

    It waits again when the gang's minimum changes.
    """
    minimum = json.dumps(group.manifest["spec"]["minMember"])
    after = [group.resource, *(lws[name].resource for name in rollout.barrier)]
    return Patch(
        f"{group.logical}-scheduled",
        group.manifest,
        {labels.PULUMI_WAIT_FOR: SCHEDULED, labels.MIN_MEMBER: minimum},
        patch_options(rollout, group, after, child_options),
    )


def patch_options(
    rollout: Rollout,
    target: RegisteredObject,
    after: list[KubernetesObject],
    child_options: pulumi.ResourceOptions,
    *,
    frozen: bool = False,
    create: str | None = None,
    update: str | None = None,
) -> pulumi.ResourceOptions:
    """Options of a patch: what it waits for, and a life that ends with its object.

    `frozen`: the object keeps what it has. `create` and `update` are timeouts, by default that of
    the rollout.
    """
    return pulumi.ResourceOptions.merge(
        child_options,
        pulumi.ResourceOptions(
            depends_on=after,
            custom_timeouts=timeouts(
                create or rollout.wait_timeout, update or rollout.wait_timeout
            ),
            ignore_changes=[f'metadata.annotations["{labels.REVISION}"]'] if frozen else None,
            # A patch shows the whole live object, and forgets which of it the set keeps secret.
            additional_secret_outputs=["spec"],
            # What a patch added goes with its object, and has to be added to the next one.
            deleted_with=target.resource,
            replace_with=[target.resource],
            delete_before_replace=True,
        ),
    )


def conditions(kind: str, router: RouterPlan) -> list[str]:
    """What the provider waits for, in its own syntax.

    For a Gateway that it is accepted and programmed; for a route and a pool that each Gateway of
    the route has accepted it and resolved its references. Only conditions of the current generation
    count.
    """
    if kind == "Gateway":
        return ["condition=Accepted", "condition=Programmed"]
    parents = dict.fromkeys(_parents(kind, router)) or {"": None}
    return [
        f"jsonpath={{.status.parents[?{parent}{_ACCEPTED}&&{_RESOLVED}]}}" for parent in parents
    ]


def patch_routing(
    rollout: Rollout,
    router: RouterPlan,
    objects: Sequence[RegisteredObject],
    after: Sequence[KubernetesObject],
    child_options: pulumi.ResourceOptions,
) -> dict[str, Patch]:
    """Registers the patches of a router's objects, by Kubernetes name.

    None without a route, for which no gateway would write conditions. They come after `after`, so
    that they delay nothing.
    """
    if router.route is None:
        return {}
    # A pool gets conditions only once a route leads to it; a Gateway's address may wait for one
    # too.
    before = [*after, *(each.resource for each in objects)]
    return {
        target.manifest["metadata"]["name"]: Patch(
            f"{target.logical}-wait",
            target.manifest,
            {
                labels.PULUMI_WAIT_FOR: json.dumps(
                    [*conditions(target.manifest["kind"], router), PATCHED]
                ),
                # The object itself does not wait, so each change of it has to touch the patch.
                labels.GENERATION: target.resource.metadata.apply(_generation),
            },
            patch_options(rollout, target, [target.resource, *before], child_options),
        )
        for target in objects
    }


def deletion_timeout(manifest: Mapping[str, Any]) -> str | None:
    """How long the deletion of an object with pods may take, as a duration.

    The longest `terminationGracePeriodSeconds` of its pods and a margin; None where the provider's
    default of 10 minutes is enough.
    """
    graces = [_grace(each) for each in _templates(manifest.get("spec") or {})]
    seconds = max(graces, default=0) + _MARGIN_SECONDS
    return f"{seconds}s" if seconds > _DEFAULT_SECONDS else None


def _recreates(step: LwsStep) -> bool:
    """Whether a change replaces a LeaderWorkerSet, so that its patch is created again too."""
    return step.rollout.strategy is RolloutStrategy.RECREATE


def _parents(kind: str, router: RouterPlan) -> Iterator[str]:
    for parent in router.parents:
        named = f'@.parentRef.name=="{parent.name}"&&'
        if kind == "HTTPRoute" and parent.section is not None:
            named += f'@.parentRef.sectionName=="{parent.section}"&&'
        yield named


def _generation(metadata: Mapping[str, Any] | None) -> str:
    return str(int((metadata or {}).get("generation") or 0))


def _templates(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    inside = spec.get("leaderWorkerTemplate") or {}
    for holder, key in (
        (spec, "template"),
        (inside, "leaderTemplate"),
        (inside, "workerTemplate"),
    ):
        yield holder.get(key) or {}


def _grace(template: Mapping[str, Any]) -> int:
    seconds = (template.get("spec") or {}).get("terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) else 0
