"""How a service is updated, and what an update waits for."""

from __future__ import annotations

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Count, CountOrPercentage, Duration
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

DEFAULT_TIMEOUT: str

class Layout(str, enum.Enum):
    """Which LeaderWorkerSets run the replicas of a role."""

    PER_REPLICA = "PerReplica"
    PER_ROLE = "PerRole"

    @property
    def replica_label(self) -> str: ...

class RolloutStrategy(str, enum.Enum):
    """Order in which replicas of a role change to a new pod template."""

    ROLLING = "Rolling"
    ALL_AT_ONCE = "AllAtOnce"
    RECREATE = "Recreate"

class RoleOrder(str, enum.Enum):
    """Whether roles change together."""

    TOGETHER = "Together"
    SEQUENTIAL = "Sequential"

class RolloutLevel(str, enum.Enum):
    """Unit of `maxUnavailable` and `partition`."""

    ROLE = "Role"
    GROUP = "Group"

class WaitLevel(str, enum.Enum):
    """Condition for which an update waits before it returns."""

    NONE = "None"
    SCHEDULED = "Scheduled"
    AVAILABLE = "Available"
    SERVING = "Serving"

    @property
    def awaits_replicas(self) -> bool: ...

class RoleRolloutArgs(SpecModel):
    """Update of one role; fields default to those of the service's `rollout`."""

    def __init__(self, **fields: Unpack[dicts.RoleRolloutArgsDict]) -> None: ...
    strategy: RolloutStrategy | None
    "`Rolling` (default), `AllAtOnce` or `Recreate`."
    max_unavailable: CountOrPercentage | None
    "Replicas that may be down because of an update, a count or a percentage of the replicas\n    (rounded down, at least 1); 1 by default. Only for `Rolling`; 0 only with `maxSurge`."
    max_surge: CountOrPercentage | None
    "Replicas above their number that an update may start, a count or a percentage of the\n    replicas (rounded up); 0 by default. Only for `Rolling` and layout `PerRole`, and they need\n    room of their own."
    partition: Count | None
    "Replicas with an ordinal below it keep the pod template that they have, until it is lowered;\n    0 by default. Layout `PerRole` has no partition with `Recreate`."
    timeout: Duration | None
    "How long one replica may take to become available in its new form before the update fails\n    and halts, such as `90s` or `1h30m`; 45m by default."

class RolloutArgs(RoleRolloutArgs):
    """Update of the service; a role may override all but `roleOrder` and `level`."""

    def __init__(self, **fields: Unpack[dicts.RolloutArgsDict]) -> None: ...
    role_order: RoleOrder
    "`Together` (default) or `Sequential`: in the order of the roles."
    level: RolloutLevel
    "`Role` (default), or with `groups` `Group`: whole serving groups change, the highest first;\n    `maxUnavailable` and `partition` then count groups."

class WaitArgs(SpecModel):
    """Condition for which an update waits before it returns."""

    def __init__(self, **fields: Unpack[dicts.WaitArgsDict]) -> None: ...
    level: WaitLevel
    "`None`, `Scheduled`, `Available` (default) or `Serving`."
    timeout: Duration
    "How long a new replica may take, such as `90s` or `1h30m`; 45m by default."
