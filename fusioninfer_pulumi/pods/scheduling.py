"""How the pods of a role spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.api.topology_spread import TopologySpreadArgs, WhenUnsatisfiable
from fusioninfer_pulumi.findings import Finding, error, info, join, warning
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.topology.gang import GangPlan
from fusioninfer_pulumi.topology.role import RolePlan


def spread_findings(role: RolePlan, gang: GangPlan | None) -> Iterator[Finding]:
    """Checks how the leaders of a role are spread.

    Args:
        role: The role.
        gang: The gang, None without one.

    Yields:
        Errors for what the API server refuses, and what a user may not expect.
    """
    given = role.args.topology_spread
    if given is None:
        return
    field = "template" if role.args.template is not None else "leaderTemplate"
    own = role.leader_template["spec"].get("topologySpreadConstraints")
    seen = {
        (each.get("topologyKey"), each.get("whenUnsatisfiable")): f"{field}'s own constraints"
        for each in (own if isinstance(own, list) else ())
        if isinstance(each, Mapping)
    }
    hard = False
    for index, each in enumerate(given):
        at = join("roles", role.position, "topologySpread", index)
        key = (each.topology_key, each.when_unsatisfiable.value)
        if key in seen:
            yield error(
                at, f"{each.topology_key} with {key[1]} is also in {seen[key]}; remove one of them"
            )
        seen.setdefault(key, f"topologySpread[{index}]")
        hard = hard or each.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
    at = join("roles", role.position, "topologySpread")
    if role.nodes > 1:
        yield info(
            at,
            "spreads the leaders: nothing keeps the workers of a replica in the domain of their "
            "leader",
        )
    if not hard or gang is None:
        return
    if gang.sub_groups is None:
        yield info(
            at,
            "DoNotSchedule holds for a gang, too: a domain without room keeps all of it waiting, "
            "which the capacity table does not know",
        )
    else:
        # Seen with Volcano 1.14.1: four replicas of two pods over zones of eight and two nodes.
        yield warning(
            at,
            "with DoNotSchedule Volcano may leave replicas above the gang's minimum waiting for "
            "ever, where a domain has little room, although all of them would fit; use "
            "ScheduleAnyway",
        )


def spread(
    spec: Mapping[str, Any], given: Sequence[TopologySpreadArgs], role: Mapping[str, str]
) -> dict[str, Any]:
    """Adds to the leaders' pod spec what spreads them.

    Args:
        spec: The pod spec; it is not changed.
        given: How the leaders are spread.
        role: Labels of the role.

    Returns:
        The spec with these constraints after the template's own. They count the leaders of all
        replicas, whatever LeaderWorkerSet made them.
    """
    selected = {**role, labels.LWS_WORKER_INDEX: "0"}
    added = [
        {
            "maxSkew": each.max_skew,
            "topologyKey": each.topology_key,
            "whenUnsatisfiable": each.when_unsatisfiable.value,
            "labelSelector": {"matchLabels": dict(selected)},
        }
        for each in given
    ]
    own = spec.get("topologySpreadConstraints") or ()
    return {**spec, "topologySpreadConstraints": [*own, *added]}
