"""Kthena's ModelServing, field by field as its CRD publishes it (workload.serving.volcano.sh)."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from fusioninfer_pulumi.api.types import CountOrAnyPercentage
from fusioninfer_pulumi.importers.metadata import ObjectMetadata
from fusioninfer_pulumi.importers.model import DialectModel

Count = Annotated[int, Field(ge=0)]
#: A count, or a percentage such as `10%`.
CountOrPercentage = CountOrAnyPercentage


class RecoveryPolicy(str, enum.Enum):
    """What is made anew when a pod fails."""

    SERVING_GROUP_RECREATE = "ServingGroupRecreate"
    ROLE_RECREATE = "RoleRecreate"
    NONE = "None"


class RolloutType(str, enum.Enum):
    """What a rolling update goes by."""

    SERVING_GROUP = "ServingGroupRollingUpdate"
    ROLE = "RoleRollingUpdate"


class TopologyMode(str, enum.Enum):
    """Whether pods may be placed beyond the tier."""

    HARD = "hard"
    SOFT = "soft"


class PodTemplate(DialectModel):
    """A pod template; its fields are checked by our own rules."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Role(DialectModel):
    """One role of a serving group."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=12)]
    replicas: Count | None = None
    entry_template: PodTemplate
    # The CRD requires it; the document's sample leaves it out.
    worker_replicas: Count = 0
    worker_template: PodTemplate | None = None
    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class GangPolicy(DialectModel):
    """How much of a serving group must be placed together."""

    min_role_replicas: dict[str, Count] | None = None


class TopologyPolicy(DialectModel):
    """Volcano's NetworkTopologySpec."""

    mode: Annotated[TopologyMode, Field(strict=False)] | None = None
    highest_tier_allowed: Count | None = None
    highest_tier_name: str | None = None


class NetworkTopology(DialectModel):
    """How close the pods of a group, and of a role's replica, have to be."""

    group_policy: TopologyPolicy | None = None
    role_policy: TopologyPolicy | None = None


class ServingGroup(DialectModel):
    """The template of the serving groups."""

    restart_grace_period_seconds: Count | None = None
    gang_policy: GangPolicy | None = None
    # The sample of Kthena's article spells it so.
    gangpolicy: Annotated[GangPolicy | None, Field(alias="gangpolicy")] = None
    network_topology: NetworkTopology | None = None
    roles: Annotated[list[Role], Field(min_length=1, max_length=4)]


class RollingUpdate(DialectModel):
    """Pace of a rolling update of serving groups."""

    max_unavailable: CountOrPercentage | None = None
    partition: CountOrPercentage | None = None


class RolloutStrategy(DialectModel):
    """How serving groups are updated."""

    type: Annotated[RolloutType, Field(strict=False)] | None = None
    rolling_update_configuration: RollingUpdate | None = None


class ModelServingSpec(DialectModel):
    """The spec of a ModelServing."""

    replicas: Count | None = None
    scheduler_name: str | None = None
    plugins: list[dict[str, Any]] | None = None
    template: ServingGroup
    rollout_strategy: RolloutStrategy | None = None
    recovery_policy: Annotated[RecoveryPolicy, Field(strict=False)] | None = None


class ModelServing(DialectModel):
    """A ModelServing."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: ModelServingSpec
    status: dict[str, Any] | None = None
