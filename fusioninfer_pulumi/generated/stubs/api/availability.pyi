"""Availability of a role: startup probes, spread over nodes, disruption budgets."""

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import (
    Bytes,
    CountOrAnyPercentage,
    Duration,
    LabelKey,
    PositiveCount,
)
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class StartupArgs(SpecModel):
    """Startup probe of the engine."""

    def __init__(self, **fields: Unpack[dicts.StartupArgsDict]) -> None: ...
    timeout: Duration | None
    "Time that the engine may take to load its model, such as `30m`."
    model_size: Bytes | None
    "Size of the weights that a pod reads, such as `140Gi`; `model.size` by default. Without\n    `timeout`, the engine may take `modelSize` divided by `readRate`, plus 5 minutes."
    read_rate: Bytes
    "Bytes of weights that a pod reads per second, such as `1Gi`; by default `200Mi`, the rate of\n    a network disk."

class WhenUnsatisfiable(str, enum.Enum):
    """How the scheduler handles a pod that would violate the spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"

class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    def __init__(self, **fields: Unpack[dicts.TopologySpreadArgsDict]) -> None: ...
    topology_key: LabelKey
    "Node label that identifies the domain, such as `topology.kubernetes.io/zone`."
    max_skew: PositiveCount
    "Maximum difference in the number of leaders between two domains; 1 by default."
    when_unsatisfiable: WhenUnsatisfiable
    "`ScheduleAnyway` (default) or `DoNotSchedule` (Kubernetes' default)."

class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is exhausted."""

    ALWAYS_ALLOW = "AlwaysAllow"
    IF_HEALTHY_BUDGET = "IfHealthyBudget"

class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` allows one disruption at a time."""

    def __init__(self, **fields: Unpack[dicts.DisruptionBudgetArgsDict]) -> None: ...
    max_unavailable: CountOrAnyPercentage | None
    "Replicas that evictions may take down at a time, as a number or a percentage (rounded down,\n    at least 1 unless 0%); 1 by default. 0 blocks all evictions, including node drains."
    min_available: CountOrAnyPercentage | None
    "Replicas that must stay available, as a number or a percentage (rounded up); mutually\n    exclusive with `maxUnavailable`."
    unhealthy_pods: UnhealthyPods
    "Whether pods that are not ready may be evicted while the budget is exhausted: `AlwaysAllow`\n    (default) or `IfHealthyBudget` (Kubernetes' default)."
