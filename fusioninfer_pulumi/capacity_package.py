"""Interface to the package fusioninfer-capacity: memory estimates, sizes and placement.

The package is found by the entry point group `fusioninfer.capacity`, and loaded when needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.extras import install_command, load_plugins
from fusioninfer_pulumi.findings import Finding, Rule
from fusioninfer_pulumi.plan.service_plan import RoleMemory, ServicePlan

if TYPE_CHECKING:
    # For type checkers only: the package is loaded by its entry point.
    from fusioninfer_capacity import (
        Placement as Placement,  # noqa: PLC0414  # a public name
        place as place,  # noqa: PLC0414  # likewise
        read_inventory as read_inventory,  # noqa: PLC0414  # likewise
        read_placement as read_placement,  # noqa: PLC0414  # likewise
    )

ENTRY_POINT_GROUP = "fusioninfer.capacity"
#: Public names of `fusioninfer_pulumi` that the package provides.
NAMES = ("Placement", "place", "read_inventory", "read_placement")
#: The end of a sentence about a feature that needs the package.
NEEDS_CAPACITY = f"needs the package fusioninfer-capacity: {install_command('capacity')}"

CAPACITY_MISSING = Rule("capacity-missing")
MEMORY_NOT_CHECKED = Rule("memory-not-checked")


class ModelLayout(Protocol):
    """The smallest layout of a model on accelerators of one kind."""

    @property
    def tensor(self) -> int:
        """Accelerators per pod: the tensor parallel size, unless `rank_tensor_size` is used."""

    @property
    def nodes(self) -> int:
        """Pods per replica: each is a pipeline stage, or runs data parallel ranks."""

    @property
    def has_expert_parallelism(self) -> bool:
        """Whether each accelerator holds whole experts instead of a part of every expert."""

    @property
    def rank_tensor_size(self) -> int | None:
        """Tensor parallel size if the pods run data parallel ranks that share the experts.

        None if this alternative to pipeline stages does not fit, or if there is only one pod.
        """

    @property
    def reason(self) -> str:
        """The start of a sentence, such as `the fewest H100 that fit the model`."""


class PlacementResult(Protocol):
    """The node pools chosen for services."""

    @property
    def services(self) -> Sequence[InferenceServiceArgs]:
        """The services with the node selectors of their pools, in input order."""

    @property
    def findings(self) -> Mapping[int, Sequence[Finding]]:
        """Findings keyed by the index of their service; -1 means all services."""

    def to_json(self, index: int) -> Mapping[str, Any] | None:
        """Return the placement of one service, or None if the service cannot be planned."""

    def tables(self, index: int) -> Iterable[Any]:
        """Return `rich` renderables with the placement of one service."""

    def pools_table(self) -> Any:
        """Return a `rich` table of the pools' free accelerators."""


class CapacityPackage(Protocol):
    """The object that the entry point loads."""

    def check(
        self, plan: ServicePlan, args: InferenceServiceArgs
    ) -> tuple[Mapping[str, RoleMemory], Sequence[Finding]]:
        """Return the available memory estimates, keyed by role name, and findings."""

    def inventory_findings(self, inventory: InventoryArgs) -> Sequence[Finding]:
        """Return findings that the field checks of `InventoryArgs` do not cover."""

    def read_previous(self, source: str | None) -> Any:
        """Read a file with the JSON of `plan --inventory` or `place`.

        If `source` is None, there is no previous placement.

        Raises:
            InvalidServiceError: The file is not a placement.
            OSError: The file cannot be read.
        """

    def place_services(
        self,
        services: Sequence[InferenceServiceArgs],
        inventory: InventoryArgs,
        *,
        previous: Any,
        plans: Sequence[ServicePlan],
    ) -> PlacementResult:
        """Choose a node pool for each role; `previous` is a result of `read_previous`."""

    def layout(
        self, model: ModelArgs, accelerator: str, engine: str, length: int | None
    ) -> ModelLayout | str:
        """Return the smallest layout for a model, or why none is known, as the end of a sentence.

        `length` is the longest sequence in tokens, or None for the model's maximum.
        """

    def model_bytes(self, model: ModelArgs) -> int | None:
        """Return the bytes of a model's weights, or None if they are unknown."""

    def model_names(self) -> Sequence[str]:
        """Return the models that `size` knows."""

    def size_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command `size`."""

    def size(self, options: argparse.Namespace) -> int:
        """Run the command `size` and return its exit status."""

    @property
    def place(self) -> Callable[..., Any]:
        """The public function `place`; the other names in `NAMES` are also attributes."""


@cache
def load_package() -> CapacityPackage | None:
    """Return the installed capacity package, or None if there is none."""
    return next(load_plugins(ENTRY_POINT_GROUP), None)


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = load_package()
    if package is None:
        raise ImportError(f"fusioninfer_pulumi.{name} {NEEDS_CAPACITY}")
    return getattr(package, name)
