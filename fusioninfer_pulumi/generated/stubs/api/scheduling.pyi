"""How a service's pods are scheduled, and which of them only together."""

from __future__ import annotations

import enum

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Count, NameOrOutput, ObjectName, OnOff, SchedulerName
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
    """Which replicas of a role make up its minimum."""

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
    "Highest tier of a HyperNode that holds all of the pods; required with `hard`."

class NetworkTopologyArgs(SpecModel):
    """Placement by the network's topology, which HyperNodes describe (topology.volcano.sh)."""

    def __init__(self, **fields: Unpack[dicts.NetworkTopologyArgsDict]) -> None: ...
    group_policy: NetworkTopologyRuleArgs | None
    "For all pods of a gang: of a serving group, or of the service where there are no groups."
    role_policy: NetworkTopologyRuleArgs | None
    "For the pods of each replica of a role; the PodGroup then has the form of\n    `subGroupPolicy`."

class GangPolicyArgs(SpecModel):
    """Gang scheduling of the service's pods."""

    def __init__(self, **fields: Unpack[dicts.GangPolicyArgsDict]) -> None: ...
    mode: OnOff[GangMode]
    "`Auto` (default), `On` or `Off`."
    backend: GangBackend
    "`Volcano` (default). `Kueue`: every LeaderWorkerSet waits in the LocalQueue that `queue`\n    names until there is quota for a whole replica. `Native`: a PodGroup of Kubernetes 1.37\n    (`scheduling.k8s.io/v1beta1`, off by default there) holds all pods together. Only Volcano knows\n    a minimum of each role."
    min_role_replicas: dict[str, Count] | None
    "Replicas of each role that must be placed together; the others start as room appears. A\n    role that is not named needs all its replicas, 0 makes a role optional. By default the whole\n    service is all-or-nothing. Needs Volcano 1.14.1 or later (PodGroup `subGroupPolicy`)."
    required_replicas: RequiredReplicas
    "Which replicas `minRoleReplicas` counts: `Any` (default), or `LowestOrdinals`, with which\n    an optional replica that lacks room cannot take that of a required one in an update. But while\n    a required replica lacks room, no pod of the gang is placed, though others may run."
    min_resources: bool
    "Writes the gang's resource requests into the PodGroup, which Volcano then admits only while\n    the queue has room for them; off by default. Only the minimum counts where\n    `minRoleReplicas` is given."
    network_topology: NetworkTopologyArgs | None
    "How close to each other in the network pods are placed; by default nothing is said. Needs\n    HyperNodes and Volcano's scheduler plugin `network-topology-aware`."

class SchedulingStrategyArgs(SpecModel):
    """The scheduler, its queue and the gang."""

    def __init__(self, **fields: Unpack[dicts.SchedulingStrategyArgsDict]) -> None: ...
    scheduler_name: SchedulerName | None
    "Scheduler of the pods; by default `volcano` for a gang (`default-scheduler` with `backend:\n    Native`), else the cluster's."
    queue: NameOrOutput | None
    "Volcano queue, by default Volcano's `default`; with `backend: Kueue` the LocalQueue, which is\n    required. May be an Output."
    priority_class_name: ObjectName | None
    "PriorityClass of the PodGroup and of the pods."
    gang_policy: GangPolicyArgs
    "What must be placed together."
