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
NO_GANG = (
    "not set; pods are scheduled one by one, as in the source system; set schedulerName: volcano "
    "for gang scheduling"
)
_SERVICE_QUEUE_LABEL: Location = ("metadata", "labels", labels.KUEUE_QUEUE)
_TEMPLATES = ("template", "leaderTemplate", "workerTemplate")


def convert_queue(builder: ServiceBuilder) -> bool:
    """Use Kueue's queue label as the service's queue; return whether there is one.

    The label may be on the document or on all its pods. It must not stay on pods, because Kueue
    would treat each pod as a job and never remove its scheduling gates.
    """
    service_queue = builder.get(_SERVICE_QUEUE_LABEL)
    pod_queues = {label: builder.get(label) for label in _list_pod_queue_labels(builder)}
    queue = service_queue if _is_queue(service_queue) else next(iter(pod_queues.values()), None)
    if not _is_queue(queue):
        return False
    # Without a label on the document, all pods must have the same one.
    if queue is not service_queue and any(other != queue for other in pod_queues.values()):
        return False
    report = builder.report
    queue_labels = {_SERVICE_QUEUE_LABEL: service_queue, **pod_queues}
    (label_field, _), *duplicates = [
        (builder.remove(label), value) for label, value in queue_labels.items() if value is not None
    ]
    if builder.get((*SCHEDULING, "queue")) is not None:
        volcano_queue = builder.remove((*SCHEDULING, "queue"))
        report.unsupported(
            volcano_queue, f"conflicts with Kueue's queue {queue}; a service has one queue"
        )
    builder.derive((*SCHEDULING, "queue"), queue, label_field)
    builder.default((*GANG, "backend"), "Kueue", label_field)
    report.translated(
        label_field,
        f"Kueue admits each replica as a whole from the LocalQueue {queue} (gangPolicy.backend: "
        "Kueue)",
    )
    for field, other in duplicates:
        if other != queue:
            report.unsupported(
                field, f"conflicts with the LocalQueue {queue}; a service has one queue"
            )
    return True


def _is_queue(value: Any) -> bool:
    """Return whether a label's value may name a queue; our rules reject other values."""
    return (isinstance(value, str) and bool(value)) or is_output(value)


def _list_pod_queue_labels(builder: ServiceBuilder) -> Iterator[Location]:
    """Yield the location of the queue label in each pod template, even where it is not set."""
    for index, role in enumerate(builder.roles):
        for template in _TEMPLATES:
            if template in role:
                yield ("spec", "roles", index, template, "metadata", "labels", labels.KUEUE_QUEUE)
