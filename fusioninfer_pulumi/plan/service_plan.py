"""The plan of one service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.operations.operations import OperationsPlan
from fusioninfer_pulumi.pods.model_cache import ModelPlan
from fusioninfer_pulumi.routing.routing_plan import PickerPlan, Routing
from fusioninfer_pulumi.topology.service_topology import Topology


class RoleMemory(Protocol):
    """The memory of one accelerator of a role, as `plan` and `diff` show it."""

    @property
    def columns(self) -> Sequence[str]:
        """Heads of `row`."""
        ...

    def row(self) -> Sequence[str]:
        """Return a row of the table for people."""
        ...

    def to_json(self) -> Mapping[str, Any]:
        """Return the same for programs."""
        ...

    def change(self, new: Any) -> str | None:
        """Describe what an update to another memory of the same role changes; None for nothing."""
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
        routing: How requests reach the pods; None without a router role: they come to the Service.
        findings: All findings, errors first.
        operations: Disruption budgets, autoscalers and monitors.
        model: Objects and pod settings of `model`, None without one.
        memory: Memory of one accelerator of each role of which enough is known, by its name.
        presets: Values of containers that the library wrote, in the order of the roles.
        engines: Engines of these containers.
    """

    routing: Routing | None
    findings: tuple[Finding, ...]
    operations: OperationsPlan = field(default_factory=OperationsPlan)
    model: ModelPlan | None = None
    memory: Mapping[str, RoleMemory] = field(default_factory=dict)
    presets: tuple[PresetValue, ...] = ()
    engines: tuple[RoleEngine, ...] = ()

    @property
    def picker(self) -> PickerPlan | None:
        """The endpoint picker and its pool; None without one, or if it cannot be planned."""
        return self.routing.picker if self.routing is not None else None

    @property
    def has_serving_service(self) -> bool:
        """Whether a Service selects the serving pods: without a picker, or named by the route."""
        route = self.routing.route if self.routing is not None else None
        return not self.shape.picks_endpoints or (
            route is not None and route.leads_to(self.service)
        )

    @property
    def has_service_endpoint(self) -> bool:
        """Whether clients reach the Service itself: no route leads to the pods."""
        return self.roles != () and (
            self.routing is None
            or not (self.routing.args.picks_endpoints or self.routing.is_routed)
        )
