"""What the package of the entry point `fusioninfer.capacity` adds: memory, sizes and placement.

Loaded only for roles whose accelerators are known, and for the commands and names that need it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.extras import install_command, plugins
from fusioninfer_pulumi.findings import Finding, Rule
from fusioninfer_pulumi.plan.service_plan import RoleMemory, ServicePlan

if TYPE_CHECKING:
    # For type checkers alone: the package is found by its entry point.
    from fusioninfer_capacity import Placement as Placement  # noqa: PLC0414  # a public name
    from fusioninfer_capacity import place as place  # noqa: PLC0414  # likewise
    from fusioninfer_capacity import read_inventory as read_inventory  # noqa: PLC0414  # likewise
    from fusioninfer_capacity import read_placement as read_placement  # noqa: PLC0414  # likewise

GROUP = "fusioninfer.capacity"
#: Public names of `fusioninfer_pulumi` that the package provides.
NAMES = ("Placement", "place", "read_inventory", "read_placement")
#: The end of a sentence about what needs the package.
MISSING = f"needs the package fusioninfer-capacity: {install_command('capacity')}"

CAPACITY_MISSING = Rule("capacity-missing")
MEMORY_NOT_CHECKED = Rule("memory-not-checked")


class ModelLayout(Protocol):
    """The smallest layout of a model on accelerators of one kind."""

    @property
    def tensor(self) -> int:
        """Accelerators of each pod, which share each layer."""

    @property
    def nodes(self) -> int:
        """Pods of a replica, each with one stage of the layers."""

    @property
    def spread(self) -> bool:
        """Whether experts are spread over the accelerators, not split."""

    @property
    def copied_tensor(self) -> int | None:
        """Accelerators of each copy of the attention, if copies span the nodes, not stages.

        The copies share the experts. None if no such layout fits, or on one node.
        """

    @property
    def reason(self) -> str:
        """Reason for the choice."""


class PlacementResult(Protocol):
    """Where services are placed."""

    @property
    def services(self) -> Sequence[InferenceServiceArgs]:
        """The services on their pools, in input order."""

    @property
    def findings(self) -> Mapping[int, Sequence[Finding]]:
        """Findings by the index of the service that they concern; -1 for all."""

    def to_json(self, index: int) -> Mapping[str, Any] | None:
        """Where one service is placed; None for one that cannot be planned."""

    def tables(self, index: int) -> Iterable[Any]:
        """Renderables of `rich` with the placement of one service."""

    def pools_table(self) -> Any:
        """A table of what is free in the pools."""


class CapacityPackage(Protocol):
    """The object that the entry point names."""

    def check(
        self, plan: ServicePlan, args: InferenceServiceArgs
    ) -> tuple[Mapping[str, RoleMemory], Sequence[Finding]]:
        """The memory of roles by their names, as far as it is known, and what is wrong with it."""

    def inventory_findings(self, inventory: InventoryArgs) -> Sequence[Finding]:
        """Return findings about an inventory that its models accept."""

    def read_previous(self, source: str | None) -> Any:
        """An earlier placement: the JSON of `plan --inventory` or `place`, at a path.

        Raises:
            InvalidServiceError: It is something else.
            OSError: It cannot be read.
        """

    def place_services(
        self,
        services: Sequence[InferenceServiceArgs],
        inventory: InventoryArgs,
        *,
        previous: Any,
        plans: Sequence[ServicePlan],
    ) -> PlacementResult:
        """Choose a node pool for each role of several services."""

    def layout(
        self, model: ModelArgs, accelerator: str, engine: str, length: int | None
    ) -> ModelLayout | str:
        """Return the smallest layout for a model, or why none is known, as the end of a sentence.

        `length` is that of the longest sequence, None for the model's own.
        """

    def model_bytes(self, model: ModelArgs) -> int | None:
        """Bytes of a model's weights, None where they are not known."""

    def model_names(self) -> Sequence[str]:
        """The models that `size` knows."""

    def size_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command `size`."""

    def size(self, options: argparse.Namespace) -> int:
        """Run the command `size` and return its exit status."""

    @property
    def place(self) -> Callable[..., Any]:
        """The public function of this name; likewise the other public names."""


@cache
def capacity() -> CapacityPackage | None:
    """The installed package, None without one; of several the first by name."""
    return next((package for _, package in plugins(GROUP)), None)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = capacity()
    if package is None:
        raise ImportError(f"fusioninfer_pulumi.{name} {MISSING}")
    return getattr(package, name)
