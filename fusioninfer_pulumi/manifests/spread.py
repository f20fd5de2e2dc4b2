"""Spreads the leaders of a role over the domains of a topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import labels
from fusioninfer_pulumi.spec.day_two import TopologySpreadArgs


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
