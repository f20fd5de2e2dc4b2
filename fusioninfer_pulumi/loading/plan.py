"""The plan of a document."""

from __future__ import annotations

from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.loading.validate import Document
from fusioninfer_pulumi.plan.service_plan import ServicePlan


def plan_document(
    document: Document, name: str | None = None
) -> tuple[ServicePlan | None, tuple[Finding, ...]]:
    """Plans a document.

    Args:
        document: The document.
        name: Name of the service where the document states none.

    Returns:
        The plan, None if the document was refused, and all findings of validation or plan.
    """
    if document.args is None:
        return None, document.findings
    plan = plan_service(document.args, name)
    return plan, plan.findings
