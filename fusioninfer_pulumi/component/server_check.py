"""In a preview: what the API server would refuse of a service, and quotas that are too small."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import (
    Cluster,
    describe_read_error,
    has_known_cluster,
)
from fusioninfer_pulumi.component.pulumi_sdk import has_engine
from fusioninfer_pulumi.findings import Finding, errors, info
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.rules.ignoring import drop_ignored, parse_ignored_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: How long a preview waits for all answers of a service.
_SECONDS = 10.0


def check_on_server(
    component: pulumi.Resource,
    plan: ServicePlan,
    yaml_only: pulumi.Output[bool],
    log: Callable[[list[Finding], pulumi.Resource], None],
) -> None:
    """Fails a preview if the API server refuses the service; logs the rest with `log`.

    Only in a preview by Pulumi whose cluster can be read: what hinders the check is no more than a
    message with `--debug`.
    """
    if not (pulumi.runtime.is_dry_run() and has_engine()):
        return

    async def checked(files: bool) -> bool:  # noqa: FBT001  # the value of an Output
        if files or not await has_known_cluster(component):
            return False
        cluster = Cluster(component, plan.namespace)
        try:
            problems = await cluster.read(_findings, plan, seconds=_SECONDS + 1)
        # The provider reports a cluster that cannot be reached.
        except Exception as problem:  # noqa: BLE001
            text = f"the API server was not queried: {describe_read_error(problem)}"
            pulumi.log.debug(text, component)
            return False
        log(drop_ignored(problems, parse_ignored_rules(plan.annotations)), component)
        refused = errors(problems)
        if refused:
            lines = "\n".join(f"{plan.service}: {finding} [{finding.rule}]" for finding in refused)
            raise pulumi.RunError(lines)
        return True

    known: Any = yaml_only
    known.apply(checked)


def _findings(
    kubeconfig: str | None, context: str | None, namespace: str, plan: ServicePlan
) -> list[Finding]:
    # Start-up time: only a preview that reads a cluster needs it.
    from fusioninfer_pulumi.checks.cluster_checks import check_gang_backends  # noqa: PLC0415
    from fusioninfer_pulumi.checks.quotas import check_quotas  # noqa: PLC0415
    from fusioninfer_pulumi.checks.server_dry_run import API_SERVER_NOT_ASKED, check_on_api_server  # noqa: PLC0415
    from fusioninfer_pulumi.kube.client import KubernetesApi  # noqa: PLC0415

    started = time.monotonic()
    api = KubernetesApi(kubeconfig, context)
    placed = replace(plan, namespace=namespace) if is_output(plan.namespace) else plan
    (over_quota,) = check_quotas(api, [placed])
    (of_backend,) = check_gang_backends(api, [plan])
    # All of it shares the time of a preview.
    left = max(1.0, _SECONDS - (time.monotonic() - started))
    (service_findings,) = check_on_api_server(api, [plan], seconds=left, namespace=namespace)
    return [
        info(API_SERVER_NOT_ASKED, finding.location, finding.message)
        if finding.rule == API_SERVER_NOT_ASKED.id
        else finding
        for finding in (*of_backend, *service_findings, *over_quota)
    ]
