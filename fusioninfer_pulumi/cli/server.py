"""`check --server`: what the API server of a cluster says to the services of sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fusioninfer_pulumi.checks.server import API_SERVER_NOT_ASKED, server_findings
from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.findings import Severity, error
from fusioninfer_pulumi.kube.client import KubernetesApi, UnreadableError

if TYPE_CHECKING:
    from fusioninfer_pulumi.cli.planned import Source

#: How long all answers together may take.
SECONDS = 60.0
_OPTION = "--server"


def ask_server(sources: Sequence[Source], context: str | None) -> None:
    """Adds to the sources what the API server refuses of their services.

    Sources with errors are left out: their findings come first.

    Args:
        sources: The inputs of the command.
        context: Context of the kubeconfig, None for the current one.
    """
    asked = [source for source in sources if not source.has(Severity.ERROR)]
    plans = [plan for source in asked for plan in source.plans]
    if not plans:
        return
    try:
        with working("asking the API server"):
            answers = iter(server_findings(KubernetesApi(None, context), plans, seconds=SECONDS))
    except UnreadableError as problem:
        sources[-1].add(_OPTION, error(API_SERVER_NOT_ASKED, (), str(problem)))
        return
    for source in asked:
        source.documents = [
            document if document.plan is None else document.noting(*next(answers))
            for document in source.documents
        ]
