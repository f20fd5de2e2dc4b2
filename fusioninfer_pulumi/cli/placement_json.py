"""The placement in the JSON of `plan`: stable keys for programs."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.placement.result import Nearest, Placement, ServicePlacement


def placement_json(record: ServicePlacement, placement: Placement) -> dict[str, Any]:
    """Writes where one service is placed, why, and what is left in the pools.

    Args:
        record: The service's place.
        placement: That of all services.

    Returns:
        The value of the key `placement` of the command line's contract.
    """
    return {
        "status": record.status.value,
        "roles": [
            {
                "name": role.name,
                "pool": role.pool,
                "replicas": role.replicas,
                "wanted": role.wanted,
                "accelerators": role.accelerators,
                "deviceClasses": list(role.device_classes),
                "origin": role.origin.value,
                "previous": role.previous,
            }
            for role in record.roles
        ],
        "terms": [{"name": term.name, "value": term.value} for term in record.terms],
        "rejected": [
            {"pools": dict(each.pools), "reason": each.reason} for each in record.rejected
        ],
        "impossible": {
            role: {pool: list(reasons) for pool, reasons in pools.items()}
            for role, pools in record.impossible.items()
        },
        "nearest": None if record.nearest is None else _nearest(record.nearest),
        "pools": [
            {
                "name": pool.pool,
                "nodes": pool.nodes,
                "accelerators": pool.accelerators,
                "inUse": pool.in_use,
                "placed": pool.placed,
                "left": pool.left,
                "wholeNodes": pool.whole_nodes,
                "certain": pool.certain,
            }
            for pool in placement.pools
        ],
        "proven": placement.proven,
    }


def _nearest(nearest: Nearest) -> dict[str, Any]:
    return {
        "pools": dict(nearest.pools),
        "missing": [
            {"pool": each.pool, "nodes": each.nodes, "accelerators": each.accelerators}
            for each in nearest.missing
        ],
    }
