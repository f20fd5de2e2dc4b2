"""The plan of one service."""

from __future__ import annotations

from dataclasses import dataclass, field

from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.operations.operations import OperationsPlan
from fusioninfer_pulumi.pods.model_cache import ModelPlan
from fusioninfer_pulumi.routing.router import RouterPlan
from fusioninfer_pulumi.topology.topology import Topology


@dataclass(frozen=True, kw_only=True)
class ServicePlan(Topology):
    """Everything that follows from a service's spec, before any Kubernetes object is written.

    Attributes:
        routers: Router roles.
        router: The router, None without a router role or where it could not be planned.
        findings: What is to be said about the input, errors first.
        operations: Disruption budgets, autoscalers and monitors.
        model: What the model needs beside the pods, None without one.
    """

    routers: tuple[RoleArgs, ...]
    router: RouterPlan | None
    findings: tuple[Finding, ...]
    operations: OperationsPlan = field(default_factory=OperationsPlan)
    model: ModelPlan | None = None
