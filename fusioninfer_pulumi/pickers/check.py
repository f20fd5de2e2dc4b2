"""Checks an EndpointPickerConfig that a user wrote against the picker that will read it.

An error is what stops the picker, which then crash-loops; a warning is what it takes without doing
what the text says. Every verdict was compared with the real pickers of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, info, join, shown, warning
from fusioninfer_pulumi.pickers.check_gates import check_gates
from fusioninfer_pulumi.pickers.check_handlers import check_handlers
from fusioninfer_pulumi.pickers.check_plugins import check_plugins
from fusioninfer_pulumi.pickers.check_profiles import check_profiles
from fusioninfer_pulumi.pickers.config_text import UnreadableError, read_config
from fusioninfer_pulumi.pickers.family import KIND, LLM_D_API, X_K8S_API, PickerFamily
from fusioninfer_pulumi.pickers.table import FAMILIES

_HEADER = {"apiVersion", "kind"}


def check_config(
    text: str, family: PickerFamily | None, *, own_image: bool = False
) -> list[Finding]:
    """What a picker has against a configuration.

    Args:
        text: The configuration as the user wrote it.
        family: The picker's family, None when it is not known: then only what every picker
            demands is checked.
        own_image: Whether the image may register plugins of its own, so that a type which the
            family does not register is no error.

    Returns:
        Findings with paths inside the configuration (`plugins[2].parameters.blockSize`).
    """
    try:
        config, more = read_config(text)
    except UnreadableError as problem:
        return [error("", str(problem))]
    if config is None:
        return [error("", "is empty; leave endpointPickerConfig out to use a strategy")]
    if not isinstance(config, dict):
        return [error("", f"must be a mapping, got {shown(config)}")]
    findings = _check_header(config, family) + _check_sections(config, family)
    findings += check_gates(config, family)
    if more:
        findings.append(warning("", "the picker reads nothing after the first YAML document"))
    plugins, problems = check_plugins(config.get("plugins"), family, own_image=own_image)
    findings += problems
    profiles, problems = check_profiles(config.get("schedulingProfiles"), plugins, family)
    findings += problems
    findings += check_handlers(plugins, profiles, config.get("featureGates"), family)
    return findings


def _check_header(config: Mapping[str, Any], family: PickerFamily | None) -> list[Finding]:
    findings = []
    # Without either of them every picker takes the text for what it expects (measured).
    kind = config.get("kind")
    if kind not in (None, "", KIND):
        findings.append(error("kind", f"must be {KIND}, got {shown(kind)}"))
    api = config.get("apiVersion")
    allowed = (X_K8S_API, LLM_D_API) if family is None else family.api_versions
    if api in (None, ""):
        return findings
    if api not in allowed:
        name = "a picker" if family is None else family.name
        message = f"must be {' or '.join(allowed)} for {name}, got {shown(api)}"
        findings.append(error("apiVersion", message))
    elif family is not None and api != allowed[0]:
        message = f"{api} is deprecated in {family.name}; write {allowed[0]}"
        findings.append(info("apiVersion", message))
    return findings


def _check_sections(config: Mapping[str, Any], family: PickerFamily | None) -> list[Finding]:
    findings = []
    sections = _all_sections() if family is None else family.sections
    name = "a picker" if family is None else family.name
    for key, value in config.items():
        if key in _HEADER:
            continue
        if key in ("metadata", "spec"):
            message = (
                "the configuration is a file, not an object of the cluster: it has no metadata, "
                "and what would be its spec stands at the top"
            )
            findings.append(error(key, message))
        elif key not in sections:
            message = f"no such field; {name} has {', '.join(sections)}"
            findings.append(error(join(key), message))
        elif sections[key] is not None and value is not None:
            findings += _check_section(key, value, sections[key] or frozenset())
    return findings


def _check_section(key: str, value: Any, allowed: frozenset[str]) -> list[Finding]:
    if not isinstance(value, dict):
        return [error(key, f"must be a mapping, got {shown(value)}")]
    return [
        error(join(key, inner), f"no such field; allowed: {', '.join(sorted(allowed))}")
        for inner in value
        if inner not in allowed
    ]


def _all_sections() -> dict[str, frozenset[str] | None]:
    """Every top-level key of any picker; what is inside depends on the picker."""
    return {key: None for family in FAMILIES.values() for key in family.sections}
