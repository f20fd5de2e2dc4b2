"""Lists of the checks of a live cluster that each command and component runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusioninfer_pulumi.checks.live_cluster import ClusterFindings, LiveCluster
from fusioninfer_pulumi.checks.named_object_checks import check_named_objects
from fusioninfer_pulumi.checks.prerequisite_checks import (
    check_apis,
    check_gang_backends,
    check_gang_provider,
    check_kubernetes,
    check_kueue_configuration,
    check_releases,
)
from fusioninfer_pulumi.checks.quota_checks import check_kueue_quotas, check_resource_quotas
from fusioninfer_pulumi.checks.server_dry_run import API_SERVER_REJECTS, check_dry_runs
from fusioninfer_pulumi.findings import Finding, Severity, warning
from fusioninfer_pulumi.rules.common import (
    CLUSTER_NOT_CHECKED,
    CRD_NOT_INSTALLED,
    NAMED_OBJECT_MISSING,
)

Checks = Sequence[Callable[[LiveCluster], ClusterFindings]]

_SCHEDULING_CHECKS: Checks = (check_gang_backends, check_resource_quotas, check_kueue_quotas)
#: Checks of `pulumi preview`: not of named objects, because the program may create them itself.
PREVIEW_CHECKS: Checks = (check_apis, *_SCHEDULING_CHECKS, check_dry_runs)
#: Checks of `plan --cluster`, which only read.
READ_CHECKS: Checks = (*_SCHEDULING_CHECKS, check_named_objects)
#: Checks of `check --server`.
SERVER_CHECKS: Checks = (check_apis, *READ_CHECKS, check_dry_runs)
#: Checks of `ServingPrerequisites`.
PREREQUISITE_CHECKS: Checks = (
    check_apis,
    check_releases,
    check_gang_provider,
    check_kueue_configuration,
    check_kubernetes,
    *READ_CHECKS,
    check_dry_runs,
)


def check_cluster(
    cluster: LiveCluster, checks: Checks
) -> tuple[list[list[Finding]], list[Finding]]:
    """Return the findings about each service, and the findings about the cluster as a whole.

    A read that the credentials do not allow is reported as a warning about the cluster.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    results = [result for check in checks for result in check(cluster)]
    findings_by_service = [
        _drop_repeated([finding for checked_plan, finding in results if checked_plan is plan])
        for plan in cluster.plans
    ]
    cluster_findings = [finding for checked_plan, finding in results if checked_plan is None]
    if cluster.api.unread:
        text = f"not checked: {'; '.join(cluster.api.unread)}"
        cluster_findings.append(warning(CLUSTER_NOT_CHECKED, (), text))
    return findings_by_service, cluster_findings


def _drop_repeated(findings: Sequence[Finding]) -> list[Finding]:
    """Drop the dry run's warnings about missing objects that `check_named_objects` also reports.

    The API server rejects pods that name a missing ServiceAccount or class.
    """
    reported_locations = {
        item.location for item in findings if item.rule == NAMED_OBJECT_MISSING.id
    }
    return [
        finding
        for finding in findings
        if finding.rule != API_SERVER_REJECTS.id
        or finding.severity is Severity.ERROR
        or finding.location not in reported_locations
    ]


def list_prerequisites(cluster: LiveCluster) -> list[Finding]:
    """Return a finding for each missing prerequisite, with the names of the services that need it.

    A missing API is an error. Objects that the API server rejects are not reported, because the
    services' previews report them.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    findings_by_service, cluster_findings = check_cluster(cluster, PREREQUISITE_CHECKS)
    service_names: dict[Finding, dict[str, None]] = {}
    for plan, service_findings in zip(cluster.plans, findings_by_service, strict=True):
        for finding in service_findings:
            if finding.rule != API_SERVER_REJECTS.id and finding.severity is not Severity.INFO:
                service_names.setdefault(finding, {})[plan.service] = None
    findings = list(cluster_findings)
    for finding, names in service_names.items():
        is_error = finding.rule == CRD_NOT_INSTALLED.id
        severity = Severity.ERROR if is_error else finding.severity
        path = f"{finding.path}: " if finding.path else ""
        message = f"{', '.join(names)}: {path}{finding.message}"
        findings.append(Finding(finding.rule, severity, (), message))
    return findings
