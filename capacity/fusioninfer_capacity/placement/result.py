"""The result of a placement with its reasons, and the previous placement, read from any form."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.plugins.capacity import (
    UNKNOWN,
    WRONG_TYPE,
    Finding,
    InferenceServiceArgs,
    InvalidServiceError,
    Rule,
    error,
    file_text,
    is_output,
    quote_value,
)

PREVIOUS_PLACEMENT_MALFORMED = Rule("previous-placement-malformed")


class Status(str, enum.Enum):
    """Whether a service is placed."""

    PLACED = "Placed"  #: with all of its replicas
    MINIMUM = "Minimum"  #: with its minimum; further replicas start if capacity is free
    UNPLACED = "Unplaced"


class Origin(str, enum.Enum):
    """Why a role is on its pool."""

    CHOSEN = "chosen"  #: the pool is the best one for a new role
    SELECTED = "selected"  #: the user's pod templates select the pool
    KEPT = "kept"  #: the role was there before
    MOVED = "moved"  #: the role cannot stay on its previous pool


@dataclass(frozen=True)
class PlacedRole:
    """Where one role is placed.

    Attributes:
        replicas: Replicas that are placed.
        wanted: All replicas of the role.
        accelerators: Accelerators of all replicas of the role.
        device_classes: DeviceClasses of its claims, none if it requests a resource.
        previous: Its previous pool, or None for a new role.
    """

    name: str
    pool: str
    replicas: int
    wanted: int
    accelerators: int
    origin: Origin
    previous: str | None = None
    device_classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Term:
    """One number by which placements are compared; less is better.

    Attributes:
        value: The number; a price and the order of pools are text.
        words: Its name in messages and tables; `name` is the one in JSON.
    """

    name: str
    value: int | str
    words: str


@dataclass(frozen=True)
class Rejected:
    """Another combination of pools, by role, and why it was rejected."""

    pools: Mapping[str, str]
    reason: str


@dataclass(frozen=True)
class Missing:
    """Empty nodes that a pool lacks, and their accelerators."""

    pool: str
    nodes: int
    accelerators: int


@dataclass(frozen=True)
class Nearest:
    """The combination of pools that lacks the fewest nodes for an unplaced service.

    Attributes:
        pools: Pool of each role.
        missing: Missing nodes, given the other services.
    """

    pools: Mapping[str, str]
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class ServicePlacement:
    """Where one service is placed.

    Attributes:
        namespace: Its namespace; may be an Output.
        roles: Its roles, none if it is not placed.
        terms: Numbers by which combinations were compared, the most important first.
        rejected: The rejected combinations of pools, in the order of the inventory.
        impossible: By role and pool, why the role cannot run there even if the pool is empty.
        nearest: The closest combination, or None if it is placed or no combination is allowed.
    """

    service: str
    namespace: Any
    status: Status
    roles: tuple[PlacedRole, ...]
    terms: tuple[Term, ...]
    rejected: tuple[Rejected, ...]
    impossible: Mapping[str, Mapping[str, tuple[str, ...]]]
    nearest: Nearest | None


@dataclass(frozen=True)
class PoolLeft:
    """The capacity of a pool after all services are placed.

    Attributes:
        accelerators: All of its accelerators.
        in_use: Accelerators in use by pods of other workloads.
        placed: Accelerators of the placed services.
        left: Free accelerators.
        whole_nodes: Nodes with all accelerators free if pods are packed as tightly as possible.
        certain: Whether all pods fit, regardless of the nodes that the scheduler chooses.
    """

    pool: str
    nodes: int
    accelerators: int
    in_use: int
    placed: int
    left: int
    whole_nodes: int
    certain: bool


@dataclass(frozen=True)
class Placement:
    """Where all services are placed.

    Attributes:
        services: The services with node selectors and tolerations in their pod templates, in the
            order of the input; an unplaced service is unchanged.
        placed: Their placements, in the same order; None for a service that cannot be planned.
        pools: The remainder of the pools, in the order of the inventory.
        findings: Findings by the index of the service; -1 for findings about the whole placement.
        proven: Whether nothing better exists; False if the search reached its limit.
        steps: Number of combinations that were tried.
    """

    services: tuple[InferenceServiceArgs, ...]
    placed: tuple[ServicePlacement | None, ...]
    pools: tuple[PoolLeft, ...]
    findings: Mapping[int, tuple[Finding, ...]]
    proven: bool
    steps: int

    def to_json(self, index: int) -> dict[str, Any] | None:
        """Return the placement of one service: the key `placement` in the JSON of `plan`."""
        record = self.placed[index]
        if record is None:
            return None
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
                {"pools": dict(choice.pools), "reason": choice.reason} for choice in record.rejected
            ],
            "impossible": {
                role: {pool: list(reasons) for pool, reasons in pools.items()}
                for role, pools in record.impossible.items()
            },
            "nearest": None if record.nearest is None else _dump_nearest(record.nearest),
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
                for pool in self.pools
            ],
            "proven": self.proven,
        }

    def tables(self, index: int) -> Iterator[Any]:
        """Return the placement of one service as tables for rich."""
        from fusioninfer_capacity.placement import text  # noqa: PLC0415  # rich takes its time

        record = self.placed[index]
        return iter(()) if record is None else text.render_service(record)

    def pools_table(self) -> Any:
        """Return the remainder of the pools as a table for rich."""
        from fusioninfer_capacity.placement import text  # noqa: PLC0415  # see above

        return text.render_pools(self.pools)


@dataclass(frozen=True)
class PreviousPool:
    """Where a role was placed before.

    Attributes:
        accelerators: Accelerators of all its replicas at that time, or None if unknown.
    """

    name: str
    accelerators: int | None = None


#: Previous pools by service (`namespace/name`, or the name alone) and role.
PreviousPools = Mapping[str, Mapping[str, PreviousPool]]
PreviousPlacement = (
    None | str | os.PathLike[str] | Placement | Sequence[Any] | Mapping[str, Mapping[str, Any]]
)


def read_previous(source: PreviousPlacement) -> PreviousPools:
    """Read a previous placement, in any of the forms that `place` accepts."""
    if source is None:
        return {}
    if isinstance(source, Placement):
        return {
            make_key(service.namespace, service.service): {
                role.name: PreviousPool(role.pool, role.accelerators) for role in service.roles
            }
            for service in source.placed
            if service is not None
        }
    title = ""
    if isinstance(source, (str, os.PathLike)):
        title = str(source)
        try:
            source = json.loads(file_text(Path(source)))
        except (ValueError, RecursionError) as exc:
            raise InvalidServiceError([error(WRONG_TYPE, (), f"not JSON: {exc}")], title) from None
    try:
        return _read_mapping(source) if isinstance(source, Mapping) else _read_json(source)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidServiceError(
            [
                error(
                    PREVIOUS_PLACEMENT_MALFORMED,
                    (),
                    "must be the JSON of `place` or `plan --inventory`, or a mapping of service to "
                    f"role to pool, got {quote_value(source)}",
                )
            ],
            title,
        ) from None


def make_key(namespace: Any, name: str) -> str:
    """Return the key of a service; without the namespace if that is an Output."""
    return name if is_output(namespace) or namespace == UNKNOWN else f"{namespace}/{name}"


def _read_json(source: Any) -> PreviousPools:
    return {
        make_key(service["namespace"], service["service"]): {
            role["name"]: PreviousPool(_check_text(role["pool"]), int(role["accelerators"]))
            for role in service["placement"]["roles"]
        }
        for service in source
    }


def _read_mapping(source: Mapping[str, Mapping[str, Any]]) -> PreviousPools:
    return {
        service: {
            role: pool if isinstance(pool, PreviousPool) else PreviousPool(_check_text(pool))
            for role, pool in roles.items()
        }
        for service, roles in source.items()
    }


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _dump_nearest(nearest: Nearest) -> dict[str, Any]:
    return {
        "pools": dict(nearest.pools),
        "missing": [
            {"pool": shortage.pool, "nodes": shortage.nodes, "accelerators": shortage.accelerators}
            for shortage in nearest.missing
        ],
    }
