"""What passes decide about the pods of a role, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.endpoint_pickers.families import EppFamily
from fusioninfer_pulumi.engines.engine import KvConnector

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Pairing:
    """What prefill and decode pods agree on whom an endpoint picker pairs.

    Attributes:
        family: Family of the endpoint picker, which decides the sidecar's release.
        port: Port on which the prefill pods serve, and so all pods of the pool.
        registry: Registry that mirrors the sidecar's default image, None for its own.
    """

    family: EppFamily
    port: int
    prefill_https: bool
    registry: str | None = None


@dataclass(frozen=True)
class SidecarPlan:
    """The sidecar of a role's leaders.

    Attributes:
        port: Port that it listens on, which is the pool's.
        account: ServiceAccount whose rights it uses, None when it uses none.
        own_account: Whether that account is the template's own, so that it is not created.
        family: Family whose flags it reads.
    """

    image: Any
    arguments: tuple[str, ...]
    port: int
    https: bool
    rank_ports: int
    resources: Mapping[str, Any]
    account: str | None
    own_account: bool
    family: EppFamily

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that it listens on."""
        return tuple(range(self.port, self.port + self.rank_ports))


@dataclass(frozen=True)
class KvTransferPlan:
    """How the pods of a role hand their KV cache over.

    Attributes:
        pool_port: Port that clients and the endpoint picker use.
        engine_port: Port that the engine listens on, the pool's where no sidecar stands before it.
        moved_from: Ports that the template means the engine by, and that became `engine_port`.
        connector: How the engine hands its KV cache over, None where that is not known.
        brought: Name of the template's own sidecar, None without one.
    """

    pool_port: int
    engine_port: int
    moved_from: frozenset[int] = frozenset()
    connector: KvConnector | None = None
    sidecar: SidecarPlan | None = None
    brought: str | None = None


@dataclass
class ModelFiles:
    """What a pod gets for its model.

    Attributes:
        model: What the engine loads: a repository of Hugging Face, or a path.
        revision: Revision that the engine fetches.
        adapters: Repository or path of each adapter by its name.
        fetched: Source and folder of what init containers fetch, with what each mounts.
        warmed: Source and folder of what the warm-up fetches.
        images: Whether images are mounted as volumes.
    """

    model: str
    revision: str | None = None
    adapters: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Manifest] = field(default_factory=dict)
    mounts: list[Manifest] = field(default_factory=list)
    fetched: list[tuple[str, str, Manifest]] = field(default_factory=list)
    warmed: list[tuple[str, str]] = field(default_factory=list)
    env: list[Manifest] = field(default_factory=list)
    images: bool = False
