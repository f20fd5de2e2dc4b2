"""Everything that is to be said about a document, whether it was refused or not."""

from __future__ import annotations

import re

from fusioninfer_pulumi.findings import Finding, errors
from fusioninfer_pulumi.loading.validate import Document
from fusioninfer_pulumi.planning import plan_service
from fusioninfer_pulumi.service_plan import ServicePlan

#: What pods are built from.
_POD = re.compile(
    r"roles\[(\d+)\]\.(template|leaderTemplate|workerTemplate|container|kvTransfer\.sidecar)\b"
)
_FETCHER = re.compile(r"model\.fetcher\b")
_ROUTER = re.compile(r"roles\[(\d+)\]\.(httproute|gateway|endpointPicker|networkPolicy)\b")


def checked(
    document: Document, name: str | None = None
) -> tuple[ServicePlan | None, tuple[Finding, ...]]:
    """Plans a document, or what remains of it.

    Args:
        document: The document.
        name: Name of the service where the document states none.

    Returns:
        The plan, None when the document was refused by the spec, and all findings of spec and
        plan. Of a refused document, the plan's findings are those that its remains allow.
    """
    if document.args is not None:
        plan = plan_service(document.args, name)
        return plan, plan.findings
    if document.provisional is None:
        return None, document.findings
    left_out = _matching(_POD, document) | set(document.doubtful)
    if any(_FETCHER.match(finding.path) for finding in document.findings):
        left_out = set(range(len(document.provisional.roles)))
    # Nothing else of the service depends on its router.
    routers = _matching(_ROUTER, document)
    remains = plan_service(document.provisional, name, leave_out=left_out | routers)
    said = {finding.path for finding in document.findings}
    named = "metadata.name" not in said

    def holds(finding: Finding) -> bool:
        if finding.path in said or not document.believes(finding):
            return False
        if finding.path.startswith("roles["):
            return named or not finding.path.endswith(".name")
        # What concerns the service as a whole needs all of its roles.
        return named and not left_out

    found = [finding for finding in errors(remains.findings) if holds(finding)]
    return None, (*document.findings, *found)


def _matching(pattern: re.Pattern[str], document: Document) -> set[int]:
    """Indexes of the roles with a finding at such a path."""
    return {
        int(match[1]) for finding in document.findings if (match := pattern.match(finding.path))
    }
