"""What the wiring of prefill and decode consists of: frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.kv_offloading import offloading_findings
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.engines.kv_connectors import KvSetup
from fusioninfer_pulumi.engines.kv_offloading import Offloading
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.pickers import PickerFamily

#: Container port on which a pod publishes the events of its KV cache.
EVENTS_PORT = "kv-events"


@dataclass(frozen=True)
class Disaggregation:
    """A service whose endpoint picker pairs prefill pods with decode pods.

    Attributes:
        service: Name of the service.
        family: Family of the picker, which tells the sidecar's release.
        port: Port on which the prefill pods serve, and so all pods of the pool.
        prefill_https: Whether prefill pods serve HTTPS.
    """

    service: str
    family: PickerFamily
    port: int
    prefill_https: bool


@dataclass(frozen=True)
class SidecarPlan:
    """The sidecar of a role's leaders.

    Attributes:
        image: Its image; may be an Output.
        arguments: Its command line.
        port: Port that it listens on, which is the pool's.
        https: Whether it serves HTTPS.
        resources: Resources of its container.
        account: ServiceAccount whose rights it uses, None when it uses none.
        own_account: Whether that account is the template's own, so that it is not created.
    """

    image: Any
    arguments: tuple[str, ...]
    port: int
    https: bool
    resources: Mapping[str, Any]
    account: str | None
    own_account: bool


@dataclass(frozen=True)
class Wiring:
    """What a role's pods get beside their template.

    Attributes:
        pool_port: Port that clients and the picker use.
        engine_port: Port that the engine listens on, the pool's where no sidecar stands before it.
        moved_from: Ports that the template means the engine by, and that became `engine_port`.
        labels: Labels of the leaders.
        env: Variables of the serving container, on every pod.
        ports: Container ports of the serving container, on leaders.
        shared_memory: The `emptyDir` at /dev/shm of the serving container, None for none.
        setup: How the engine hands its KV cache over, None where that is not known.
        sidecar: The leaders' sidecar, None for none.
    """

    pool_port: int
    engine_port: int
    moved_from: frozenset[int] = frozenset()
    labels: Mapping[str, str] | None = None
    env: tuple[Mapping[str, Any], ...] = ()
    ports: tuple[Mapping[str, Any], ...] = ()
    shared_memory: Mapping[str, Any] | None = None
    setup: KvSetup | None = None
    sidecar: SidecarPlan | None = None


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
    if given is None or any(offloading_findings((), given)):
        return None
    return Offloading(
        cpu=int(quantity.parse(given.cpu)),
        eviction=given.eviction_policy.value if given.eviction_policy is not None else None,
        folders=tuple(folder(index) for index, _ in enumerate(given.secondary)),
    )
