"""Checks the top level of an EndpointPickerConfig: header, sections, feature gates, documents."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.checks.picker_config.written import (
    WrittenConfig,
    not_a_mapping,
    unknown_fields,
)
from fusioninfer_pulumi.endpoint_pickers.family import KIND
from fusioninfer_pulumi.endpoint_pickers.rules import (
    PICKER_CONFIG_DOUBTFUL,
    PICKER_CONFIG_INVALID,
    PICKER_FEATURE_UNSTABLE,
)
from fusioninfer_pulumi.findings import Finding, error, info, shown, warning

_GO_BOOLEANS = {"1", "t", "true", "0", "f", "false"}


def header_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks `apiVersion` and `kind`."""
    # Every endpoint picker accepts a text without either of them (measured).
    kind, api, family = config.content.get("kind"), config.content.get("apiVersion"), config.family
    if kind not in (None, "", KIND):
        yield error(PICKER_CONFIG_INVALID, ("kind",), f"must be {KIND}, got {shown(kind)}")
    if api in (None, "", family.api_versions[0]):
        return
    if api in family.api_versions:
        message = f"{api} is deprecated in {family.name}; write {family.api_versions[0]}"
        yield info(PICKER_FEATURE_UNSTABLE, ("apiVersion",), message)
    else:
        allowed = " or ".join(family.api_versions)
        message = f"must be {allowed} for {family.name}, got {shown(api)}"
        yield error(PICKER_CONFIG_INVALID, ("apiVersion",), message)


def section_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks the keys at the top, and those inside of sections whose keys are known."""
    sections = config.family.sections
    for key, value in config.content.items():
        if key in ("apiVersion", "kind"):
            continue
        if key in ("metadata", "spec"):
            message = (
                "the configuration is a file, not an object of the cluster: it has no metadata, "
                "and what would be its spec stands at the top"
            )
            yield error(PICKER_CONFIG_INVALID, (key,), message)
        elif key not in sections:
            message = f"no such field; {config.family.name} has {', '.join(sections)}"
            yield error(PICKER_CONFIG_INVALID, (key,), message)
        else:
            allowed = sections[key]
            if allowed is None or value is None:
                continue
            if isinstance(value, dict):
                yield from unknown_fields((key,), value, sorted(allowed))
            else:
                yield not_a_mapping((key,), value)


def gate_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks `featureGates`: each release registers others, and an unknown one stops it."""
    gates, family = config.content.get("featureGates"), config.family
    gates = [] if gates is None else gates
    if not isinstance(gates, list) or not all(isinstance(gate, str) for gate in gates):
        message = f"must be a list of names, got {shown(gates)}"
        yield error(PICKER_CONFIG_INVALID, ("featureGates",), message)
        return
    for index, gate in enumerate(gates):
        at = ("featureGates", index)
        name, equals, value = gate.partition("=") if family.gate_values else (gate, "", "")
        if equals and value.strip().lower() not in _GO_BOOLEANS:
            message = f"must be {name}=true or {name}=false, got {gate}"
            yield error(PICKER_CONFIG_INVALID, at, message)
        elif name not in family.feature_gates:
            known = ", ".join(sorted(family.feature_gates))
            message = f"{family.name} knows no feature gate {shown(gate)}; it has {known}"
            yield error(PICKER_CONFIG_INVALID, at, message)


def document_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Warns of documents after the first, which no endpoint picker reads."""
    if config.more:
        message = "the endpoint picker reads nothing after the first YAML document"
        yield warning(PICKER_CONFIG_DOUBTFUL, (), message)
