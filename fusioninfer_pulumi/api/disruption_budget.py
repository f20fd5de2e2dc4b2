"""PodDisruptionBudgets of a role."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field, model_validator

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import rule_error
from fusioninfer_pulumi.api.types import CountOrAnyPercentage
from fusioninfer_pulumi.rules.common import FIELDS_EXCLUDE_EACH_OTHER


class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is used up."""

    ALWAYS_ALLOW = "AlwaysAllow"  #: they serve nothing, and must not hold up a drain
    IF_HEALTHY_BUDGET = "IfHealthyBudget"  #: only while the others suffice


class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` lets one replica down at a time."""

    max_unavailable: CountOrAnyPercentage | None = None
    """Replicas that evictions may take down at a time, a count or a percentage (rounded down, at
    least 1 but for 0%); 1 by default. 0 forbids every eviction, and so every drain."""

    min_available: CountOrAnyPercentage | None = None
    """In its place: replicas that stay up, a count or a percentage (rounded up)."""

    unhealthy_pods: Annotated[UnhealthyPods, Field(strict=False)] = UnhealthyPods.ALWAYS_ALLOW
    """`AlwaysAllow` (default) or `IfHealthyBudget`, the default of Kubernetes: whether pods that
    are not ready may be evicted when the budget is used up."""

    @model_validator(mode="after")
    def _one_of_both(self) -> DisruptionBudgetArgs:
        if self.max_unavailable is not None and self.min_available is not None:
            raise rule_error(
                FIELDS_EXCLUDE_EACH_OTHER,
                "maxUnavailable and minAvailable say the same; give one of them",
            )
        return self
