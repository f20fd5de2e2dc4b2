"""The plan of one service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.operations.operations import OperationsPlan
from fusioninfer_pulumi.pods.model_cache import ModelPlan
from fusioninfer_pulumi.routing.router import RouterParts, RouterPlan
from fusioninfer_pulumi.topology.topology import Topology


class RoleMemory(Protocol):
    """The memory of one accelerator of a role, as `plan` and `diff` show it."""

    @property
    def columns(self) -> Sequence[str]:
        """Heads of `row`."""
        ...

    def row(self) -> Sequence[str]:
        """A row of the table for people."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """The same for programs."""
        ...

    def change(self, new: Any) -> str | None:
        """What an update to another memory of the same role changes; None for nothing."""
        ...


@dataclass(frozen=True)
class PresetValue:
    """A value of a container that the library writes, and where it comes from.

    Attributes:
        role: Name of the role.
        field: Field of the role, or of its container.
        value: The value, as people read it.
        origin: `user`, `model table`, `engine release`, `capacity` or `library default`.
        reason: Its rule or source.
    """

    role: str
    field: str
    value: str
    origin: str
    reason: str


@dataclass(frozen=True)
class RoleEngine:
    """The engine of a role whose container the library writes.

    Attributes:
        role: Name of the role.
        title: The engine's name as its project writes it.
        release: Its release.
        default: Whether the library chose the release.
    """

    role: str
    title: str
    release: str
    default: bool


@dataclass(frozen=True, kw_only=True)
class ServicePlan(Topology):
    """The plan of one service, from which its Kubernetes objects are built.

    Attributes:
        router: The router with its endpoint picker; None without one, or if it cannot be planned.
        service_route: The router that leads to the Service, None without one.
        findings: All findings, errors first.
        operations: Disruption budgets, autoscalers and monitors.
        model: Objects and pod settings of `model`, None without one.
        memory: Memory of one accelerator of each role of which enough is known, by its name.
        presets: Values of containers that the library wrote, in the order of the roles.
        engines: Engines of these containers.
    """

    router: RouterPlan | None
    service_route: RouterParts | None = None
    findings: tuple[Finding, ...]
    operations: OperationsPlan = field(default_factory=OperationsPlan)
    model: ModelPlan | None = None
    memory: Mapping[str, RoleMemory] = field(default_factory=dict)
    presets: tuple[PresetValue, ...] = ()
    engines: tuple[RoleEngine, ...] = ()

    @property
    def routing(self) -> RouterParts | None:
        """The router, with or without an endpoint picker."""
        return self.service_route if self.router is None else self.router

    @property
    def open_service(self) -> bool:
        """Whether clients reach the Service itself: no route leads to the pods."""
        return self.roles != () and (
            not self.shape.routers
            or (self.service_route is not None and not self.service_route.is_routed)
        )

    def with_routing(self, routing: RouterParts) -> ServicePlan:
        """The plan with another router of the same kind."""
        if isinstance(routing, RouterPlan):
            return replace(self, router=routing)
        return replace(self, service_route=routing)
