"""The object of the entry point `fusioninfer.capacity`.

Each method imports what it needs, because most commands only call `check`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusioninfer_capacity.fit.memory import Fit
    from fusioninfer_capacity.placement.result import Placement, PreviousPools
    from fusioninfer_capacity.smallest import SmallestLayout
    from fusioninfer_pulumi.plugins.capacity import (
        Finding,
        InferenceServiceArgs,
        InventoryArgs,
        ModelArgs,
        ServicePlan,
    )


class _Capacity:
    """Implements `fusioninfer_pulumi.capacity_package.CapacityPackage`."""

    def check(
        self, plan: ServicePlan, args: InferenceServiceArgs
    ) -> tuple[Mapping[str, Fit], list[Finding]]:
        from fusioninfer_capacity.fit.roles import check_memory

        return check_memory(plan, args)

    def inventory_findings(self, inventory: InventoryArgs) -> list[Finding]:
        from fusioninfer_capacity.placement.placing import check_inventory

        return check_inventory(inventory)

    def read_previous(self, source: str | None) -> PreviousPools:
        from fusioninfer_capacity.placement.result import read_previous

        return read_previous(source)

    def place_services(
        self,
        services: Sequence[InferenceServiceArgs],
        inventory: InventoryArgs,
        *,
        previous: PreviousPools,
        plans: Sequence[ServicePlan],
    ) -> Placement:
        from fusioninfer_capacity.placement.placing import place_services

        return place_services(services, inventory, previous=previous, plans=plans)

    def layout(
        self, model: ModelArgs, accelerator: str, engine: str, length: int | None
    ) -> SmallestLayout | str:
        from fusioninfer_capacity.smallest import find_smallest_layout

        return find_smallest_layout(model, accelerator, engine, length)

    def model_bytes(self, model: ModelArgs) -> int | None:
        from fusioninfer_capacity.smallest import count_model_bytes

        return count_model_bytes(model)

    def model_names(self) -> list[str]:
        from fusioninfer_capacity.fit.architecture import load_models

        return sorted(load_models())

    def size_arguments(self, parser: argparse.ArgumentParser) -> None:
        from fusioninfer_capacity.size import add_arguments

        add_arguments(parser)

    def size(self, options: argparse.Namespace) -> int:
        from fusioninfer_capacity.size import size

        return size(options)

    def __getattr__(self, name: str) -> Any:
        """Return the public names: `Placement`, `place`, `read_inventory`, `read_placement`."""
        import fusioninfer_capacity

        if name not in fusioninfer_capacity.__all__:
            raise AttributeError(name)
        return getattr(fusioninfer_capacity, name)


CAPACITY = _Capacity()
