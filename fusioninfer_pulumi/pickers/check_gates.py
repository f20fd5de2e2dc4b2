"""Checks `featureGates`: each release registers others, and an unknown one stops it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, info, join, shown
from fusioninfer_pulumi.pickers.family import Family, PickerFamily

_GO_BOOLEANS = {"1", "t", "true", "0", "f", "false"}
_DATA_LAYER = "dataLayer"


def check_gates(config: Mapping[str, Any], family: PickerFamily | None) -> list[Finding]:
    """What a picker has against the gates of a configuration.

    Args:
        config: The configuration.
        family: The picker, None when it is not known.
    """
    gates = config.get("featureGates")
    gates = [] if gates is None else gates
    if not isinstance(gates, list) or not all(isinstance(gate, str) for gate in gates):
        return [error("featureGates", f"must be a list of names, got {shown(gates)}")]
    if family is None:
        return []
    findings = []
    for index, gate in enumerate(gates):
        path = join("featureGates", index)
        name, equals, value = gate.partition("=")
        if equals and family.gate_values:
            if value.strip().lower() not in _GO_BOOLEANS:
                findings.append(error(path, f"must be {name}=true or {name}=false, got {gate}"))
                continue
        else:
            name = gate
        if name not in family.feature_gates:
            known = ", ".join(sorted(family.feature_gates))
            message = f"{family.name} knows no feature gate {shown(gate)}; it has {known}"
            findings.append(error(path, message))
        else:
            message = f"{shown(gate)} is an experiment of {family.name}: other releases refuse it"
            findings.append(info(path, message))
    return findings + _check_data(config.get("data"), gates, family)


def _check_data(data: Any, gates: Sequence[str], family: PickerFamily) -> list[Finding]:
    """The gate and the section of the first data layers belong together (buildDataLayerConfig)."""
    if "data" not in family.sections:
        return []
    if _DATA_LAYER in gates:
        empty = data is None or (isinstance(data, dict) and data.get("sources") is None)
        if data is None or (empty and family.family is not Family.GAIE_1_3):
            message = f"{family.name} stops at the gate {_DATA_LAYER} without data.sources"
            return [error("data", message)]
    elif data is not None and family.family is Family.GAIE_1_3:
        message = f"{family.name} stops at it without featureGates: [{_DATA_LAYER}]"
        return [error("data", message)]
    return []
