"""The volumes, mounts and requests by which a pod has room for an offloaded KV cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi import quantity
from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.plan.completion.templates import Place, Template, with_container
from fusioninfer_pulumi.plan.kv_offloading import folder
from fusioninfer_pulumi.plan.pod_edits import (
    free_name,
    memory,
    mounted,
    shared_memory,
    with_mounts,
    with_volumes,
)
from fusioninfer_pulumi.spec.kv_cache_offloading import KvCacheOffloadingArgs, SecondaryTierArgs

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
