"""Compares a service with what the stack's state holds of it: what would take a role down, or hang.

What is refused, and why, is decided by `plan`; here is only what runs now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.component.max_unavailable import workers
from fusioninfer_pulumi.component.state import RecordedSet, recorded_of, recorded_sets
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rollout.gang_update import RunningSet
from fusioninfer_pulumi.rollout.layout_switch import layout_findings
from fusioninfer_pulumi.rollout.refusals import gang_findings, policy_findings
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.sub_group_policy import FIELD, same_policy


def running_findings(
    name: str, plan: ServicePlan, manifests: Iterable[Mapping[str, Any]]
) -> list[Finding]:
    """Finds changes of sets that run which cannot be made, or not one after the other.

    Args:
        name: Logical name of the component.
        plan: The service.
        manifests: Its objects.

    Returns:
        What is refused; nothing where the state cannot be read.
    """
    recorded = recorded_of(name, plan)
    if not recorded:
        return []
    sets = {e["metadata"]["name"]: e for e in manifests if e["kind"] == "LeaderWorkerSet"}
    differing = {
        each
        for each, found in recorded.items()
        if found.template is not None
        # Under another name a set is made beside the old one.
        and found.is_at(each, plan.namespace)
        and not same_policy(_policy(sets[each]), found.template.sub_groups)
    }
    running = {
        each: None if each in differing else _running(plan, sets[each], found)
        for each, found in recorded.items()
    }
    return [*policy_findings(plan, differing), *gang_findings(plan, running, workers())]


def grouped_sets(name: str, plan: ServicePlan) -> dict[str, Mapping[str, Any]]:
    """The policies of sets that have one now: the old one has to go before the new one comes."""
    return {
        each: found.template.sub_groups
        for each, found in (recorded_of(name, plan) or {}).items()
        if found.template is not None and found.template.sub_groups
    }


def _policy(manifest: Mapping[str, Any]) -> Any:
    return manifest["spec"]["leaderWorkerTemplate"].get(FIELD)


def _running(
    plan: ServicePlan, manifest: Mapping[str, Any], found: RecordedSet
) -> RunningSet | None:
    if found.template is None or not found.is_at(manifest["metadata"]["name"], plan.namespace):
        return None
    template = found.template
    size = manifest["spec"]["leaderWorkerTemplate"]["size"]
    revision = manifest["metadata"]["labels"][labels.REVISION]
    return RunningSet(
        template.gang,
        template.nodes,
        template.replicas,
        found.revision != revision or template.nodes != size,
    )


def switch_findings(name: str, plan: ServicePlan) -> list[Finding]:
    """Compares a service's layout with that of its sets in the stack's state.

    Args:
        name: Logical name of the component.
        plan: The service.

    Returns:
        One finding where sets of the other layout exist; none where the state cannot be read, as
        in tests with mocks.
    """
    others = [
        each.name
        for each in recorded_sets() or ()
        if each.service == plan.service
        and each.component == name
        and each.is_at(each.name, plan.namespace)
        and each.layout not in (None, plan.layout)
    ]
    return layout_findings(plan.layout, others)
