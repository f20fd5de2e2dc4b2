"""The platform's policies, as plain functions on plans: they run at preview and in unit tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import ServicePlan, render


def find_violations(
    plans: Sequence[ServicePlan], gpu_budget: int, registries: Sequence[str]
) -> Iterator[str]:
    """Yield all violations, so that one preview reports all of them."""
    total = sum(plan.total_accelerators for plan in plans)
    if total > gpu_budget:
        yield f"the services need {total} GPUs, the budget is {gpu_budget}"
    for plan in plans:
        for image in sorted({str(image) for image in list_images(render(plan))}):
            if not image.startswith(tuple(registries)):
                yield f"{plan.service}: image {image} is not from {', '.join(registries)}"


def list_images(value: Any) -> Iterator[Any]:
    """Yield the images of all containers, including those that the library adds."""
    if isinstance(value, Mapping):
        if "image" in value:
            yield value["image"]
        value = value.values()
    if isinstance(value, Iterable) and not isinstance(value, str):
        for item in value:
            yield from list_images(item)
