"""What a cluster says to the services of sources: `check --server` and `plan --cluster`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fusioninfer_pulumi.checks.gang_backends import gang_backend_findings
from fusioninfer_pulumi.checks.quotas import quota_findings
from fusioninfer_pulumi.checks.server import (
    API_SERVER_NOT_ASKED,
    FALLBACK_NAMESPACE,
    server_findings,
)
from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.findings import Finding, Severity, error, warning
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError
from fusioninfer_pulumi.rules.cluster import CLUSTER_NOT_CHECKED

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.planned import Source
    from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: How long all answers together may take.
SECONDS = 60.0
#: Findings of each plan.
_Findings = Callable[[KubernetesApi, "Sequence[ServicePlan]"], "list[tuple[Finding, ...]]"]


def ask_server(sources: Sequence[Source], context: str | None) -> None:
    """Adds to the sources what the API server refuses of their services.

    Args:
        sources: The inputs of the command.
        context: Context of the kubeconfig, None for the current one.
    """
    _ask(
        "--server",
        sources,
        context,
        lambda api, plans: server_findings(api, plans, seconds=SECONDS),
    )


def ask_cluster(sources: Sequence[Source], context: str | None) -> None:
    """Adds to the sources what the cluster lacks: quota, and what starts pods together.

    Parameters as of `ask_server`.
    """
    api = _ask("--cluster", sources, context, _cluster_findings)
    for reason in api.unread if api is not None else ():
        sources[-1].add("--cluster", warning(CLUSTER_NOT_CHECKED, (), f"not checked: {reason}"))


def _cluster_findings(
    api: KubernetesApi, plans: Sequence[ServicePlan]
) -> list[tuple[Finding, ...]]:
    backends = gang_backend_findings(api, plans, FALLBACK_NAMESPACE)
    return [
        (*of_backend, *over_quota)
        for of_backend, over_quota in zip(backends, quota_findings(api, plans), strict=True)
    ]


def _ask(
    option: str, sources: Sequence[Source], context: str | None, findings_of: _Findings
) -> KubernetesApi | None:
    """Adds findings to documents; sources with errors are left out: their findings come first."""
    asked = [source for source in sources if not source.has(Severity.ERROR)]
    plans = [plan for source in asked for plan in source.plans]
    if not plans:
        return None
    try:
        with working("asking the API server"):
            api = KubernetesApi(None, context)
            answers = iter(findings_of(api, plans))
    except UnreadableError as problem:
        sources[-1].add(option, error(API_SERVER_NOT_ASKED, (), str(problem)))
        return None
    for source in asked:
        source.documents = [
            document if document.plan is None else document.noting(*next(answers))
            for document in source.documents
        ]
    return api
