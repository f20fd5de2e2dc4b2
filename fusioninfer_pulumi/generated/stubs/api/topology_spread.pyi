"""Spread of a role's leaders over zones and nodes."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field
from typing_extensions import Unpack

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.types import LabelKey, PositiveCount
from fusioninfer_pulumi.generated import dicts

class WhenUnsatisfiable(str, enum.Enum):
    """What the scheduler does with a pod that would not be spread."""

    SCHEDULE_ANYWAY = "ScheduleAnyway"
    DO_NOT_SCHEDULE = "DoNotSchedule"

class TopologySpreadArgs(SpecModel):
    """Spreads the leaders of a role's replicas over zones, racks or nodes."""

    def __init__(self, **fields: Unpack[dicts.TopologySpreadArgsDict]) -> None: ...
    topology_key: LabelKey
    "Label of nodes that identifies the domain, such as `topology.kubernetes.io/zone`."
    max_skew: PositiveCount = 1
    "By how many leaders two domains may differ; 1 by default."
    when_unsatisfiable: Annotated[WhenUnsatisfiable, Field(strict=False)] = (
        WhenUnsatisfiable.SCHEDULE_ANYWAY
    )
    "`ScheduleAnyway` (default) or `DoNotSchedule`, the default of Kubernetes."
