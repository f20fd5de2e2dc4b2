"""Adds findings about the cluster for `check --server` and `plan --cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusioninfer_pulumi.checks.cluster_checks import READ_CHECKS, SERVER_CHECKS, check_cluster
from fusioninfer_pulumi.checks.live_cluster import LiveCluster
from fusioninfer_pulumi.checks.server_dry_run import API_SERVER_CHECK_INCOMPLETE
from fusioninfer_pulumi.findings import Severity, error
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.read_sources import Source


def add_cluster_findings(sources: Sequence[Source], context: str | None, *, dry_run: bool) -> None:
    """Add findings about the cluster to sources: quotas, gang backends, referenced objects.

    Sources with errors are skipped, because these errors must be fixed first. `context` is a
    context of the kubeconfig. With `dry_run`, the API server also validates the objects.
    """
    option, checks = ("--server", SERVER_CHECKS) if dry_run else ("--cluster", READ_CHECKS)
    valid = [source for source in sources if not source.has_severity(Severity.ERROR)]
    plans = [plan for source in valid for plan in source.plans]
    if not plans:
        return
    registered = [item for source in valid for item in source.objects or ()]
    try:
        cluster = LiveCluster(KubernetesApi(None, context), plans, registered_objects=registered)
        service_findings, cluster_findings = check_cluster(cluster, checks)
    except UnreadableError as exc:
        sources[-1].add(option, error(API_SERVER_CHECK_INCOMPLETE, (), str(exc)))
        return
    remaining = iter(service_findings)
    for source in valid:
        source.add_to_services(remaining)  # takes the findings of the source's services
    sources[-1].add(option, *cluster_findings)
