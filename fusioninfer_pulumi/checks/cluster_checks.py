"""Checks of a live cluster against services, in stages for each command and component."""

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
#: Checks of `pulumi preview`. A program may create Secrets and other named objects itself.
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
    by_service = [
        _drop_repeated([finding for about, finding in results if about is plan])
        for plan in cluster.plans
    ]
    of_cluster = [finding for about, finding in results if about is None]
    if cluster.api.unread:
        text = f"not checked: {'; '.join(cluster.api.unread)}"
        of_cluster.append(warning(CLUSTER_NOT_CHECKED, (), text))
    return by_service, of_cluster


def _drop_repeated(findings: Sequence[Finding]) -> list[Finding]:
    """Drop the dry run's warnings about missing objects that `check_named_objects` reports, too.

    The API server rejects pods that name a missing ServiceAccount or class.
    """
    missing = {item.location for item in findings if item.rule == NAMED_OBJECT_MISSING.id}
    return [
        finding
        for finding in findings
        if finding.rule != API_SERVER_REJECTS.id
        or finding.severity is Severity.ERROR
        or finding.location not in missing
    ]


def list_prerequisites(cluster: LiveCluster) -> list[Finding]:
    """Return all missing prerequisites, each once with the names of its services.

    An API that is not served is an error. Rejections of objects are left to the services' previews.

    Raises:
        UnreadableError: The cluster does not respond, or does not accept the credentials.
    """
    by_service, of_cluster = check_cluster(cluster, PREREQUISITE_CHECKS)
    services: dict[Finding, dict[str, None]] = {}
    for plan, findings in zip(cluster.plans, by_service, strict=True):
        for finding in findings:
            if finding.rule != API_SERVER_REJECTS.id and finding.severity is not Severity.INFO:
                services.setdefault(finding, {})[plan.service] = None
    findings = list(of_cluster)
    for finding, names in services.items():
        is_error = finding.rule == CRD_NOT_INSTALLED.id
        severity = Severity.ERROR if is_error else finding.severity
        path = f"{finding.path}: " if finding.path else ""
        message = f"{', '.join(names)}: {path}{finding.message}"
        findings.append(Finding(finding.rule, severity, (), message))
    return findings
