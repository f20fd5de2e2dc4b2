"""Memory and disk of pods: shared memory, volumes in memory, offloading, the model's size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.resources import limit_of
from fusioninfer_pulumi.pods.launch import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

DISK_LIMIT_TOO_SMALL = Rule(
    "disk-limit-too-small",
    "error",
    "The limit of ephemeral storage holds the model, and the volumes on the node's disk.",
    remedy="Raise the limit, or use `model.cache`.",
    source="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#local-ephemeral-storage",
)

MEMORY_LIMIT_TOO_SMALL = Rule(
    "memory-limit-too-small",
    ("error", "warning"),
    "The memory limit holds what is offloaded to host memory, and volumes in memory.",
    remedy="Raise the limit, or offload less.",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
)

SHARED_MEMORY_MISSING = Rule(
    "shared-memory-missing",
    "warning",
    "Ranks of one pod have more shared memory than a container's default of 64Mi.",
    remedy="Mount an `emptyDir` of medium `Memory` at /dev/shm.",
    source="https://docs.vllm.ai/en/stable/deployment/k8s/",
)
SHARED_MEMORY_TOO_SMALL = Rule(
    "shared-memory-too-small",
    ("error", "warning"),
    "The volume at /dev/shm has room for what the engine puts there.",
    remedy="Raise its `sizeLimit`, or `kvTransfer.sharedMemory`.",
    source="https://docs.vllm.ai/en/stable/deployment/k8s/",
)

#: vLLM's ranks share a ring of ten chunks of 16 or 24 MiB (`shm_broadcast.py`, `MessageQueue`), and
#: NCCL's segments come on top. vLLM's and LeaderWorkerSet's own manifests give 1 to 15 GiB.
LEAST_SHARED = quantity.parse("256Mi")
#: Arguments with GiB of host memory.
_HOST_MEMORY = ("--cpu-offload-gb", "--kv-offloading-size")


def memory_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of too little shared memory, and of volumes in memory that containers cannot fill."""
    shares = _ranks_in_pod(pods, ctx) > 1 or _is_checked(pods, ctx)
    for pod in pods.written:
        runs = pod.leads or ctx.launcher in WRAPPING or pod.own_command.engine is not None
        if shares and runs and _shares_by_memory(pod):
            yield from _shared_memory(pod)
        yield from _above_limits(pod, ctx)
    yield from _offloaded(pods)


def _ranks_in_pod(pods: RolePods, ctx: Context) -> int:
    """Ranks of one copy of the model that run in one pod, 1 where that is not known."""
    sizes = pods.command.parallelism
    if sizes is None:
        return 1
    copy = sizes.tensor * sizes.pipeline * sizes.context
    return min(copy, sizes.devices(ctx.nodes) // ctx.nodes)


def _is_checked(pods: RolePods, ctx: Context) -> bool:
    engine = pods.command.engine
    return engine is not None and engine.checks_shared_memory(pods.command, ctx.launcher)


def _shares_by_memory(pod: Pod) -> bool:
    """Whether ranks hand data over by shared memory: those of TPUs and Neuron devices do not."""
    resources = pod.container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return not any(str(name).startswith(_OTHER_LINKS) for name in asked)


_OTHER_LINKS = ("google.com/tpu", "aws.amazon.com/neuron")


def _shared_memory(pod: Pod) -> Iterator[Finding]:
    if pod.spec.get("hostIPC"):
        return
    mount = mounted(pod.container, SHARED_MEMORY)
    if mount is None:
        yield warning(
            SHARED_MEMORY_MISSING,
            (*pod.container_path, "volumeMounts"),
            "ranks of one pod need more shared memory than the default of 64Mi; mount an "
            f"emptyDir of medium Memory at {SHARED_MEMORY}",
        )
        return
    at, limit = _memory_volumes(pod).get(str(mount.get("name")), ((), None))
    if at and limit is not None and limit < LEAST_SHARED:
        yield warning(
            SHARED_MEMORY_TOO_SMALL,
            (*at, "sizeLimit"),
            f"{quantity.write(limit)} of shared memory is too little for the ranks of one pod; "
            f"give at least {quantity.write(LEAST_SHARED)}, such as 2Gi",
        )


def _offloaded(pods: RolePods) -> Iterator[Finding]:
    """Warns of host memory that the engine takes by an argument and the container does not have."""
    command, pod = pods.command, pods.leader
    limit = _amount(limit_of(pod.container, "memory"))
    if limit is None or command.engine is None or not command.readable:
        return
    for flag in _HOST_MEMORY:
        text = command.value(flag)
        if text is None or re.fullmatch(r"\d{1,6}(\.\d+)?", text) is None:
            continue
        if quantity.parse(text) * 2**30 > limit:
            yield warning(
                MEMORY_LIMIT_TOO_SMALL,
                pod.command_path,
                f"{flag} {text} takes {text} GiB of memory, more than the container's limit of "
                f"{quantity.write(limit)}; lower it, or raise the limit",
            )


def _memory_volumes(pod: Pod) -> dict[str, tuple[Location, Decimal | None]]:
    """The volumes in memory: where each stands, and how much it may hold."""
    volumes: dict[str, tuple[Location, Decimal | None]] = {}
    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        source = volume.get("emptyDir")
        if isinstance(source, Mapping) and source.get("medium") == "Memory":
            at = (*pod.path, "spec", "volumes", index, "emptyDir")
            volumes[str(volume.get("name"))] = at, _amount(source.get("sizeLimit"))
    return volumes


def _amount(value: Any) -> Decimal | None:
    return None if value is None or is_output(value) else quantity.parse(value)


def _above_limits(pod: Pod, ctx: Context) -> Iterator[Finding]:
    """Volumes in memory that may hold more than the containers that mount them.

    What is written there counts as memory of the container that writes it.
    """
    containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
    written = len(pod.written["spec"].get("volumes") or ())
    for name, (at, size) in _memory_volumes(pod).items():
        limits = [
            _amount(limit_of(container, "memory"))
            for container in containers
            if any(mount.get("name") == name for mount in container.get("volumeMounts") or ())
        ]
        known = [limit for limit in limits if limit is not None]
        if size is None or not known or len(known) < len(limits) or size <= max(known):
            continue
        index = at[-2]
        is_written = isinstance(index, int) and index < written
        yield warning(
            MEMORY_LIMIT_TOO_SMALL,
            (*at, "sizeLimit") if is_written else ctx.at("kvTransfer", "sharedMemory"),
            f"{quantity.write(size)} in memory is more than {quantity.write(max(known))}, the "
            "memory limit of the containers that mount it; lower it, or raise the limit",
        )


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
        elif not files.model.startswith("/") and pod.leads and not _writes_to_volume(pod):
            containers = [pod.container]
        else:
            continue
        asked = (_amount(limit_of(container, _DISK)) for container in containers)
        limits = [limit for limit in asked if limit is not None]
        if limits and sum(limits) < quantity.parse(model.size):
            yield error(
                DISK_LIMIT_TOO_SMALL,
                (*pod.container_path, "resources", "limits", _DISK),
                f"{quantity.write(Decimal(sum(limits)))} of disk is less than the model, which has "
                f"{model.size} (model.size): the kubelet evicts the pod; raise it, or use "
                "model.cache",
            )


def _writes_to_volume(pod: Pod) -> bool:
    """Whether the serving container may write to a volume."""
    paths = [str(mount.get("mountPath")) for mount in pod.container.get("volumeMounts") or ()]
    return any(path.rstrip("/") != SHARED_MEMORY for path in paths)
