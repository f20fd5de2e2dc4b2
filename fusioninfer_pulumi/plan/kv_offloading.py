"""What a role's `kvCacheOffloading` means to its engine."""

from __future__ import annotations

from fusioninfer_pulumi import quantity
from fusioninfer_pulumi.engines.kv_offloading import Offloading
from fusioninfer_pulumi.spec.kv_cache_offloading import offloading_problems
from fusioninfer_pulumi.spec.role import RoleArgs


def folder(index: int) -> str:
    """Where a tier behind the host memory is mounted, as KServe does."""
    return f"/mnt/kv-cache-{index}"


def offloading_of(role: RoleArgs) -> Offloading | None:
    """What a role's engines offload their KV cache to.

    Args:
        role: The role.

    Returns:
        None where nothing is offloaded, or where the tiers were refused already.
    """
    given = role.kv_cache_offloading
    if given is None or any(offloading_problems((), given)):
        return None
    return Offloading(
        cpu=int(quantity.parse(given.cpu)),
        eviction=given.eviction_policy.value if given.eviction_policy is not None else None,
        folders=tuple(folder(index) for index, _ in enumerate(given.secondary)),
    )
