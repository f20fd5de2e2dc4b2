"""Memory and disk of pods: shared memory, volumes in memory, offloading, the model's size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, format_path, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.kube.resource_requests import read_limit
from fusioninfer_pulumi.pods.kv_cache_offloading import DISK, shared_memory_limit, sum_disk
from fusioninfer_pulumi.pods.multi_node import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

DISK_LIMIT_TOO_SMALL = Rule("disk-limit-too-small")

MEMORY_LIMIT_TOO_SMALL = Rule("memory-limit-too-small")
MEMORY_REQUEST_TOO_SMALL = Rule("memory-request-too-small")

SHARED_MEMORY_MISSING = Rule("shared-memory-missing")
SHARED_MEMORY_TOO_SMALL = Rule("shared-memory-too-small")


def memory_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn of too little shared memory, and of volumes in memory that containers cannot fill."""
    shares = _ranks_in_pod(pods, ctx) > 1 or _is_checked(pods, ctx)
    for pod in pods.written:
        runs = pod.leads or ctx.launcher in WRAPPING or pod.user_command.engine is not None
        if shares and runs and _shares_by_memory(pod):
            yield from _shared_memory(pod)
        yield from _above_limits(pod, ctx)


def _ranks_in_pod(pods: RolePods, ctx: Context) -> int:
    """Count the ranks of one model copy in one pod, 1 if unknown."""
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
    if mounted(pod.container, SHARED_MEMORY) is None:
        yield warning(
            SHARED_MEMORY_MISSING,
            (*pod.container_path, "volumeMounts"),
            "ranks of one pod need more shared memory than the default of 64Mi; mount an "
            f"emptyDir of medium Memory at {SHARED_MEMORY}",
        )


def _memory_volumes(pod: Pod) -> dict[str, tuple[Location, Decimal | None]]:
    """Return the location and size limit of each volume in memory, by name."""
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
    """Warn of volumes in memory that are larger than their containers' memory limits.

    What is written there counts as memory of the container that writes it.
    """
    containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
    user_volumes = len(pod.written["spec"].get("volumes") or ())
    for name, (at, size) in _memory_volumes(pod).items():
        limits = [
            _amount(read_limit(container, "memory"))
            for container in containers
            if any(mount.get("name") == name for mount in container.get("volumeMounts") or ())
        ]
        known = [limit for limit in limits if limit is not None]
        if size is None or not known or len(known) < len(limits) or size <= max(known):
            continue
        index = at[-2]
        is_user_volume = isinstance(index, int) and index < user_volumes
        yield warning(
            MEMORY_LIMIT_TOO_SMALL,
            (*at, "sizeLimit") if is_user_volume else ctx.at("kvTransfer", "sharedMemory"),
            f"{quantity.write(size)} in memory is more than {quantity.write(max(known))}, the "
            "memory limit of the containers that mount it; lower it, or raise the limit",
        )


def disk_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Reject limits of `ephemeral-storage` below the model's size: the kubelet evicts such pods.

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
        asked = (_amount(read_limit(container, DISK)) for container in containers)
        limits = [limit for limit in asked if limit is not None]
        if limits and sum(limits) < quantity.parse(model.size):
            yield error(
                DISK_LIMIT_TOO_SMALL,
                (*pod.container_path, "resources", "limits", DISK),
                f"{quantity.write(Decimal(sum(limits)))} of disk is smaller than the model "
                f"({model.size}, model.size): the kubelet evicts the pod; raise it, or use "
                "model.cache",
            )


def _writes_to_volume(pod: Pod) -> bool:
    """Whether the serving container may write to a volume."""
    paths = [str(mount.get("mountPath")) for mount in pod.container.get("volumeMounts") or ()]
    return any(path.rstrip("/") != SHARED_MEMORY for path in paths)


def offloading_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check the pods of a role that offloads its KV cache."""
    args, offload, at = ctx.role.kv_cache_offloading, pods.offload, ctx.at("kvCacheOffloading")
    if args is None or offload is None:
        return
    for pod in pods.written:
        yield from _offload_disk(pod, args)
        yield from _host_memory((*at, "cpu"), pod, offload.memory)
        if offload.in_shared_memory:
            yield from _room((*at, "cpu"), ctx.role, pod, offload.memory)


def _offload_disk(pod: Pod, args: KvCacheOffloadingArgs) -> Iterator[Finding]:
    resources = pod.own.get("resources") or {}
    limit = (resources.get("limits") or {}).get(DISK)
    asked = sum_disk(args) + quantity.parse((resources.get("requests") or {}).get(DISK, 0))
    if sum_disk(args) and limit is not None and quantity.parse(limit) < asked:
        yield error(
            DISK_LIMIT_TOO_SMALL,
            (*pod.container_path, "resources", "limits", DISK),
            f"{limit} is too small for the emptyDirs of kvCacheOffloading: with them the "
            f"container requests {quantity.write(asked)}",
        )


def _host_memory(at: Location, pod: Pod, need: Decimal) -> Iterator[Finding]:
    resources = pod.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get("memory")
    asked = (resources.get("requests") or {}).get("memory", limit)
    amount, container = quantity.write(need), format_path(pod.container_path)
    if limit is not None and need >= quantity.parse(limit):
        yield error(
            MEMORY_LIMIT_TOO_SMALL,
            at,
            f"uses {amount} of host memory in each pod, but {container} is limited to {limit}; "
            "raise its memory limit, or offload less",
        )
    elif asked is None or quantity.parse(asked) < need:
        has = "none" if asked is None else str(asked)
        yield warning(
            MEMORY_REQUEST_TOO_SMALL,
            at,
            f"uses {amount} of host memory in each pod, but {container} requests {has}, so pods "
            "may be scheduled on nodes without it; raise requests.memory",
        )


def _room(at: Location, role: RoleArgs, pod: Pod, need: Decimal) -> Iterator[Finding]:
    """Check that /dev/shm holds vLLM's CPU tier."""
    mount = mounted(pod.own, SHARED_MEMORY)
    takes = f"takes {quantity.write(need)} of {SHARED_MEMORY}"
    explicit = shared_memory_limit(role)
    if mount is None and _is_less(explicit, need):
        yield error(
            SHARED_MEMORY_TOO_SMALL,
            at,
            f"{takes}, but kvTransfer.sharedMemory is {explicit}; raise or remove it",
        )
    for volume in pod.written["spec"].get("volumes") or ():
        source = volume.get("emptyDir")
        if mount is None or volume.get("name") != mount.get("name") or not isinstance(source, dict):
            continue
        limit = source.get("sizeLimit")
        if _is_less(limit, need):
            yield error(
                SHARED_MEMORY_TOO_SMALL,
                at,
                f"{takes}, but the volume {volume['name']} of {format_path(pod.path)} holds {limit}"
                "; raise its sizeLimit, or remove it",
            )


def _is_less(amount: Any, need: Decimal) -> bool:
    """Whether an amount is less; what is no quantity is rejected by the API."""
    try:
        return amount is not None and quantity.parse(amount) < need
    except ValueError:
        return False
