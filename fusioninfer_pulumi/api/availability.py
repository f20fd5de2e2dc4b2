"""Availability of a role: startup probes, spread over nodes, disruption budgets."""

import enum
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    CountOrAnyPercentage,
    Duration,
    LabelKey,
    PositiveCount,
)
from fusioninfer_pulumi.api.spec_model import SpecModel


class StartupArgs(SpecModel):
    """Startup probe of the engine."""

    timeout: Duration | None = None
    """Time that the engine may take to load its model, such as `30m`."""

    model_size: Bytes | None = None
    """Size of the weights that a pod reads, such as `140Gi`; `model.size` by default. Without
    `timeout`, the engine may take `modelSize` divided by `readRate`, plus 5 minutes."""

    read_rate: Bytes = "200Mi"
    """Bytes of weights that a pod reads per second, such as `1Gi`; by default `200Mi`, the rate of
    a network disk."""

    AT_MOST_ONE_OF = ("timeout", "model_size")


class WhenUnsatisfiable(str, enum.Enum):
    """How the scheduler handles a pod that would violate the spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"  #: schedules it where it violates the spread least
    DO_NOT_SCHEDULE = "DoNotSchedule"  #: does not schedule it


class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    topology_key: LabelKey
    """Node label that identifies the domain, such as `topology.kubernetes.io/zone`."""

    max_skew: PositiveCount = 1
    """Maximum difference in the number of leaders between two domains; 1 by default."""

    when_unsatisfiable: Annotated[WhenUnsatisfiable, Field(strict=False)] = (
        WhenUnsatisfiable.SCHEDULE_ANYWAY
    )
    """`ScheduleAnyway` (default) or `DoNotSchedule` (Kubernetes' default)."""


class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is exhausted."""

    ALWAYS_ALLOW = "AlwaysAllow"  #: always, because these pods would only block a drain
    IF_HEALTHY_BUDGET = "IfHealthyBudget"  #: only if the healthy pods still meet the budget


class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` allows one disruption at a time."""

    max_unavailable: CountOrAnyPercentage | None = None
    """Replicas that evictions may take down at a time, as a number or a percentage (rounded down,
    at least 1 unless 0%); 1 by default. 0 blocks all evictions, including node drains."""

    min_available: CountOrAnyPercentage | None = None
    """Replicas that must stay available, as a number or a percentage (rounded up); mutually
    exclusive with `maxUnavailable`."""

    unhealthy_pods: Annotated[UnhealthyPods, Field(strict=False)] = UnhealthyPods.ALWAYS_ALLOW
    """Whether pods that are not ready may be evicted while the budget is exhausted: `AlwaysAllow`
    (default) or `IfHealthyBudget` (Kubernetes' default)."""

    AT_MOST_ONE_OF = ("max_unavailable", "min_available")
