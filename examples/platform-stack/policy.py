"""What this platform allows. Plain functions on plans: they run at preview, and in any test."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import ServicePlan, render


def violations(
    plans: Sequence[ServicePlan], gpu_budget: int, registries: Sequence[str]
) -> Iterator[str]:
    """Everything that is not allowed, so that nobody has to find it one preview at a time."""
    wanted = sum(plan.total_accelerators for plan in plans)
    if wanted > gpu_budget:
        yield f"{wanted} GPUs are wanted, the budget is {gpu_budget}"
    for plan in plans:
        for image in sorted({str(image) for image in images(render(plan))}):
            if not image.startswith(tuple(registries)):
                yield f"{plan.service}: image {image} is not from {', '.join(registries)}"


def images(value: Any) -> Iterator[Any]:
    """Images of all containers, those that the library adds included."""
    if isinstance(value, Mapping):
        if "image" in value:
            yield value["image"]
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            yield from images(item)
