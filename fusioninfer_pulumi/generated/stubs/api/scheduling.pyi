"""Scheduling of a service's pods: scheduler, queue and gang."""

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Count, ObjectName, ObjectNameOrOutput, OnOff, Text
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

class GangMode(str, enum.Enum):
    """Whether a service's pods are scheduled as a gang."""

    AUTO = "Auto"
    ON = "On"
    OFF = "Off"

class GangBackend(str, enum.Enum):
    """Gang-scheduling backend."""

    VOLCANO = "Volcano"
    KUEUE = "Kueue"
    NATIVE = "Native"

class RequiredReplicas(str, enum.Enum):
    """Replicas of a role that count toward its minimum."""

    ANY = "Any"
    LOWEST_ORDINALS = "LowestOrdinals"

class NetworkTopologyMode(str, enum.Enum):
    """Whether the network topology is a requirement or a preference."""

    HARD = "hard"
    SOFT = "soft"

class NetworkTopologyRuleArgs(SpecModel):
    """Maximum network distance between pods."""

    def __init__(self, **fields: Unpack[dicts.NetworkTopologyRuleArgsDict]) -> None: ...
    mode: NetworkTopologyMode
    "`hard` (default) or `soft`."
    highest_tier_allowed: Count | None
    "Highest tier of a HyperNode that contains all of the pods; required with `hard`."

class NetworkTopologyArgs(SpecModel):
    """Network topology constraints, based on Volcano's HyperNodes (topology.volcano.sh)."""

    def __init__(self, **fields: Unpack[dicts.NetworkTopologyArgsDict]) -> None: ...
    group_policy: NetworkTopologyRuleArgs | None
    "Maximum distance between all pods of a service or serving group."
    role_policy: NetworkTopologyRuleArgs | None
    "Maximum distance between the pods of one replica; the PodGroup then uses `subGroupPolicy`."

class GangPolicyArgs(SpecModel):
    """Gang scheduling of the service's pods."""

    def __init__(self, **fields: Unpack[dicts.GangPolicyArgsDict]) -> None: ...
    mode: OnOff[GangMode]
    "`Auto` (default), `On` or `Off`."
    backend: GangBackend
    "`Volcano` (default). `Kueue`: every LeaderWorkerSet waits in the LocalQueue `queue` until\n    there is quota for a whole replica. `Native`: a PodGroup of Kubernetes 1.37\n    (`scheduling.k8s.io/v1beta1`, which is off by default) gang-schedules all pods. Only Volcano\n    supports a minimum per role."
    min_role_replicas: dict[str, Count] | None
    "Number of replicas of each role that the gang requires; other replicas start when there is\n    capacity. All replicas of a role without an entry are required; 0 makes a role optional. By\n    default the whole service is all-or-nothing. Requires Volcano 1.14.1 or later (PodGroup\n    `subGroupPolicy`)."
    required_replicas: RequiredReplicas
    "Which replicas `minRoleReplicas` counts: `Any` (default) or `LowestOrdinals`. With\n    `LowestOrdinals` an optional replica cannot replace a required one during an update, but while a\n    required replica is unschedulable, no other pod of the gang is scheduled."
    min_resources: bool
    "Whether to set `minResources` in the PodGroup: Volcano then admits the gang only if the queue\n    has capacity for it or, with `minRoleReplicas`, for its required replicas. Off by default."
    network_topology: NetworkTopologyArgs | None
    "Maximum network distance between pods; unlimited by default. Requires HyperNodes and\n    Volcano's scheduler plugin `network-topology-aware`."

class SchedulingStrategyArgs(SpecModel):
    """The scheduler, its queue and the gang."""

    def __init__(self, **fields: Unpack[dicts.SchedulingStrategyArgsDict]) -> None: ...
    scheduler_name: Text | None
    "Scheduler of the pods. Default: `volcano` for a gang (`default-scheduler` with `backend:\n    Native`), else the cluster's default."
    queue: ObjectNameOrOutput | None
    "Volcano queue, Volcano's `default` if not set; with `backend: Kueue` the LocalQueue, which is\n    required. May be an Output."
    priority_class_name: ObjectName | None
    "PriorityClass of the PodGroup and of the pods."
    gang_policy: GangPolicyArgs
    "Gang scheduling of the service's pods."
