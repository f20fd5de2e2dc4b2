"""The gang backend of converted services: none, Volcano or Kueue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_pulumi.plugins.importers import Location, is_output, labels

VOLCANO = "volcano"
SCHEDULING: Location = ("spec", "schedulingStrategy")
GANG: Location = (*SCHEDULING, "gangPolicy")
GANG_MODE: Location = (*GANG, "mode")
PLACED_ALONE = (
    "not set: pods are placed one by one, as the other system does; schedulerName: volcano places "
    "them together"
)
_SERVICE: Location = ("metadata", "labels", labels.KUEUE_QUEUE)
_TEMPLATES = ("template", "leaderTemplate", "workerTemplate")


def convert_queue(builder: ServiceBuilder) -> bool:
    """Use Kueue's queue label as the service's queue; return whether there is one.

    The label may be on the document or on all its pods. It must not stay on pods, because Kueue
    would treat each pod as a job and never remove its scheduling gates.
    """
    of_service = builder.get(_SERVICE)
    of_pods = {place: builder.get(place) for place in _pods(builder)}
    queue = of_service if _is_queue(of_service) else next(iter(of_pods.values()), None)
    if not _is_queue(queue):
        return False
    if queue is not of_service and any(other != queue for other in of_pods.values()):
        return False
    report = builder.report
    named = {_SERVICE: of_service, **of_pods}
    label, *others = [
        (builder.remove(place), value) for place, value in named.items() if value is not None
    ]
    if builder.get((*SCHEDULING, "queue")) is not None:
        volcanos = builder.remove((*SCHEDULING, "queue"))
        report.unsupported(
            volcanos, f"conflicts with Kueue's queue {queue}; a service has one queue"
        )
    builder.derive((*SCHEDULING, "queue"), queue, label[0])
    builder.default((*GANG, "backend"), "Kueue", label[0])
    report.translated(
        label[0],
        f"Kueue admits each replica as a whole from the LocalQueue {queue} (gangPolicy.backend: "
        "Kueue)",
    )
    for field, other in others:
        if other != queue:
            report.unsupported(
                field, f"conflicts with the LocalQueue {queue}; a service has one queue"
            )
    return True


def _is_queue(value: Any) -> bool:
    """Return whether a label may be the name of a queue; our rules reject other values."""
    return (isinstance(value, str) and bool(value)) or is_output(value)


def _pods(builder: ServiceBuilder) -> Iterator[Location]:
    """Yield the location of the label in each pod template of the service."""
    for index, role in enumerate(builder.roles):
        for template in _TEMPLATES:
            if template in role:
                yield ("spec", "roles", index, template, "metadata", "labels", labels.KUEUE_QUEUE)
