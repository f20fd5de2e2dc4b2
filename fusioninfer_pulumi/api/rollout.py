"""How a service is updated, and what an update waits for."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Count, CountOrPercentage, Duration
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.kube import labels

#: Enough for a model that loads half an hour; the provider's own limit is ten minutes.
DEFAULT_TIMEOUT = "45m"


class Layout(str, enum.Enum):
    """Which LeaderWorkerSets run the replicas of a role."""

    PER_REPLICA = "PerReplica"  #: one for each replica; the engine paces updates
    PER_ROLE = "PerRole"  #: one for all of them; LeaderWorkerSet paces updates

    @property
    def replica_label(self) -> str:
        """Label of pods that identifies a role's replica; with `PerRole` LeaderWorkerSet's."""
        return labels.LWS_GROUP_INDEX if self is Layout.PER_ROLE else labels.REPLICA_INDEX


class RolloutStrategy(str, enum.Enum):
    """Order in which replicas of a role change to a new pod template."""

    ROLLING = "Rolling"  #: at most `maxUnavailable` at a time, each when the last is available
    ALL_AT_ONCE = "AllAtOnce"  #: all together
    RECREATE = "Recreate"  #: each is deleted with all its pods, then recreated


class RoleOrder(str, enum.Enum):
    """Whether roles change together."""

    TOGETHER = "Together"  #: all roles at the same time, each at its own pace
    SEQUENTIAL = "Sequential"  #: in the order of the spec, a role when the one before is done


class RolloutLevel(str, enum.Enum):
    """Unit of `maxUnavailable` and `partition`."""

    ROLE = "Role"  #: replicas of a role, over all serving groups
    GROUP = "Group"  #: serving groups, each of which changes as a whole


class WaitLevel(str, enum.Enum):
    """Condition for which an update waits before it returns."""

    NONE = "None"  #: the API server has accepted the objects
    SCHEDULED = "Scheduled"  #: the scheduler has placed the gang
    AVAILABLE = "Available"  #: every required replica is available
    SERVING = "Serving"  #: and gateways have accepted the route, and the endpoint answers

    @property
    def awaits_replicas(self) -> bool:
        """Whether it waits until every required replica is available."""
        return self in (WaitLevel.AVAILABLE, WaitLevel.SERVING)


class RoleRolloutArgs(SpecModel):
    """Update of one role; fields default to those of the service's `rollout`."""

    strategy: Annotated[RolloutStrategy, Field(strict=False)] | None = None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: CountOrPercentage | None = None
    """Replicas that may be down because of an update, a count or a percentage of the replicas
    (rounded down, at least 1); 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: CountOrPercentage | None = None
    """Replicas above their number that an update may start, a count or a percentage of the
    replicas (rounded up); 0 by default. Only for `Rolling` and layout `PerRole`, and they need
    room of their own."""

    partition: Count | None = None
    """Replicas with an ordinal below it keep the pod template that they have, until it is lowered;
    0 by default. Layout `PerRole` has no partition with `Recreate`."""

    timeout: Duration | None = None
    """How long one replica may take to become available in its new form before the update fails
    and halts, such as `90s` or `1h30m`; 45m by default."""


class RolloutArgs(RoleRolloutArgs):
    """Update of the service; a role may override all but `roleOrder` and `level`."""

    role_order: Annotated[RoleOrder, Field(strict=False)] = RoleOrder.TOGETHER
    """`Together` (default) or `Sequential`: in the order of the roles."""

    level: Annotated[RolloutLevel, Field(strict=False)] = RolloutLevel.ROLE
    """`Role` (default), or with `groups` `Group`: whole serving groups change, the highest first;
    `maxUnavailable` and `partition` then count groups."""


class WaitArgs(SpecModel):
    """Condition for which an update waits before it returns."""

    level: Annotated[WaitLevel, Field(strict=False)] = WaitLevel.AVAILABLE
    """`None`, `Scheduled`, `Available` (default) or `Serving`."""

    timeout: Duration = DEFAULT_TIMEOUT
    """How long a new replica may take, such as `90s` or `1h30m`; 45m by default."""
