"""What a placement consists of: frozen records that say what was chosen, and why."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding


class Status(str, enum.Enum):
    """Whether a service got a place."""

    PLACED = "Placed"  #: for all of its replicas
    MINIMUM = "Minimum"  #: for its minimum; more as far as the others leave room
    UNPLACED = "Unplaced"


class Origin(str, enum.Enum):
    """Why a role is on its pool."""

    CHOSEN = "chosen"  #: the best one
    SELECTED = "selected"  #: its own pod templates select the pool
    KEPT = "kept"  #: it was there before
    MOVED = "moved"  #: it was elsewhere before, where it cannot stay


@dataclass(frozen=True)
class PlacedRole:
    """Where one role is placed.

    Attributes:
        name: Name of the role.
        pool: Name of the pool.
        replicas: Replicas that have a place.
        wanted: Replicas that are wanted.
        accelerators: Accelerators that all wanted replicas ask for.
        origin: Why it is there.
        device_classes: DeviceClasses by which it claims them, none where it asks by resource.
        previous: The pool where it was before, None for a new one.
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
    """One number by which places are compared; less is better.

    Attributes:
        name: Its name in JSON.
        value: The number, as text where it is a price.
        words: What it counts.
    """

    name: str
    value: int | str
    words: str


@dataclass(frozen=True)
class Rejected:
    """Another combination of pools.

    Attributes:
        pools: Pool of each role.
        reason: Why it was not taken.
    """

    pools: Mapping[str, str]
    reason: str


@dataclass(frozen=True)
class Missing:
    """What a pool lacks.

    Attributes:
        pool: Name of the pool.
        nodes: Nodes, each with all of its accelerators free.
        accelerators: Their accelerators.
    """

    pool: str
    nodes: int
    accelerators: int


@dataclass(frozen=True)
class Nearest:
    """The combination of pools that lacks least for a service without a place.

    Attributes:
        pools: Pool of each role.
        missing: What is missing, pool by pool, beside what the other services hold.
    """

    pools: Mapping[str, str]
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class ServicePlacement:
    """Where one service is placed.

    Attributes:
        service: Its name.
        namespace: Its namespace; may be an Output.
        status: Whether it got a place.
        roles: Its roles, none when it got no place.
        terms: What its place was compared by, the most important first.
        rejected: The combinations of pools that were not taken, in the order of the inventory.
        impossible: For each role, why it cannot be on which pool, whatever else is placed.
        nearest: What is missing, None where it got a place or no combination is allowed.
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
    """What is left of a pool when all services are placed.

    Attributes:
        pool: Name of the pool.
        nodes: Its nodes.
        accelerators: All of its accelerators.
        in_use: Those that others hold.
        placed: Those that the services hold.
        left: Those that are free.
        whole_nodes: Nodes with all accelerators free when pods are packed as tightly as can be.
        certain: Whether all pods find a node wherever the scheduler puts each of them.
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
            order in which they were given; one without a place is as it was.
        placed: Where each of them is, in the same order; None for one that cannot be planned.
        pools: What is left, in the order of the inventory.
        findings: What is to be said, by the index of the service that it concerns; -1 for all.
        proven: Whether nothing better exists; False when the search met its bound.
        steps: Combinations that were looked at.
    """

    services: tuple[InferenceServiceArgs, ...]
    placed: tuple[ServicePlacement | None, ...]
    pools: tuple[PoolLeft, ...]
    findings: Mapping[int, tuple[Finding, ...]]
    proven: bool
    steps: int
