"""KV cache offloading: engine arguments, memory and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import (
    KvCacheOffloadingArgs,
    SecondaryTierArgs,
    offloading_findings,
)
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.engines.editing import EditError
from fusioninfer_pulumi.engines.engine import Engine, Offload, Offloading
from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    Severity,
    error,
    info,
    path_text,
    warning,
)
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import (
    SHARED_MEMORY,
    free_name,
    mounted,
    with_env,
    with_mounts,
)
from fusioninfer_pulumi.pods.pod import Context, Pod, Pods, why_unknown
from fusioninfer_pulumi.pods.rules import COMMAND_NOT_EDITABLE, ENGINE_UNKNOWN, TAKEN_BY_TEMPLATE

KV_CACHE_TIERS = Rule(
    "kv-cache-tiers",
    "info",
    "Sizes of the KV cache's tiers, for your information.",
    remedy="Nothing.",
)
DISK_LIMIT_TOO_SMALL = Rule(
    "disk-limit-too-small",
    "error",
    "The limit of ephemeral storage holds the volumes on the node's disk.",
    remedy="Raise the limit.",
)
MEMORY_LIMIT_TOO_SMALL = Rule(
    "memory-limit-too-small",
    "error",
    "The memory limit holds the memory for offloading.",
    remedy="Raise the limit, or offload less.",
)
MEMORY_REQUEST_TOO_SMALL = Rule(
    "memory-request-too-small",
    "warning",
    "The memory request holds the memory for offloading.",
    remedy="Raise `requests.memory`.",
)
SHARED_MEMORY_TOO_SMALL = Rule(
    "shared-memory-too-small",
    "error",
    "The shared memory volume holds what the engine puts there.",
    remedy="Raise `kvTransfer.sharedMemory`, or remove it.",
)
CLAIM_SHARED_BY_PODS = Rule(
    "claim-shared-by-pods",
    "info",
    "A claim that all pods mount is ReadWriteMany.",
    remedy="Check its access mode.",
)

_DISK = "ephemeral-storage"


def offloading_of(role: RoleArgs) -> Offloading | None:
    """What a role's engines offload their KV cache to.

    None where nothing is offloaded, or where the tiers were refused already.
    """
    args = role.kv_cache_offloading
    if args is None or any(offloading_findings((), args)):
        return None
    return Offloading(
        cpu=int(quantity.parse(args.cpu)),
        eviction=args.eviction_policy.value if args.eviction_policy is not None else None,
        folders=tuple(_folder(index) for index, _ in enumerate(args.secondary)),
        shared=any(_kept(tier) for tier in args.secondary),
    )


def _kept(tier: SecondaryTierArgs) -> bool:
    """Whether what a tier holds is met by another process than the one that wrote it."""
    claim = tier.file_system.pvc
    return claim is not None and claim.ref is not None


def kv_offloading(pods: Pods, ctx: Context) -> tuple[Pods, list[Finding]]:
    """Gives the pods room for what is offloaded, and the engine its arguments.

    Where offloading is a KV connector, `kv_transfer` names it in one argument with that of a
    transfer.
    """
    args, wanted = ctx.role.kv_cache_offloading, offloading_of(ctx.role)
    if args is None or wanted is None:
        return pods, []
    at, command = ctx.at("kvCacheOffloading"), pods.engine_command
    engine = command.engine
    if engine is None:
        message = f"sets arguments of vLLM or SGLang, but {why_unknown(command)}"
        return pods, [error(ENGINE_UNKNOWN, at, f"{message}; write the arguments yourself")]
    decodes = ctx.role.component_type is ComponentType.DECODER
    offload = engine.offload(command, wanted, ctx.nodes, decodes=decodes)
    findings = [each.under(*at) for each in offload.findings]
    for pod in pods.each():
        findings += _taken(pod, args)
        findings += _memory((*at, "cpu"), pod, offload.memory)
        if offload.in_shared_memory:
            findings += _room((*at, "cpu"), ctx.role, pod, offload.memory)
    findings += _shared(at, ctx, args)
    if any(each.severity is Severity.ERROR for each in findings):
        return pods, findings
    findings.append(info(KV_CACHE_TIERS, at, _summary(args, offload.memory)))
    for pod in pods.each():
        try:
            configured = _with_arguments(pod, engine, offload)
        except EditError as problem:
            message = f"the hierarchical cache cannot be set in it: {problem}"
            message = f"{message}; write the command as a list"
            findings.append(error(COMMAND_NOT_EDITABLE, pod.command_path, message))
            continue
        built = _with_tiers(configured, args)
        if offload.in_shared_memory:
            built = built.with_shared_memory(_limit(ctx.role))
        pods = pods.put(built)
    return pods, findings


def _folder(index: int) -> str:
    """Where a tier behind the host memory is mounted, as KServe does."""
    return f"/mnt/kv-cache-{index}"


def _limit(role: RoleArgs) -> str | None:
    return role.kv_transfer.shared_memory if role.kv_transfer is not None else None


def _with_arguments(pod: Pod, engine: Engine, offload: Offload) -> Pod:
    variables = [{"name": name, "value": value} for name, value in offload.variables.items()]
    if offload.arguments and (pod.leads or pod.command.engine is engine):
        pod = pod.with_arguments(offload.arguments)
    return pod.with_container(lambda each: with_env(each, variables))


def _with_tiers(pod: Pod, args: KvCacheOffloadingArgs) -> Pod:
    """The pod with the tiers behind the host memory."""
    volumes, mounts = [], []
    for index, tier in enumerate(args.secondary):
        name = free_name(f"kv-cache-secondary-{index}", pod.spec.get("volumes"))
        source, mount = _source(tier)
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": _folder(index), **mount})

    def with_tiers(container: Mapping[str, Any]) -> Mapping[str, Any]:
        built = with_mounts(container, mounts)
        disk = _disk(args)
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        # Without a request Kubernetes asks for the limit, which has room for the tiers.
        if disk and (_DISK in requests or _DISK not in limits):
            asked = quantity.write(disk + quantity.parse(requests.get(_DISK, 0)))
            built["resources"] = {**resources, "requests": {**requests, _DISK: asked}}
        return built

    return pod.with_container(with_tiers).with_volumes(volumes)


def _taken(pod: Pod, args: KvCacheOffloadingArgs) -> Iterator[Finding]:
    """What a template has already where the tiers would stand, and disks that are too small."""
    for index, _ in enumerate(args.secondary):
        if mounted(pod.container, _folder(index)) is not None:
            yield error(
                TAKEN_BY_TEMPLATE,
                (*pod.container_path, "volumeMounts"),
                f"{_folder(index)} is where kvCacheOffloading.secondary[{index}] is mounted; "
                "remove it",
            )
    resources = pod.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get(_DISK)
    asked = _disk(args) + quantity.parse((resources.get("requests") or {}).get(_DISK, 0))
    if _disk(args) and limit is not None and quantity.parse(limit) < asked:
        yield error(
            DISK_LIMIT_TOO_SMALL,
            (*pod.container_path, "resources", "limits", _DISK),
            f"{limit} has no room for the emptyDirs of kvCacheOffloading: with them the container "
            f"asks for {quantity.write(asked)}",
        )


def _source(tier: SecondaryTierArgs) -> tuple[dict[str, Any], dict[str, Any]]:
    """The volume of a tier, and what its mount says beside its path."""
    disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
    if disk is not None:
        return {"emptyDir": {"sizeLimit": disk.size}}, {}
    assert claim is not None, "a tier has one of the two"
    if claim.ref is not None:
        source = {"persistentVolumeClaim": {"claimName": claim.ref.name}}
        return source, {} if claim.ref.path is None else {"subPath": claim.ref.path}
    return {"ephemeral": {"volumeClaimTemplate": {"spec": dict(claim.spec or {})}}}, {}


def _disk(args: KvCacheOffloadingArgs) -> Decimal:
    disks = (tier.file_system.empty_dir for tier in args.secondary)
    return sum((quantity.parse(disk.size) for disk in disks if disk is not None), Decimal(0))


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
    mount = mounted(pod.container, SHARED_MEMORY)
    takes = f"takes {quantity.write(need)} of {SHARED_MEMORY}"
    explicit = _limit(role)
    if mount is None and _less(explicit, need):
        yield error(
            SHARED_MEMORY_TOO_SMALL,
            at,
            f"{takes}, but kvTransfer.sharedMemory is {explicit}; raise or remove it",
        )
    for volume in pod.spec.get("volumes") or ():
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
                CLAIM_SHARED_BY_PODS,
                (*at, "secondary", index),
                f"every pod mounts the claim {claim.ref.name}: it has to be ReadWriteMany unless "
                "they share a node",
            )


def _summary(args: KvCacheOffloadingArgs, need: Decimal) -> str:
    words = [f"{quantity.write(need)} of host memory in each pod"]
    for tier in args.secondary:
        disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
        if disk is not None:
            words.append(f"{disk.size} of its node's disk")
        elif claim is not None and claim.ref is not None:
            words.append(f"the claim {claim.ref.name}")
        else:
            words.append("a claim of its own")
    return f"KV cache goes on to {', then '.join(words)}"
