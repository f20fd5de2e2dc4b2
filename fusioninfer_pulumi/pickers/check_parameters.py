"""Checks the parameters of one plugin against what its factory reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from fusioninfer_pulumi.findings import Finding, error, join, shown, warning
from fusioninfer_pulumi.pickers.family import PickerFamily, PluginType, PrefixKeys

_PREFIX = "prefix-cache-scorer"
_PRODUCER = "approx-prefix-cache-producer"
_BY_LENGTH = "prefix-based-pd-decider"

_WHOLE = {
    "blockSize",
    "blockSizeTokens",
    "maxPrefixBlocksToMatch",
    "maxPrefixTokensToMatch",
    "lruCapacityPerServer",
    "nonCachedTokens",
    "promptTokens",
    "primaryPort",
    "maxNumOfEndpoints",
}
_BOOLEAN = {"autoTune", "allowsNoLabel"}
_TYPED = {
    _PREFIX,
    _PRODUCER,
    _BY_LENGTH,
    "by-label",
    "pd-profile-handler",
    "max-score-picker",
    "random-picker",
    "weighted-random-picker",
}


def check_parameters(
    plugin: PluginType, parameters: Any, family: PickerFamily, path: str
) -> list[Finding]:
    """What a picker has against the parameters of one plugin.

    Args:
        plugin: The plugin.
        parameters: The value of `parameters`, None when there are none.
        family: The picker.
        path: Place of the plugin, `plugins[2]`.
    """
    where = f"{path}.parameters"
    if parameters is None:
        return _check_missing(plugin, where)
    known = plugin.parameters
    if not isinstance(parameters, dict):
        message = f"must be a mapping, got {shown(parameters)}"
        # A factory that reads no parameters does not look at them either.
        return [error(where, message) if known or known is None else warning(where, message)]
    findings = []
    if known is not None:
        findings += _check_names(plugin, known, parameters, family, where)
    if plugin.name in _TYPED and known:
        findings += _check_values(parameters, known, where)
    if plugin.name in (_PREFIX, _PRODUCER):
        findings += _check_block_size(plugin, parameters, family, where)
    if plugin.name == _BY_LENGTH:
        findings += _check_decider(parameters, where)
    if plugin.name == "by-label":
        findings += _check_by_label(parameters, where)
    if known and "primaryPort" in known and parameters.get("primaryPort") not in (None, 0):
        # proxy/data_parallel.go of the sidecar, v0.4.0 to v0.10.0; not needed with Istio >= 1.28.
        message = (
            "switches to data-parallel mode: the sidecar then answers 400 unless its POD_IP is "
            "set; leave it out"
        )
        findings.append(warning(f"{where}.primaryPort", message))
    return findings


def _check_missing(plugin: PluginType, where: str) -> list[Finding]:
    if plugin.name == _BY_LENGTH:
        return _check_decider({}, where)
    return _check_by_label({}, where) if plugin.name == "by-label" else []


def _check_names(
    plugin: PluginType,
    known: frozenset[str],
    parameters: Mapping[str, Any],
    family: PickerFamily,
    where: str,
) -> list[Finding]:
    findings = []
    # Go's JSON reader takes the names of fields without regard to case.
    lower = {name.lower() for name in known}
    for name in parameters:
        if name.lower() in lower:
            continue
        has = f"it reads {', '.join(sorted(known))}" if known else "it reads no parameters"
        if plugin.strict:
            message = f"{family.name} stops at a parameter that {plugin.name} does not know; {has}"
            findings.append(error(field(where, name), message))
        else:
            message = f"{plugin.name} of {family.name} ignores it; {has}"
            findings.append(warning(field(where, name), message))
    return findings


def _check_values(
    parameters: Mapping[str, Any], known: frozenset[str], where: str
) -> list[Finding]:
    findings = []
    for name, value in parameters.items():
        if name not in known or value is None:
            continue
        if name in _WHOLE and not is_whole(value):
            message = f"must be a whole number, got {shown(value)}"
            findings.append(error(field(where, name), message))
        elif name in _BOOLEAN and not isinstance(value, bool):
            findings.append(error(field(where, name), f"must be true or false, got {shown(value)}"))
    return findings


def _check_block_size(
    plugin: PluginType, parameters: Mapping[str, Any], family: PickerFamily, where: str
) -> list[Finding]:
    size, tokens = parameters.get("blockSize"), parameters.get("blockSizeTokens")
    unset = 0 if family.prefix_block_refused else 1
    in_tokens = tokens if is_whole(tokens) else unset
    path = f"{where}.blockSize"
    if is_whole(size) and size > 0 and family.prefix_keys is PrefixKeys.TOKENS:
        if in_tokens <= 0:
            message = f"{family.name} refuses it: write blockSizeTokens, in tokens instead"
            return [error(path, message)]
        return [warning(path, f"{plugin.name} of {family.name} ignores it: write blockSizeTokens")]
    tuned = parameters.get("autoTune") is not False or family.prefix_block_refused
    if not tuned and in_tokens <= 0 and "blockSizeTokens" in (plugin.parameters or ()):
        message = f"must be at least 1 without autoTune, got {shown(tokens)}"
        return [error(f"{where}.blockSizeTokens", message)]
    return []


def _check_decider(parameters: Mapping[str, Any], where: str) -> list[Finding]:
    tokens = parameters.get("nonCachedTokens")
    path = f"{where}.nonCachedTokens"
    if tokens in (None, 0):
        message = (
            "0, which is the default, never disaggregates; always-disagg-pd-decider always does"
        )
        return [warning(path, message)]
    if is_whole(tokens) and tokens < 0:
        return [error(path, f"must be at least 0, got {shown(tokens)}")]
    return []


def _check_by_label(parameters: Mapping[str, Any], where: str) -> list[Finding]:
    findings = []
    if parameters.get("label") in (None, ""):
        findings.append(error(f"{where}.label", "is required"))
    if not parameters.get("validValues") and parameters.get("allowsNoLabel") is not True:
        message = "is required, unless allowsNoLabel is true"
        findings.append(error(f"{where}.validValues", message))
    return findings


def field(path: str, key: str) -> str:
    """Path of a key below a path that is written already."""
    written = join(key)
    return path + (written if written.startswith("[") else f".{written}")


def is_whole(value: Any) -> TypeGuard[float]:
    """Whether Go reads a YAML value into an int."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
