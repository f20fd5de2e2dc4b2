"""All checks of operations and tracing, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fusioninfer_pulumi.checks.operations.autoscaling import autoscaling_findings, ratio_findings
from fusioninfer_pulumi.checks.operations.disruption_budgets import budget_findings
from fusioninfer_pulumi.checks.operations.monitoring import monitoring_findings
from fusioninfer_pulumi.checks.operations.tracing import tracing_findings
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.plan.build import BuiltService

CHECKS: tuple[Callable[[BuiltService], Iterable[Finding]], ...] = (
    budget_findings,
    monitoring_findings,
    tracing_findings,
    autoscaling_findings,
    ratio_findings,
)
