"""Checks of Kueue's own label of a queue, which is the library's to write."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.build import BuiltService
from fusioninfer_pulumi.topology.role import RolePlan

KUEUE_LABEL = Rule("kueue-label")
_KEY = labels.KUEUE_QUEUE


def kueue_label_findings(built: BuiltService) -> Iterator[Finding]:
    """Yields findings of the label on the service, which all its objects get, and on its pods."""
    of_service = _KEY in built.args.labels
    if of_service:
        yield warning(
            KUEUE_LABEL,
            ("metadata", "labels", _KEY),
            "all objects get it, and replicas wait in a queue that the plan does not know; set "
            "schedulingStrategy.queue and gangPolicy.backend: Kueue instead",
        )
    is_queued = of_service or built.plan.shape.local_queue is not None
    message = (
        "keeps the pods from starting, while Kueue counts them as admitted: it labels pods of a "
        "LeaderWorkerSet itself; remove it"
        if is_queued
        else "keeps the pods of a LeaderWorkerSet from starting; remove it, and set "
        "schedulingStrategy.queue and gangPolicy.backend: Kueue to queue the service"
    )
    for at in (place for role in built.plan.roles for place in _places(built, role)):
        yield error(KUEUE_LABEL, at, message)


def _places(built: BuiltService, role: RolePlan) -> Iterator[Location]:
    """Where users wrote the label for the pods of a role."""
    if _KEY in built.args.pod_labels:
        yield ("podLabels", _KEY)
    elif _KEY in role.args.pod_labels:
        yield ("roles", role.position, "podLabels", _KEY)
    else:
        for pod in role.pods.written:
            if _KEY in ((pod.written.get("metadata") or {}).get("labels") or {}):
                yield (*pod.path, "metadata", "labels", _KEY)
