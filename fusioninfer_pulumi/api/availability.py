"""What keeps a role available: startup probes, spread over nodes, disruption budgets."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    CountOrAnyPercentage,
    Duration,
    LabelKey,
    PositiveCount,
)
from fusioninfer_pulumi.api.spec_model import SpecModel, reject_conflict
from fusioninfer_pulumi.findings import Finding, Location


class StartupArgs(SpecModel):
    """Startup probe of the engine: how long it may load its model."""

    timeout: Duration | None = None
    """How long, such as `30m`."""

    model_size: Bytes | None = None
    """In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;
    with `readRate` and 5 minutes for everything else it gives the time."""

    read_rate: Bytes = "200Mi"
    """What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."""

    def findings(self, at: Location) -> Iterator[Finding]:
        """Check that one field sets the time."""
        return reject_conflict(at, self, "timeout", "model_size")


class WhenUnsatisfiable(str, enum.Enum):
    """The scheduler's choice when a pod violates the spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"  #: places it where it spreads best
    DO_NOT_SCHEDULE = "DoNotSchedule"  #: leaves it waiting


class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    topology_key: LabelKey
    """Label of nodes that identifies the domain, such as `topology.kubernetes.io/zone`."""

    max_skew: PositiveCount = 1
    """By how many leaders two domains may differ; 1 by default."""

    when_unsatisfiable: Annotated[WhenUnsatisfiable, Field(strict=False)] = (
        WhenUnsatisfiable.SCHEDULE_ANYWAY
    )
    """`ScheduleAnyway` (default) or `DoNotSchedule`, the default of Kubernetes."""


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

    def findings(self, at: Location) -> Iterator[Finding]:
        """Check that one field limits disruptions."""
        return reject_conflict(at, self, "max_unavailable", "min_available")
