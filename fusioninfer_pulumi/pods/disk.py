"""Whether the node's disk that a pod may use holds the model that it downloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context, Pod

_DISK = "ephemeral-storage"


def disk_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Refuses limits of `ephemeral-storage` below the model's size: the kubelet evicts such pods.

    It holds an emptyDir against the sum of the containers' limits, and what a container writes
    elsewhere against its own (`pkg/kubelet/eviction`).
    """
    model, files = ctx.model, ctx.files
    if model is None or files is None or model.size is None or model.cache is not None:
        return
    for pod in pods.written:
        if files.fetched:
            containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
        elif not files.model.startswith("/") and pod.leads and not _mounts(pod):
            containers = [pod.container]
        else:
            continue
        limits = [limit for each in containers if (limit := _limit(each)) is not None]
        if limits and sum(limits) < quantity.parse(model.size):
            yield error(
                "disk-limit-below-model-size",
                (*pod.container_path, "resources", "limits", _DISK),
                f"{quantity.write(Decimal(sum(limits)))} of disk is less than the model, which has "
                f"{model.size} (model.size): the kubelet evicts the pod; raise it, or use "
                "model.cache",
            )


def _limit(container: Mapping[str, Any]) -> Decimal | None:
    amount = ((container.get("resources") or {}).get("limits") or {}).get(_DISK)
    return None if amount is None else quantity.parse(amount)


def _mounts(pod: Pod) -> bool:
    """Whether the serving container may write to a volume."""
    paths = [str(each.get("mountPath")) for each in pod.container.get("volumeMounts") or ()]
    return any(path.rstrip("/") != SHARED_MEMORY for path in paths)
