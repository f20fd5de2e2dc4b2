"""How objects are registered: what the provider waits for, ignores and replaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from fusioninfer_pulumi.api.rollout import RolloutStrategy
from fusioninfer_pulumi.component.resources import LeaderWorkerSet
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.order import LwsStep

Manifest = Mapping[str, Any]

#: Kinds that the provider would not wait for anyway, unless the live object has an annotation of an
#: earlier version of this library, and claims, which are bound when the first pod mounts them.
_NEVER_AWAITED = (
    "LeaderWorkerSet",
    "PodGroup",
    "Gateway",
    "InferencePool",
    "InferenceModelRewrite",
    "HTTPRoute",
    "PersistentVolumeClaim",
    # Its endpoints are ready when the pods are, which the update waits for.
    "Service",
)
_TEMPLATE = ("spec.leaderWorkerTemplate",)
# What makes a revision of a LeaderWorkerSet.
_REVISED = (*_TEMPLATE, "spec.networkConfig")
#: The provider's default timeout of a deletion, which it makes in the foreground.
_DEFAULT_SECONDS = 600
#: Beside the time that pods have to end: kubelets, finalizers and garbage collection.
_MARGIN_SECONDS = 300


def await_annotations(manifest: Manifest, plan: ServicePlan) -> dict[str, str]:
    """Annotations of an object that keep the provider from waiting for it."""
    kind, level = manifest["kind"], plan.wait.level
    awaited = kind not in _NEVER_AWAITED
    if kind == "Deployment":
        awaited = level.awaits_replicas
    return {} if awaited else {labels.PULUMI_SKIP_AWAIT: "true"}


def timeouts(manifest: Manifest, plan: ServicePlan) -> pulumi.CustomTimeouts | None:
    """How long the provider may take for an object; None for its own limits."""
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
    step: LwsStep, *, grouped: bool = False, same_policy: bool = False
) -> pulumi.ResourceOptions:
    """Options of a LeaderWorkerSet: what is ignored, and what replaces it.

    `grouped`: it has a `subGroupPolicy`, which LeaderWorkerSet does not update. `same_policy`: the
    live one means the same as the new one. Pulumi compares how they are written, and would replace
    the LeaderWorkerSet for a type that is written out.
    """
    recreate = step.rollout.strategy is RolloutStrategy.RECREATE
    # The template in the stack's state stays, in spite of the program.
    ignored: list[str] = []
    if step.frozen:
        # Replicas may change all the same, where it runs several.
        ignored += list(_REVISED) if step.whole else ["spec"]
        ignored.append(f'metadata.labels["{labels.REVISION}"]')
    elif same_policy:
        ignored += LeaderWorkerSet.IMMUTABLE
    if step.scaled_externally:
        ignored.append("spec.replicas")
    return pulumi.ResourceOptions(
        ignore_changes=ignored or None,
        replace_on_changes=[*LeaderWorkerSet.IMMUTABLE, *(_TEMPLATE if recreate else ())],
        # Where the name stays, the old object has to go before the new one comes. One without
        # these fields is replaced when its service is renamed: then the new one comes first.
        delete_before_replace=(recreate or grouped) or None,
    )


def _deletion_timeout(manifest: Manifest) -> str | None:
    """How long the deletion of an object with pods may take, as a duration.

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
