"""Memory that processes of a pod share, and volumes in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.findings import Finding, Location, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.launch import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod

#: vLLM's ranks share a ring of ten chunks of 16 or 24 MiB (`shm_broadcast.py`, `MessageQueue`), and
#: NCCL's segments come on top. vLLM's and LeaderWorkerSet's own manifests give 1 to 15 GiB.
LEAST_SHARED = quantity.parse("256Mi")


def memory_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of too little shared memory, and of volumes in memory that containers cannot fill."""
    shares = _ranks_in_pod(pods, ctx) > 1
    for pod in pods.written:
        runs = pod.leads or ctx.launcher in WRAPPING or read_command(pod.own).engine is not None
        if shares and runs:
            yield from _shared(pod)
        yield from _above_limits(pod, ctx)


def _ranks_in_pod(pods: RolePods, ctx: Context) -> int:
    """Ranks of one copy of the model that run in one pod, 1 where that is not known."""
    sizes = pods.command.parallelism
    if sizes is None:
        return 1
    copy = sizes.tensor * sizes.pipeline * sizes.context
    return min(copy, sizes.devices(ctx.nodes) // ctx.nodes)


def _shared(pod: Pod) -> Iterator[Finding]:
    if pod.spec.get("hostIPC"):
        return
    mount = mounted(pod.container, SHARED_MEMORY)
    if mount is None:
        yield warning(
            "shared-memory-missing",
            (*pod.container_path, "volumeMounts"),
            f"ranks of one pod need more shared memory than the default of 64Mi; mount an "
            f"emptyDir of medium Memory at {SHARED_MEMORY}",
        )
        return
    at, limit = _memory_volumes(pod).get(str(mount.get("name")), ((), None))
    if at and limit is not None and limit < LEAST_SHARED:
        yield warning(
            "shared-memory-below-need",
            (*at, "sizeLimit"),
            f"{quantity.write(limit)} of shared memory is too little for the ranks of one pod; "
            f"give at least {quantity.write(LEAST_SHARED)}, such as 2Gi",
        )


def _memory_volumes(pod: Pod) -> dict[str, tuple[Location, Decimal | None]]:
    """The volumes in memory: where each stands, and how much it may hold."""
    found: dict[str, tuple[Location, Decimal | None]] = {}
    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        source = volume.get("emptyDir")
        if isinstance(source, Mapping) and source.get("medium") == "Memory":
            at = (*pod.path, "spec", "volumes", index, "emptyDir")
            found[str(volume.get("name"))] = at, _amount(source.get("sizeLimit"))
    return found


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
            _amount(((each.get("resources") or {}).get("limits") or {}).get("memory"))
            for each in containers
            if any(mount.get("name") == name for mount in each.get("volumeMounts") or ())
        ]
        known = [limit for limit in limits if limit is not None]
        if size is None or not known or len(known) < len(limits) or size <= max(known):
            continue
        index = at[-2]
        own = isinstance(index, int) and index < written
        yield warning(
            "memory-volume-above-limit",
            (*at, "sizeLimit") if own else ctx.at("kvTransfer", "sharedMemory"),
            f"{quantity.write(size)} in memory is more than {quantity.write(max(known))}, the "
            "memory limit of the containers that mount it; lower it, or raise the limit",
        )
