"""What keeps a role available: startup probes, spread over nodes, disruption budgets."""

from __future__ import annotations

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
    """Startup probe of the engine: how long it may load its model."""

    def __init__(self, **fields: Unpack[dicts.StartupArgsDict]) -> None: ...
    timeout: Duration | None
    "How long, such as `30m`."
    model_size: Bytes | None
    "In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;\n    with `readRate` and 5 minutes for everything else it gives the time."
    read_rate: Bytes
    "What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."

class WhenUnsatisfiable(str, enum.Enum):
    """The scheduler's choice when a pod violates the spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"

class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    def __init__(self, **fields: Unpack[dicts.TopologySpreadArgsDict]) -> None: ...
    topology_key: LabelKey
    "Label of nodes that identifies the domain, such as `topology.kubernetes.io/zone`."
    max_skew: PositiveCount
    "By how many leaders two domains may differ; 1 by default."
    when_unsatisfiable: WhenUnsatisfiable
    "`ScheduleAnyway` (default) or `DoNotSchedule`, the default of Kubernetes."

class UnhealthyPods(str, enum.Enum):
    """Whether pods that are not ready may be evicted while the budget is used up."""

    ALWAYS_ALLOW = "AlwaysAllow"
    IF_HEALTHY_BUDGET = "IfHealthyBudget"

class DisruptionBudgetArgs(SpecModel):
    """A PodDisruptionBudget per role, counted in replicas; `{}` lets one replica down at a time."""

    def __init__(self, **fields: Unpack[dicts.DisruptionBudgetArgsDict]) -> None: ...
    max_unavailable: CountOrAnyPercentage | None
    "Replicas that evictions may take down at a time, a count or a percentage (rounded down, at\n    least 1 but for 0%); 1 by default. 0 forbids every eviction, and so every drain."
    min_available: CountOrAnyPercentage | None
    "In its place: replicas that stay up, a count or a percentage (rounded up)."
    unhealthy_pods: UnhealthyPods
    "`AlwaysAllow` (default) or `IfHealthyBudget`, the default of Kubernetes: whether pods that\n    are not ready may be evicted when the budget is used up."
