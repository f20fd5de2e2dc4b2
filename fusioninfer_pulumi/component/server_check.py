"""Preview checks on the cluster: the API server's dry run, gang backends and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import (
    Cluster,
    describe_read_error,
    has_known_cluster,
)
from fusioninfer_pulumi.component.pulumi_sdk import has_pulumi_engine
from fusioninfer_pulumi.findings import Finding, drop_ignored, parse_ignored_rules, raise_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from fusioninfer_pulumi.kube.client import KubernetesApi
    from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: Timeout of all checks of a service in a preview.
_CHECK_SECONDS = 10.0


def check_on_server(
    component: pulumi.Resource,
    plan: ServicePlan,
    is_render_only: pulumi.Output[bool],
    log: Callable[[list[Finding], pulumi.Resource], None],
) -> None:
    """Fail a preview if a check on the cluster finds errors; pass findings to `log`.

    Warnings of rules that the service ignores are dropped. The checks run only in previews of the
    Pulumi engine. If the cluster cannot be read, the reason is logged with `--debug`.
    """
    if not (pulumi.runtime.is_dry_run() and has_pulumi_engine()):
        return

    async def check(render_only: bool) -> bool:  # noqa: FBT001  # the value of an Output
        if render_only or not await has_known_cluster(component):
            return False
        cluster = Cluster(component, plan.namespace)
        try:
            findings = await cluster.read(_run_checks, plan, seconds=_CHECK_SECONDS + 1)
        except Exception as exc:  # noqa: BLE001  # the provider reports unreachable clusters
            text = f"the API server was not queried: {describe_read_error(exc)}"
            pulumi.log.debug(text, component)
            return False
        log(drop_ignored(findings, parse_ignored_rules(plan.meta.annotations)), component)
        raise_errors(findings, plan.service)
        return True

    output: Any = is_render_only
    output.apply(check)


def _run_checks(api: KubernetesApi, namespace: str, plan: ServicePlan) -> list[Finding]:
    from fusioninfer_pulumi.checks.cluster_checks import PREVIEW_CHECKS, check_cluster  # noqa: PLC0415  # startup time: few previews read a cluster
    from fusioninfer_pulumi.checks.live_cluster import LiveCluster  # noqa: PLC0415  # see above

    cluster = LiveCluster(api, [plan], namespace=namespace, timeout_seconds=_CHECK_SECONDS)
    # Findings about the cluster, such as objects that could not be checked, are not reported.
    (findings,), _ = check_cluster(cluster, PREVIEW_CHECKS)
    return findings
