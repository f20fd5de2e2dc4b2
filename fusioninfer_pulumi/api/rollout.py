"""Updates of a service: batches, order, timeouts and waits."""

import enum
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_types import Count, CountOrPercentage, Duration
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.kube import labels

#: Enough for a model that loads in 30 minutes. The Kubernetes provider's default is 10 minutes.
DEFAULT_TIMEOUT = "45m"


class Layout(str, enum.Enum):
    """How many LeaderWorkerSets run the replicas of a role."""

    PER_REPLICA = "PerReplica"  #: one per replica; the Pulumi program orders updates
    PER_ROLE = "PerRole"  #: one per role; the LeaderWorkerSet controller orders updates

    @property
    def replica_label(self) -> str:
        """Pod label with the index of the replica in its role."""
        return labels.LWS_GROUP_INDEX if self is Layout.PER_ROLE else labels.REPLICA_INDEX


class RolloutStrategy(str, enum.Enum):
    """How replicas of a role are updated to a new pod template."""

    ROLLING = "Rolling"  #: in batches of at most `maxUnavailable`
    ALL_AT_ONCE = "AllAtOnce"  #: all replicas at the same time
    RECREATE = "Recreate"  #: deletes each replica with its pods, then creates it again


class RoleOrder(str, enum.Enum):
    """Order in which roles are updated."""

    TOGETHER = "Together"  #: all roles at the same time, independently
    SEQUENTIAL = "Sequential"  #: in the order of the spec, each after the previous one is done


class RolloutLevel(str, enum.Enum):
    """Unit that `maxUnavailable` and `partition` count."""

    ROLE = "Role"  #: replicas, per role, over all serving groups
    GROUP = "Group"  #: serving groups, each updated as a whole


class WaitLevel(str, enum.Enum):
    """The condition an update waits for before it returns."""

    NONE = "None"  #: the API server has accepted the objects
    SCHEDULED = "Scheduled"  #: the scheduler has placed the gang
    AVAILABLE = "Available"  #: every required replica is available
    SERVING = "Serving"  #: as `Available`, and gateways accept the route, and the endpoint responds

    @property
    def awaits_replicas(self) -> bool:
        """Whether the update waits until every required replica is available."""
        return self in (WaitLevel.AVAILABLE, WaitLevel.SERVING)


class RoleRolloutArgs(SpecModel):
    """Update of one role. A field that is not set takes the value of the service's `rollout`.

    The defaults below apply if the field is set in neither of the two.
    """

    strategy: Annotated[RolloutStrategy, Field(strict=False)] | None = None
    """`Rolling` (default), `AllAtOnce` or `Recreate`."""

    max_unavailable: CountOrPercentage | None = None
    """Replicas that may be unavailable during an update: a number, or a percentage, which is
    rounded down to at least 1; 1 by default. Only for `Rolling`; 0 only with `maxSurge`."""

    max_surge: CountOrPercentage | None = None
    """Additional replicas that an update may start, as a number or a percentage (rounded up); 0 by
    default. They need additional capacity. Only for `Rolling` with layout `PerRole`."""

    partition: Count | None = None
    """Replicas with an ordinal below `partition` keep their current pod template until `partition`
    is lowered; 0 by default. Not available for layout `PerRole` with `Recreate`."""

    timeout: Duration | None = None
    """Time that an updated replica may take to become available, such as `90s` or `1h30m`, before
    the update fails. Default: `45m`. If the startup time that the library derives from the model
    size is longer, the default is that time plus 10 minutes."""


class RolloutArgs(RoleRolloutArgs):
    """Update of the service. Roles may override all but `roleOrder`, `level` and `pullImages`."""

    role_order: Annotated[RoleOrder, Field(strict=False)] = RoleOrder.TOGETHER
    """`Together` (default) or `Sequential`: in the order of the roles."""

    level: Annotated[RolloutLevel, Field(strict=False)] = RolloutLevel.ROLE
    """`Role` (default) or `Group`. `Group` needs `groups` and updates whole serving groups, the
    highest index first; `maxUnavailable` and `partition` then count groups."""

    pull_images: bool = False
    """Whether DaemonSets pull the engines' images before an update changes pods, on all nodes where
    the pods may run. The images take disk space on all of these nodes. If an image cannot be
    pulled, the update fails and changes no pod."""


class WaitArgs(SpecModel):
    """The condition an update waits for before it returns."""

    level: Annotated[WaitLevel, Field(strict=False)] = WaitLevel.AVAILABLE
    """`None`, `Scheduled`, `Available` (default) or `Serving`."""

    timeout: Duration = DEFAULT_TIMEOUT
    """Time that new replicas, gateways and the endpoint may take together, such as `90s` or
    `1h30m`. Default: `45m`, extended in the same way as the default of `rollout.timeout`."""
