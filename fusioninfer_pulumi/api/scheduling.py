"""Scheduling of a service's pods: scheduler, queue and gang."""

import enum
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.field_rules import check_fields, required_rule
from fusioninfer_pulumi.api.field_types import Count, ObjectName, ObjectNameOrOutput, OnOff, Text
from fusioninfer_pulumi.api.spec_model import SpecModel, default
from fusioninfer_pulumi.findings import Finding, Location


class GangMode(str, enum.Enum):
    """Whether a service's pods are scheduled as a gang."""

    AUTO = "Auto"  #: if a role spans nodes, or if prefill and decode are separate roles
    ON = "On"  #: always, even if all replicas are single pods
    OFF = "Off"  #: never; no PodGroup and no LocalQueue


class GangBackend(str, enum.Enum):
    """Gang-scheduling backend."""

    VOLCANO = "Volcano"  #: a PodGroup per service or serving group, with a minimum per role
    KUEUE = "Kueue"  #: Kueue admits each replica as a whole; the roles are not a gang
    NATIVE = "Native"  #: Kubernetes' PodGroup per service or serving group, always of all pods


class RequiredReplicas(str, enum.Enum):
    """Replicas of a role that count toward its minimum."""

    ANY = "Any"  #: any replicas: an optional replica can replace a lost required one
    LOWEST_ORDINALS = (
        "LowestOrdinals"  #: the first replicas; no other pod is scheduled without them
    )


class NetworkTopologyMode(str, enum.Enum):
    """Whether the network topology is a requirement or a preference."""

    HARD = "hard"  #: a requirement: pods stay pending otherwise
    SOFT = "soft"  #: a preference


class NetworkTopologyRuleArgs(SpecModel):
    """Maximum network distance between pods."""

    mode: Annotated[NetworkTopologyMode, Field(strict=False)] = NetworkTopologyMode.HARD
    """`hard` (default) or `soft`."""

    highest_tier_allowed: Count | None = None
    """Highest tier of a HyperNode that contains all of the pods; required with `hard`."""

    def findings(self, location: Location) -> Iterator[Finding]:
        """Check that mode `hard` has a tier."""
        message = "is required for mode hard, because Volcano ignores the mode otherwise"
        is_hard = self.mode is NetworkTopologyMode.HARD
        return check_fields(
            location, self, required_rule("highest_tier_allowed", message, when=is_hard)
        )


class NetworkTopologyArgs(SpecModel):
    """Network topology constraints, based on Volcano's HyperNodes (topology.volcano.sh)."""

    group_policy: NetworkTopologyRuleArgs | None = None
    """Maximum distance between all pods of a service or serving group."""

    role_policy: NetworkTopologyRuleArgs | None = None
    """Maximum distance between the pods of one replica; the PodGroup then uses `subGroupPolicy`."""


class GangPolicyArgs(SpecModel):
    """Gang scheduling of the service's pods."""

    mode: OnOff[GangMode] = GangMode.AUTO
    """`Auto` (default), `On` or `Off`."""

    backend: Annotated[GangBackend, Field(strict=False)] = GangBackend.VOLCANO
    """`Volcano` (default). `Kueue`: every LeaderWorkerSet waits in the LocalQueue `queue` until
    there is quota for a whole replica. `Native`: a PodGroup of Kubernetes 1.37
    (`scheduling.k8s.io/v1beta1`, which is off by default) gang-schedules all pods. Only Volcano
    supports a minimum per role."""

    min_role_replicas: dict[str, Count] | None = None
    """Number of replicas of each role that the gang requires; other replicas start when there is
    capacity. All replicas of a role without an entry are required; 0 makes a role optional. By
    default the whole service is all-or-nothing. Requires Volcano 1.14.1 or later (PodGroup
    `subGroupPolicy`)."""

    required_replicas: Annotated[RequiredReplicas, Field(strict=False)] = RequiredReplicas.ANY
    """Which replicas `minRoleReplicas` counts: `Any` (default) or `LowestOrdinals`. With
    `LowestOrdinals` an optional replica cannot replace a required one during an update, but while a
    required replica is unschedulable, no other pod of the gang is scheduled."""

    min_resources: bool = False
    """Whether to set `minResources` in the PodGroup: Volcano then admits the gang only if the queue
    has capacity for it or, with `minRoleReplicas`, for its required replicas. Off by default."""

    network_topology: NetworkTopologyArgs | None = None
    """Maximum network distance between pods; unlimited by default. Requires HyperNodes and
    Volcano's scheduler plugin `network-topology-aware`."""


class SchedulingStrategyArgs(SpecModel):
    """The scheduler, its queue and the gang."""

    scheduler_name: Text | None = None
    """Scheduler of the pods. Default: `volcano` for a gang (`default-scheduler` with `backend:
    Native`), else the cluster's default."""

    queue: ObjectNameOrOutput | None = None
    """Volcano queue, Volcano's `default` if not set; with `backend: Kueue` the LocalQueue, which is
    required. May be an Output."""

    priority_class_name: ObjectName | None = None
    """PriorityClass of the PodGroup and of the pods."""

    gang_policy: GangPolicyArgs = default(GangPolicyArgs)
    """Gang scheduling of the service's pods."""
