"""All errors of a document, whether it was refused or not."""

from __future__ import annotations

from fusioninfer_pulumi.findings import Finding, errors
from fusioninfer_pulumi.loading.validate import Document
from fusioninfer_pulumi.planning import plan_service
from fusioninfer_pulumi.service_plan import ServicePlan


def checked(
    document: Document, name: str | None = None
) -> tuple[ServicePlan | None, tuple[Finding, ...]]:
    """Plans a document, or what is left of a refused one.

    Args:
        document: The document.
        name: Name of the service where the document states none.

    Returns:
        The plan, None when the document was refused, and all findings of validation and plan; of
        a refused document the plan's errors as far as they hold for the whole of it.
    """
    if document.args is not None:
        plan = plan_service(document.args, name)
        return plan, plan.findings
    if document.rest is None:
        return None, document.findings
    rest = plan_service(document.rest, name, leave_out=document.unplanned)
    found = [finding for finding in errors(rest.findings) if document.holds(finding)]
    return None, (*document.findings, *found)
