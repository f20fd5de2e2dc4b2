"""Keeps the prefill and the decode pod of a request in one serving group.

Two plugins of llm-d's picker can (v0.10.0, both alpha). The screener that is made for rollouts of
DisaggregatedSets narrows a request down to one value of a label before any profile runs; which
label is a parameter (`requestcontrol/screener/disaggregatedsetrollout`). The topology filter runs
in the prefill profile and asks for the decode pod's value of the label that is said to be its
host's name, and takes any pod where none has it (`scheduling/filter/topologyaffinity`).
"""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.findings import Finding, error
from fusioninfer_pulumi.pickers.family import PickerFamily
from fusioninfer_pulumi.pickers.request import GroupPairing, PrefillDecode
from fusioninfer_pulumi.pickers.table import FAMILIES

_SCREENER = "disaggregatedset-rollout-screener"
_EXTRACTOR = "topology-extractor"
_FILTER = "topology-affinity-filter"
_FILTER_NAME = "prefill-pods-of-the-group"

#: Plugin types by which a configuration keeps a request in one group.
PAIRING_PLUGINS = (_SCREENER, _FILTER)


def pairing_plugins(pods: PrefillDecode) -> list[dict[str, Any]]:
    """Plugins of the configuration, none without groups."""
    groups = pods.groups
    if groups is None:
        return []
    if not groups.strict:
        return [
            {"type": _EXTRACTOR, "parameters": {"hostname": groups.label}},
            {"type": _FILTER, "name": _FILTER_NAME, "parameters": {"minAffinity": "host"}},
        ]
    gating = {
        "mode": "sum",
        "revisionLabelKey": groups.label,
        "roleLabelKey": pods.label,
        "requireRoles": {"values": [pods.prefill, pods.decode]},
    }
    selector = ",".join(f"{key}={value}" for key, value in groups.selector.items())
    parameters = {"scope": {"labelSelector": selector}, "revisionGating": gating}
    return [{"type": _SCREENER, "parameters": parameters}]


def prefill_references(groups: GroupPairing | None) -> list[dict[str, Any]]:
    """What the prefill profile names of them; the screener stands outside of profiles."""
    return [{"pluginRef": _FILTER_NAME}] if groups is not None and not groups.strict else []


def check_pairing(family: PickerFamily, pods: PrefillDecode) -> list[Finding]:
    """What speaks against the pairing on a picker."""
    wanted = {plugin["type"] for plugin in pairing_plugins(pods)}
    if not family.supports_pd or all(family.registers(each) for each in wanted):
        return []
    able = ", ".join(
        each.image for each in FAMILIES.values() if all(each.registers(kind) for kind in wanted)
    )
    message = (
        f"{family.name} cannot keep prefill and decode of a request in one group; images that "
        f"can: {able}"
    )
    return [error("groups", message)]
