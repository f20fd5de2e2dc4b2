"""In a preview: replicas of a service that exist, and that the stack's state does not hold."""

from __future__ import annotations

from typing import Any

import pulumi

from fusioninfer_pulumi.component.cluster_access import Cluster, names_cluster, read_error_text
from fusioninfer_pulumi.component.live import LiveState
from fusioninfer_pulumi.component.sdk import has_engine
from fusioninfer_pulumi.component.state import stack_lws_of, takes_over
from fusioninfer_pulumi.findings import listed
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.order import update_order


def check_existing_in_preview(
    component: pulumi.Resource, name: str, plan: ServicePlan, yaml_only: pulumi.Output[bool]
) -> None:
    """Warns in a preview of LeaderWorkerSets that another stack has, or that a lost state had.

    Only where the state has none of the service, which is read without a request. `name` is the
    component's.
    """
    if not (pulumi.runtime.is_dry_run() and has_engine()) or stack_lws_of(name, plan) != {}:
        return

    async def checked(files: bool) -> None:  # noqa: FBT001  # the value of an Output
        if files or not await names_cluster(component):
            return
        live = LiveState(Cluster(component, plan.namespace), plan.service, update_order(plan))
        try:
            existing = sorted(await live.read_lws())
        # The provider reports a cluster that cannot be reached.
        except Exception as problem:  # noqa: BLE001
            text = f"LeaderWorkerSets were not listed: {read_error_text(problem)}"
            pulumi.log.debug(text, component)
            return
        if existing:
            log = pulumi.log.info if takes_over() else pulumi.log.warn
            log(f"{plan.service}: {_text(existing)}", component)

    known: Any = yaml_only
    known.apply(checked)


def _text(existing: list[str]) -> str:
    text = f"{listed(existing)} exist in the cluster, and not in the state of this stack"
    if takes_over():
        return f"{text}: taken over"
    return (
        f"{text}: another stack or tool has them, or the state was lost; `up` fails unless they "
        "are imported or taken over (docs/how-to/lost-state.md)"
    )
