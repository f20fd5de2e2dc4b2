"""Changes of what runs that `pulumi up` refuses, in its own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fusioninfer_pulumi.cli.diff.edits import Edit, Service
from fusioninfer_pulumi.cli.diff.identity import Identity, Manifest
from fusioninfer_pulumi.cli.diff.plain import count_at
from fusioninfer_pulumi.cli.diff.workloads import gang
from fusioninfer_pulumi.rollout.gang_update import RunningSet
from fusioninfer_pulumi.rollout.refusals import gang_findings, policy_findings
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.sub_group_policy import FIELD


def refusals(
    plans: Iterable[ServicePlan], sets: Mapping[Identity, Manifest], edits: Iterable[Edit]
) -> dict[Service, Sequence[str]]:
    """Finds what the component refuses where the old sets are those that run.

    Args:
        plans: The services after, as far as they are known.
        sets: All LeaderWorkerSets before.
        edits: All changes.

    Returns:
        Sentences, with the severity of a finding, by service. Nothing of a service that stands
        several times in either source: each of its clusters may go its own way.
    """
    plans = list(plans)
    edited = {edit.key: edit for edit in edits}
    keys: dict[str, list[Identity]] = {}
    for key in sets:
        keys.setdefault(key.name, []).append(key)
    times = Counter(map(_service, plans))
    found: dict[Service, Sequence[str]] = {}
    for plan in plans:
        own = _own(plan, keys) if times[_service(plan)] == 1 else {}
        if not own:
            continue
        differing = {
            name
            for name, key in own.items()
            if key in edited and (edited[key].refused or "").startswith(FIELD)
        }
        running = {name: _running(sets[key], edited.get(key)) for name, key in own.items()}
        told = [*policy_findings(plan, differing), *gang_findings(plan, running)]
        namespace = next(iter(own.values())).namespace
        found[namespace, plan.service] = [f"error: {each}" for each in told]
    return found


def _own(plan: ServicePlan, keys: Mapping[str, Sequence[Identity]]) -> dict[str, Identity]:
    """The old sets of a service by name."""
    found = {}
    for planned in (each.name for role in plan.roles for each in role.sets):
        known = isinstance(plan.namespace, str)
        same = [k for k in keys.get(planned, ()) if not known or k.namespace == plan.namespace]
        if len(same) > 1:
            return {}
        if same:
            found[planned] = same[0]
    return found


def _running(old: Manifest, edit: Edit | None) -> RunningSet | None:
    if edit is not None and edit.refused:
        return None
    nodes = count_at(old, "spec", "leaderWorkerTemplate", "size")
    changes = edit is not None and edit.restarts
    return RunningSet(gang(old), nodes, count_at(old, "spec", "replicas"), changes)


def _service(plan: ServicePlan) -> Service:
    return plan.namespace if isinstance(plan.namespace, str) else "", plan.service
