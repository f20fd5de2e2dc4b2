"""Checks an update against the stack's state: changes that cannot be made on what runs.

The rules are those of `rollout`; this module reads what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.checks.running import (
    RunningLws,
    gang_findings,
    layout_findings,
    policy_findings,
)
from fusioninfer_pulumi.component.state import StackLws, stack_lws, stack_lws_of
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.topology.sub_group_policy import FIELD, same_policy


def update_findings(
    name: str, plan: ServicePlan, manifests: Iterable[Mapping[str, Any]]
) -> list[Finding]:
    """Changes of existing LeaderWorkerSets that cannot be made, or not one after the other.

    None where the state cannot be read.
    """
    existing = stack_lws_of(name, plan)
    if not existing:
        return []
    lws = {e["metadata"]["name"]: e for e in manifests if e["kind"] == "LeaderWorkerSet"}
    differing = {
        each
        for each, found in existing.items()
        if found.template is not None
        # Under another name a LeaderWorkerSet is created beside the old one.
        and found.is_at(each, plan.namespace)
        and not same_policy(_policy(lws[each]), found.template.sub_groups)
    }
    running = {
        each: None if each in differing else _running(plan, lws[each], found)
        for each, found in existing.items()
    }
    return [*policy_findings(plan, differing), *gang_findings(plan, running)]


def current_sub_group_policies(name: str, plan: ServicePlan) -> dict[str, Mapping[str, Any]]:
    """`subGroupPolicy` of existing LeaderWorkerSets, by name: those cannot change in place."""
    return {
        each: found.template.sub_groups
        for each, found in (stack_lws_of(name, plan) or {}).items()
        if found.template is not None and found.template.sub_groups
    }


def layout_switch_findings(name: str, plan: ServicePlan) -> list[Finding]:
    """A finding where LeaderWorkerSets of the other layout exist.

    None where the state cannot be read, as under mocks.
    """
    others = [
        each.name
        for each in stack_lws() or ()
        if each.service == plan.service
        and each.component == name
        and each.is_at(each.name, plan.namespace)
        and each.layout not in (None, plan.layout)
    ]
    return layout_findings(plan.layout, others)


def _policy(manifest: Mapping[str, Any]) -> Any:
    return manifest["spec"]["leaderWorkerTemplate"].get(FIELD)


def _running(plan: ServicePlan, manifest: Mapping[str, Any], found: StackLws) -> RunningLws | None:
    if found.template is None or not found.is_at(manifest["metadata"]["name"], plan.namespace):
        return None
    template = found.template
    size = manifest["spec"]["leaderWorkerTemplate"]["size"]
    revision = manifest["metadata"]["labels"][labels.REVISION]
    return RunningLws(
        template.gang,
        template.nodes,
        template.replicas,
        found.revision != revision or template.nodes != size,
    )
