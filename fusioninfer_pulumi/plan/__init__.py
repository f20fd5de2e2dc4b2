"""The topology of a service as pure maths: replicas, pods, accelerators, gangs, names, capacity.

Reads a spec and writes frozen records; knows no Kubernetes object and no Pulumi.
"""

from fusioninfer_pulumi.plan.build import plan_service, plan_services
from fusioninfer_pulumi.plan.records import (
    GangPlan,
    ReplicaPlan,
    RolePlan,
    ServicePlan,
    SetPlan,
    SubGroup,
)

__all__ = [
    "GangPlan",
    "ReplicaPlan",
    "RolePlan",
    "ServicePlan",
    "SetPlan",
    "SubGroup",
    "plan_service",
    "plan_services",
]
