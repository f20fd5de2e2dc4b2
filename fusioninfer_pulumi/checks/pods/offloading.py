"""Checks of KV cache offloading: whether the pods have the memory and disks that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.checks.model import ACCESS_MODE_TOO_NARROW
from fusioninfer_pulumi.checks.pods.memory import (
    DISK_LIMIT_TOO_SMALL,
    MEMORY_LIMIT_TOO_SMALL,
    SHARED_MEMORY_TOO_SMALL,
)
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    error,
    info,
    path_text,
    warning,
)
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.pods.kv_offloading import DISK, disk_of, shared_memory_limit
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

MEMORY_REQUEST_TOO_SMALL = Rule(
    "memory-request-too-small",
    "warning",
    "The memory request holds the memory for offloading.",
    remedy="Raise `requests.memory`.",
)


def offloading_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the pods of a role that offloads its KV cache."""
    args, offload, at = ctx.role.kv_cache_offloading, pods.offload, ctx.at("kvCacheOffloading")
    if args is None or offload is None:
        return
    for pod in pods.written:
        yield from _disk(pod, args)
        yield from _memory((*at, "cpu"), pod, offload.memory)
        if offload.in_shared_memory:
            yield from _room((*at, "cpu"), ctx.role, pod, offload.memory)
    yield from _shared(at, ctx, args)


def _disk(pod: Pod, args: KvCacheOffloadingArgs) -> Iterator[Finding]:
    resources = pod.own.get("resources") or {}
    limit = (resources.get("limits") or {}).get(DISK)
    asked = disk_of(args) + quantity.parse((resources.get("requests") or {}).get(DISK, 0))
    if disk_of(args) and limit is not None and quantity.parse(limit) < asked:
        yield error(
            DISK_LIMIT_TOO_SMALL,
            (*pod.container_path, "resources", "limits", DISK),
            f"{limit} has no room for the emptyDirs of kvCacheOffloading: with them the container "
            f"asks for {quantity.write(asked)}",
        )


def _memory(at: Location, pod: Pod, need: Decimal) -> Iterator[Finding]:
    resources = pod.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get("memory")
    asked = (resources.get("requests") or {}).get("memory", limit)
    amount, container = quantity.write(need), path_text(pod.container_path)
    if limit is not None and need >= quantity.parse(limit):
        yield error(
            MEMORY_LIMIT_TOO_SMALL,
            at,
            f"takes {amount} of host memory in each pod, but {container} may use "
            f"{limit} in all; raise its memory limit, or offload less",
        )
    elif asked is None or quantity.parse(asked) < need:
        has = "none" if asked is None else str(asked)
        yield warning(
            MEMORY_REQUEST_TOO_SMALL,
            at,
            f"takes {amount} of host memory in each pod, but {container} asks for {has}: "
            "nodes are chosen that do not have it; raise requests.memory",
        )


def _room(at: Location, role: RoleArgs, pod: Pod, need: Decimal) -> Iterator[Finding]:
    """The region of vLLM's tiers lies in /dev/shm, which has to hold all of it."""
    mount = mounted(pod.own, SHARED_MEMORY)
    takes = f"takes {quantity.write(need)} of {SHARED_MEMORY}"
    explicit = shared_memory_limit(role)
    if mount is None and _less(explicit, need):
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
        if _less(limit, need):
            yield error(
                SHARED_MEMORY_TOO_SMALL,
                at,
                f"{takes}, but the volume {volume['name']} of {path_text(pod.path)} holds {limit}; "
                "raise its sizeLimit, or remove it",
            )


def _less(amount: Any, need: Decimal) -> bool:
    """Whether an amount is less; what is no quantity is rejected by the API."""
    try:
        return amount is not None and quantity.parse(amount) < need
    except ValueError:
        return False


def _shared(at: Location, ctx: Context, args: KvCacheOffloadingArgs) -> Iterator[Finding]:
    pods = ctx.role.replicas * ctx.nodes
    for index, tier in enumerate(args.secondary):
        claim = tier.file_system.pvc
        if claim is not None and claim.ref is not None and (pods > 1 or ctx.role.autoscaling):
            yield info(
                ACCESS_MODE_TOO_NARROW,
                (*at, "secondary", index),
                f"every pod mounts the claim {claim.ref.name}: it has to be ReadWriteMany unless "
                "they share a node",
            )
