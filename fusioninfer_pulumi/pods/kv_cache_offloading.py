"""A pass for KV cache offloading: engine arguments, memory and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs, SecondaryTierArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.spec_model import check_model
from fusioninfer_pulumi.engines.engine import OffloadRequest
from fusioninfer_pulumi.findings import Finding, errors
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import add_env, add_mounts, choose_free_name
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods, unknown_engine_finding

#: Resource that volumes on the node's disk use.
DISK = "ephemeral-storage"


def read_offloading(role: RoleArgs) -> OffloadRequest | None:
    """Return the offloading settings of a role, None if it has none or they are invalid."""
    args = role.kv_cache_offloading
    if args is None or any(check_model((), args)):
        return None
    claims = [tier.file_system.pvc for tier in args.secondary]
    return OffloadRequest(
        host_bytes=int(quantity.parse(args.cpu)),
        eviction=args.eviction_policy.value if args.eviction_policy is not None else None,
        # The mount paths are KServe's.
        folders=tuple(f"/mnt/kv-cache-{index}" for index, _ in enumerate(args.secondary)),
        # Other processes may use an existing claim too.
        shared=any(claim is not None and claim.ref is not None for claim in claims),
    )


def add_kv_offloading(pods: RolePods, ctx: Context) -> tuple[RolePods, list[Finding]]:
    """Add volumes, memory and engine arguments for KV cache offloading.

    If offloading is a KV connector, `add_kv_transfer` sets the argument, which it shares with the
    transfer's connector.
    """
    args, wanted = ctx.role.kv_cache_offloading, read_offloading(ctx.role)
    if args is None or wanted is None:
        return pods, []
    at, command = ctx.at("kvCacheOffloading"), pods.command
    engine = command.engine
    if engine is None:
        return pods, [unknown_engine_finding(at, command)]
    decodes = ctx.role.component_type is ComponentType.DECODER
    offload = engine.kv_cache.offload(command, wanted, ctx.nodes, decodes=decodes)
    findings = [finding.under(*at) for finding in offload.findings]
    for pod in pods.all:
        for index, folder in enumerate(wanted.folders):
            tier = f"the mount of kvCacheOffloading.secondary[{index}]; remove it"
            findings += pod.conflict_findings([folder], tier)
    if errors(findings):
        return pods, findings
    variables = [{"name": name, "value": value} for name, value in offload.variables.items()]
    for pod in pods.all:
        configured, problems = pod, list[Finding]()
        if offload.arguments and (pod.is_leader or pod.command.engine is engine):
            subject = "the hierarchical cache cannot be set in it"
            configured, problems = pod.with_arguments(offload.arguments, subject)
        if problems:
            findings += problems
            continue
        configured = configured.with_container(lambda container: add_env(container, variables))
        built = _with_tiers(configured, args, wanted.folders)
        if offload.in_shared_memory:
            built = built.with_shared_memory(get_shared_memory_limit(ctx.role))
        pods = pods.put(built)
    return replace(pods, offload=offload), findings


def get_shared_memory_limit(role: RoleArgs) -> str | None:
    """Return the size of /dev/shm that a role sets, None if it sets none."""
    return role.kv_transfer.shared_memory if role.kv_transfer is not None else None


def _with_tiers(pod: Pod, args: KvCacheOffloadingArgs, folders: Sequence[str]) -> Pod:
    volumes, mounts = [], []
    for index, (tier, folder) in enumerate(zip(args.secondary, folders, strict=True)):
        name = choose_free_name(f"kv-cache-secondary-{index}", pod.spec.get("volumes"))
        source, mount = _source(tier)
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": folder, **mount})

    def with_tiers(container: Mapping[str, Any]) -> Mapping[str, Any]:
        built = add_mounts(container, mounts)
        disk = sum_disk(args)
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        # If only a limit is set, it is also the request, and must cover the tiers.
        if disk and (DISK in requests or DISK not in limits):
            request = quantity.write(disk + quantity.parse(requests.get(DISK, 0)))
            built["resources"] = {**resources, "requests": {**requests, DISK: request}}
        return built

    return pod.with_container(with_tiers).add_volumes(volumes)


def _source(tier: SecondaryTierArgs) -> tuple[dict[str, Any], dict[str, Any]]:
    disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
    if disk is not None:
        return {"emptyDir": {"sizeLimit": disk.size}}, {}
    assert claim is not None, "a tier has one of the two"
    if claim.ref is not None:
        source = {"persistentVolumeClaim": {"claimName": claim.ref.name}}
        return source, {} if claim.ref.path is None else {"subPath": claim.ref.path}
    return {"ephemeral": {"volumeClaimTemplate": {"spec": dict(claim.spec or {})}}}, {}


def sum_disk(args: KvCacheOffloadingArgs) -> Decimal:
    """Return the bytes on the node's disk that the tiers need."""
    disks = (tier.file_system.empty_dir for tier in args.secondary)
    return sum((quantity.parse(disk.size) for disk in disks if disk is not None), Decimal(0))
