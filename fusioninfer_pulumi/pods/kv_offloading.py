"""KV cache offloading: engine arguments, memory and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import KvCacheOffloadingArgs, SecondaryTierArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.editing import EditError, edit, with_command
from fusioninfer_pulumi.engines.engine import Engine, Offload
from fusioninfer_pulumi.findings import Finding, Severity, error, info, join, parse_path, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import (
    SHARED_MEMORY,
    free_name,
    memory,
    mounted,
    shared_memory,
    with_env,
    with_mounts,
    with_volumes,
)
from fusioninfer_pulumi.pods.kv_transfer import why_unknown
from fusioninfer_pulumi.pods.records import folder, offloading_of
from fusioninfer_pulumi.pods.templates import Place, Template, places, with_container, with_template

_DISK = "ephemeral-storage"


def with_tiers(
    place: Place, container: Mapping[str, Any], given: KvCacheOffloadingArgs
) -> Template:
    """A pod template with the tiers behind the host memory.

    Args:
        place: The template as it was.
        container: Its serving container as it shall be, without the tiers.
        given: The tiers.
    """
    spec = place.template["spec"]
    volumes, mounts = [], []
    for index, tier in enumerate(given.secondary):
        name = free_name(f"kv-cache-secondary-{index}", spec.get("volumes"))
        source, mount = _source(tier)
        volumes.append({"name": name, **source})
        mounts.append({"name": name, "mountPath": folder(index), **mount})
    built = with_mounts(container, mounts)
    disk = _disk(given)
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    # Without a request Kubernetes asks for the limit, which has room for the tiers.
    if disk and (_DISK in requests or _DISK not in limits):
        asked = quantity.write(disk + quantity.parse(requests.get(_DISK, 0)))
        built["resources"] = {**resources, "requests": {**requests, _DISK: asked}}
    template = with_container(place.template, str(container["name"]), lambda _: built)
    return {**template, "spec": with_volumes(template["spec"], volumes)}


def with_shared_memory(template: Template, name: str, limit: str | None) -> Template:
    """A template whose serving container has a memory volume at /dev/shm of its own.

    Args:
        template: The template.
        name: Name of the container.
        limit: Size limit of the volume; by default the pod's memory.
    """
    spec = template["spec"]
    (container,) = [each for each in spec["containers"] if each["name"] == name]
    added = shared_memory(spec, container, memory(limit))
    if added is None:
        return template
    volume, mount = added
    complete = with_container(template, name, lambda each: with_mounts(each, [mount]))
    return {**complete, "spec": with_volumes(complete["spec"], [volume])}


def tier_findings(place: Place, given: KvCacheOffloadingArgs) -> Iterator[Finding]:
    """What a template has already where the tiers would stand, and disks that are too small."""
    for index, _ in enumerate(given.secondary):
        if mounted(place.container, folder(index)) is not None:
            yield error(
                f"{place.container_at}.volumeMounts",
                f"{folder(index)} is where kvCacheOffloading.secondary[{index}] is mounted; "
                "remove it",
            )
    resources = place.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get(_DISK)
    asked = _disk(given) + quantity.parse((resources.get("requests") or {}).get(_DISK, 0))
    if _disk(given) and limit is not None and quantity.parse(limit) < asked:
        yield error(
            f"{place.container_at}.resources.limits.{_DISK}",
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


def _disk(given: KvCacheOffloadingArgs) -> Decimal:
    disks = (tier.file_system.empty_dir for tier in given.secondary)
    return sum((quantity.parse(disk.size) for disk in disks if disk is not None), Decimal(0))


def offloading_role(position: int, role: RoleArgs) -> tuple[RoleArgs, list[Finding]]:
    """Completes one role.

    Args:
        position: Index of the role in the spec.
        role: The role with the sizes of `parallelism` in its arguments.

    Returns:
        The role whose pods have room for what is offloaded, and what is to be said.
    """
    given, wanted = role.kv_cache_offloading, offloading_of(role)
    if given is None or wanted is None:
        return role, []
    at = join("roles", position, "kvCacheOffloading")
    listed = list(places(position, role))
    command = read_command(listed[0].container)
    engine = command.engine
    if engine is None:
        message = f"sets arguments of vLLM or SGLang, but {why_unknown(command)}"
        return role, [error(at, f"{message}; write the arguments yourself")]
    decodes = role.component_type is ComponentType.DECODER
    offload = engine.offload(command, wanted, role.nodes, decodes=decodes)
    findings = [each.under(*parse_path(at)) for each in offload.findings]
    need = offload.memory
    for place in listed:
        findings += tier_findings(place, given)
        findings += _memory(f"{at}.cpu", place, need)
        if offload.in_shared_memory:
            findings += _room(f"{at}.cpu", role, place, need)
    findings += _shared(at, role, given)
    if any(each.severity is Severity.ERROR for each in findings):
        return role, findings
    findings.append(info(at, _summary(given, need)))
    built = role
    for place in listed:
        try:
            container = _container(place, engine, offload)
        except EditError as problem:
            message = f"the hierarchical cache cannot be set in it: {problem}"
            findings.append(error(place.command_at, f"{message}; write the command as a list"))
            continue
        template = with_tiers(place, container, given)
        if offload.in_shared_memory:
            limit = role.kv_transfer.shared_memory if role.kv_transfer is not None else None
            template = with_shared_memory(template, str(container["name"]), limit)
        built = with_template(built, place.field, template)
    return built, findings


def _container(place: Place, engine: Engine, offload: Offload) -> Template:
    container: Template = dict(place.container)
    command = read_command(container)
    if offload.arguments and (place.leads or command.engine is engine):
        container = with_command(container, edit(command, offload.arguments))
    variables = [{"name": name, "value": value} for name, value in offload.variables.items()]
    return with_env(container, variables)


def _memory(at: str, place: Place, need: Decimal) -> Iterator[Finding]:
    resources = place.container.get("resources") or {}
    limit = (resources.get("limits") or {}).get("memory")
    asked = (resources.get("requests") or {}).get("memory", limit)
    amount = quantity.write(need)
    if limit is not None and need >= quantity.parse(limit):
        yield error(
            at,
            f"takes {amount} of host memory in each pod, but {place.container_at} may use "
            f"{limit} in all; raise its memory limit, or offload less",
        )
    elif asked is None or quantity.parse(asked) < need:
        has = "none" if asked is None else str(asked)
        yield warning(
            at,
            f"takes {amount} of host memory in each pod, but {place.container_at} asks for {has}: "
            "nodes are chosen that do not have it; raise requests.memory",
        )


def _room(at: str, role: RoleArgs, place: Place, need: Decimal) -> Iterator[Finding]:
    """The region of vLLM's tiers lies in /dev/shm, which has to hold all of it."""
    mount = mounted(place.container, SHARED_MEMORY)
    takes = f"takes {quantity.write(need)} of {SHARED_MEMORY}"
    stated = role.kv_transfer.shared_memory if role.kv_transfer is not None else None
    if mount is None and _less(stated, need):
        yield error(at, f"{takes}, but kvTransfer.sharedMemory is {stated}; raise or remove it")
    for volume in place.template["spec"].get("volumes") or ():
        source = volume.get("emptyDir")
        if mount is None or volume.get("name") != mount.get("name") or not isinstance(source, dict):
            continue
        limit = source.get("sizeLimit")
        if _less(limit, need):
            yield error(
                at,
                f"{takes}, but the volume {volume['name']} of {place.at} holds {limit}; raise its "
                "sizeLimit, or remove it",
            )


def _less(amount: Any, need: Decimal) -> bool:
    """Whether an amount is stated that is less; what is no quantity is refused elsewhere."""
    try:
        return amount is not None and quantity.parse(amount) < need
    except ValueError:
        return False


def _shared(at: str, role: RoleArgs, given: KvCacheOffloadingArgs) -> Iterator[Finding]:
    pods = role.replicas * role.nodes
    for index, tier in enumerate(given.secondary):
        claim = tier.file_system.pvc
        if claim is not None and claim.ref is not None and (pods > 1 or role.autoscaling):
            yield info(
                f"{at}.secondary[{index}]",
                f"every pod mounts the claim {claim.ref.name}: it has to be ReadWriteMany unless "
                "they share a node",
            )


def _summary(given: KvCacheOffloadingArgs, need: Decimal) -> str:
    words = [f"{quantity.write(need)} of host memory in each pod"]
    for tier in given.secondary:
        disk, claim = tier.file_system.empty_dir, tier.file_system.pvc
        if disk is not None:
            words.append(f"{disk.size} of its node's disk")
        elif claim is not None and claim.ref is not None:
            words.append(f"the claim {claim.ref.name}")
        else:
            words.append("a claim of its own")
    return f"KV cache goes on to {', then '.join(words)}"
