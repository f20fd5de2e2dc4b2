"""Adds findings about the cluster for `check --server` and `plan --cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusioninfer_pulumi.checks.cluster_checks import check_cluster
from fusioninfer_pulumi.checks.server_dry_run import (
    API_SERVER_CHECK_INCOMPLETE,
    API_SERVER_REJECTS,
    check_on_api_server,
)
from fusioninfer_pulumi.findings import Finding, Severity, error, warning
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.rules.common import CLUSTER_NOT_CHECKED, NAMED_OBJECT_MISSING

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.read_sources import Source

#: Total timeout of the dry run, in seconds.
_DRY_RUN_SECONDS = 60.0


def add_cluster_findings(sources: Sequence[Source], context: str | None, *, dry_run: bool) -> None:
    """Add findings about the cluster to sources: quotas, gang backends, referenced objects.

    Sources with errors are skipped, because these errors must be fixed first. `context` is a
    context of the kubeconfig. With `dry_run`, the API server also validates the objects.
    """
    option = "--server" if dry_run else "--cluster"
    valid = [source for source in sources if not source.has_severity(Severity.ERROR)]
    plans = [plan for source in valid for plan in source.plans]
    if not plans:
        return
    registered = [item for source in valid for item in source.objects or ()]
    try:
        api = KubernetesApi(None, context)
        dry_run_findings: list[tuple[Finding, ...]] = [() for _ in plans]
        if dry_run:
            dry_run_findings = check_on_api_server(api, plans, seconds=_DRY_RUN_SECONDS)
        cluster_findings = check_cluster(api, plans, registered=registered)
    except UnreadableError as problem:
        sources[-1].add(option, error(API_SERVER_CHECK_INCOMPLETE, (), str(problem)))
        return
    findings = map(_merge_findings, dry_run_findings, cluster_findings)
    for source in valid:
        source.add_to_services(findings)
    if api.unread:
        text = f"not checked: {'; '.join(api.unread)}"
        sources[-1].add(option, warning(CLUSTER_NOT_CHECKED, (), text))


def _merge_findings(
    dry_run_findings: tuple[Finding, ...], cluster_findings: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    # The API server rejects pods that name a missing ServiceAccount or class, so the dry run's
    # warning would repeat the finding about the missing object.
    missing = {item.location for item in cluster_findings if item.rule == NAMED_OBJECT_MISSING.id}
    kept = (
        finding
        for finding in dry_run_findings
        if finding.rule != API_SERVER_REJECTS.id
        or finding.severity is Severity.ERROR
        or finding.location not in missing
    )
    return (*kept, *cluster_findings)
