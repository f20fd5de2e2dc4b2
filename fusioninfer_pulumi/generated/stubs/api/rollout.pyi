"""Updates of a service: batches, order, timeouts and waits."""

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Count, CountOrPercentage, Duration
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

DEFAULT_TIMEOUT: str

class Layout(str, enum.Enum):
    """How many LeaderWorkerSets run the replicas of a role."""

    PER_REPLICA = "PerReplica"
    PER_ROLE = "PerRole"

    @property
    def replica_label(self) -> str: ...

class RolloutStrategy(str, enum.Enum):
    """How replicas of a role are updated to a new pod template."""

    ROLLING = "Rolling"
    ALL_AT_ONCE = "AllAtOnce"
    RECREATE = "Recreate"

class RoleOrder(str, enum.Enum):
    """Order in which roles are updated."""

    TOGETHER = "Together"
    SEQUENTIAL = "Sequential"

class RolloutLevel(str, enum.Enum):
    """Unit that `maxUnavailable` and `partition` count."""

    ROLE = "Role"
    GROUP = "Group"

class WaitLevel(str, enum.Enum):
    """The condition an update waits for before it returns."""

    NONE = "None"
    SCHEDULED = "Scheduled"
    AVAILABLE = "Available"
    SERVING = "Serving"

    @property
    def awaits_replicas(self) -> bool: ...

class RoleRolloutArgs(SpecModel):
    """Update of one role. A field that is not set takes the value of the service's `rollout`.

    The defaults below apply if the field is set in neither of the two.
    """

    def __init__(self, **fields: Unpack[dicts.RoleRolloutArgsDict]) -> None: ...
    strategy: RolloutStrategy | None
    "`Rolling` (default), `AllAtOnce` or `Recreate`."
    max_unavailable: CountOrPercentage | None
    "Replicas that may be unavailable during an update: a number, or a percentage, which is\n    rounded down to at least 1; 1 by default. Only for `Rolling`; 0 only with `maxSurge`."
    max_surge: CountOrPercentage | None
    "Additional replicas that an update may start, as a number or a percentage (rounded up); 0 by\n    default. They need additional capacity. Only for `Rolling` with layout `PerRole`."
    partition: Count | None
    "Replicas with an ordinal below `partition` keep their current pod template until `partition`\n    is lowered; 0 by default. Not available for layout `PerRole` with `Recreate`."
    timeout: Duration | None
    "Time that an updated replica may take to become available, such as `90s` or `1h30m`, before\n    the update fails. Default: `45m`. If the startup time that the library derives from the model\n    size is longer, the default is that time plus 10 minutes."

class RolloutArgs(RoleRolloutArgs):
    """Update of the service. Roles may override all but `roleOrder`, `level` and `pullImages`."""

    def __init__(self, **fields: Unpack[dicts.RolloutArgsDict]) -> None: ...
    role_order: RoleOrder
    "`Together` (default) or `Sequential`: in the order of the roles."
    level: RolloutLevel
    "`Role` (default) or `Group`. `Group` needs `groups` and updates whole serving groups, the\n    highest index first; `maxUnavailable` and `partition` then count groups."
    pull_images: bool
    "Whether DaemonSets pull the engines' images before an update changes pods, on all nodes where\n    the pods may run. The images take disk space on all of these nodes. If an image cannot be\n    pulled, the update fails and changes no pod."

class WaitArgs(SpecModel):
    """The condition an update waits for before it returns."""

    def __init__(self, **fields: Unpack[dicts.WaitArgsDict]) -> None: ...
    level: WaitLevel
    "`None`, `Scheduled`, `Available` (default) or `Serving`."
    timeout: Duration
    "Time that new replicas, gateways and the endpoint may take together, such as `90s` or\n    `1h30m`. Default: `45m`, extended in the same way as the default of `rollout.timeout`."
