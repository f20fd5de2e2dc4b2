"""Checks `schedulingProfiles`: names, references and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, join, shown, warning
from fusioninfer_pulumi.pickers.check_parameters import field, is_whole
from fusioninfer_pulumi.pickers.check_plugins import Declared
from fusioninfer_pulumi.pickers.family import IN_PROFILE, PickerFamily, PluginKind

_DEFAULT_PICKER = "max-score-picker"
_DEFAULT_DETECTOR = "utilization-detector"
_DEFAULT_HANDLER = "single-profile-handler"
_KEYS = ("name", "plugins")
_REFERENCE_KEYS = ("pluginRef", "weight")
_GO_INT = 2**63 - 1
_TRAP = {PluginKind.SCORER, PluginKind.PICKER}


def check_profiles(
    profiles: Any, plugins: Sequence[Declared], family: PickerFamily | None
) -> tuple[list[str], list[Finding]]:
    """Reads the profiles, and says what a picker has against them.

    Args:
        profiles: The value of `schedulingProfiles`; without it a picker makes one profile of all
            plugins.
        plugins: The plugins that are declared.
        family: The picker, None when it is not known.

    Returns:
        The profiles' names, and the findings.
    """
    top = "schedulingProfiles"
    if profiles is None or profiles == []:
        return [], _check_default_profile(plugins, family)
    if not isinstance(profiles, list):
        return [], [error(top, f"must be a list, got {shown(profiles)}")]
    names: list[str] = []
    findings: list[Finding] = []
    for index, profile in enumerate(profiles):
        path = join(top, index)
        if not isinstance(profile, dict):
            findings.append(error(path, f"must be a mapping, got {shown(profile)}"))
            continue
        findings += _unknown_keys(profile, _KEYS, path)
        name = profile.get("name")
        if name in (None, ""):
            findings.append(error(f"{path}.name", "is required"))
        elif not isinstance(name, str):
            findings.append(error(f"{path}.name", f"must be a string, got {shown(name)}"))
        elif name in names:
            findings.append(error(f"{path}.name", f"{shown(name)} is already a profile's name"))
        names.append(str(name))
        findings += _check_references(profile.get("plugins"), plugins, family, f"{path}.plugins")
    return names, findings


def _check_references(
    references: Any, plugins: Sequence[Declared], family: PickerFamily | None, top: str
) -> list[Finding]:
    if references is None:
        return []
    if not isinstance(references, list):
        return [error(top, f"must be a list, got {shown(references)}")]
    findings: list[Finding] = []
    by_name = {plugin.name: plugin for plugin in plugins}
    picker: str | None = None
    for index, reference in enumerate(references):
        path = f"{top}[{index}]"
        if not isinstance(reference, dict):
            findings.append(
                error(path, f"must be a mapping with a pluginRef, got {shown(reference)}")
            )
            continue
        findings += _unknown_keys(reference, _REFERENCE_KEYS, path)
        name = reference.get("pluginRef")
        plugin = by_name.get(name) if isinstance(name, str) else None
        kind = plugin.kind if plugin is not None else None
        if plugin is None:
            findings += _check_undeclared(name, plugins, family, f"{path}.pluginRef")
            if name == _DEFAULT_PICKER:
                kind = PluginKind.PICKER
        elif kind is not None and kind not in IN_PROFILE:
            message = f"{shown(name)} is a {kind.value}: a profile has no place for it"
            findings.append(warning(f"{path}.pluginRef", message))
        if kind is PluginKind.PICKER:
            if picker is not None:
                message = f"a profile has one picker, and {shown(picker)} is one already"
                findings.append(error(f"{path}.pluginRef", message))
            picker = str(name)
        weight = reference.get("weight")
        trapped = kind is PluginKind.SCORER and picker is not None
        if weight is None and trapped and family is not None and family.weight_trap:
            message = (
                f"{family.name} crashes on a scorer without a weight that stands after the "
                "picker: write one"
            )
            findings.append(error(f"{path}.weight", message))
        findings += _check_weight(weight, kind, family, f"{path}.weight")
    return findings


def _check_default_profile(
    plugins: Sequence[Declared], family: PickerFamily | None
) -> list[Finding]:
    """A picker makes one profile of all plugins, in any order and without weights."""
    kinds = {plugin.kind for plugin in plugins}
    if family is None or not family.weight_trap or not kinds >= _TRAP:
        return []
    message = (
        f"is required: without it {family.name} lists the plugins in any order and crashes on a "
        "scorer that comes after the picker"
    )
    return [error("schedulingProfiles", message)]


def _check_undeclared(
    name: Any, plugins: Sequence[Declared], family: PickerFamily | None, path: str
) -> list[Finding]:
    if name in (None, ""):
        return [error(path, "is required")]
    if not isinstance(name, str):
        return [error(path, f"must be a string, got {shown(name)}")]
    # These are added where the configuration does not declare them.
    has_picker = any(plugin.kind in (PluginKind.PICKER, None) for plugin in plugins)
    registered = family is None or family.registers(name)
    if (name == _DEFAULT_PICKER and not has_picker) or (name == _DEFAULT_DETECTOR and registered):
        return []
    if name == _DEFAULT_HANDLER:
        return [warning(path, f"{name} is a handler: a profile has no place for it")]
    declared = ", ".join(shown(plugin.name) for plugin in plugins) or "none"
    return [error(path, f"no plugin is named {shown(name)}; declared: {declared}")]


def _check_weight(
    weight: Any, kind: PluginKind | None, family: PickerFamily | None, path: str
) -> list[Finding]:
    if weight is None:
        return []
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not number or not math.isfinite(weight):
        return [error(path, f"must be a number, got {shown(weight)}")]
    whole = is_whole(weight) and abs(weight) <= _GO_INT
    if family is not None and family.integer_weights and not whole:
        return [error(path, f"must be a whole number for {family.name}, got {shown(weight)}")]
    if kind is PluginKind.SCORER and weight <= 0:
        return [warning(path, f"should be above 0, got {shown(weight)}")]
    if kind is not None and kind is not PluginKind.SCORER:
        return [warning(path, f"only scorers have a weight, and this is a {kind.value}")]
    return []


def _unknown_keys(entry: Mapping[str, Any], allowed: Sequence[str], path: str) -> list[Finding]:
    return [
        error(field(path, key), f"no such field; allowed: {', '.join(allowed)}")
        for key in entry
        if key not in allowed
    ]
