"""PodDisruptionBudgets of a role."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field, model_validator
from typing_extensions import Unpack

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.types import CountOrAnyPercentage
from fusioninfer_pulumi.generated import dicts

class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is used up."""

    ALWAYS_ALLOW = "AlwaysAllow"
    IF_HEALTHY_BUDGET = "IfHealthyBudget"

class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` lets one replica down at a time."""

    def __init__(self, **fields: Unpack[dicts.DisruptionBudgetArgsDict]) -> None: ...
    max_unavailable: CountOrAnyPercentage | None = None
    "Replicas that evictions may take down at a time, a count or a percentage (rounded down, at\n    least 1 but for 0%); 1 by default. 0 forbids every eviction, and so every drain."
    min_available: CountOrAnyPercentage | None = None
    "In its place: replicas that stay up, a count or a percentage (rounded up)."
    unhealthy_pods: Annotated[UnhealthyPods, Field(strict=False)] = UnhealthyPods.ALWAYS_ALLOW
    "`AlwaysAllow` (default) or `IfHealthyBudget`, the default of Kubernetes: whether pods that\n    are not ready may be evicted when the budget is used up."

    @model_validator(mode="after")
    def _one_of_both(self) -> DisruptionBudgetArgs: ...
