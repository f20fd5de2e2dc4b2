"""Checks what decides which profiles run: profile handlers and their deciders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, join, shown, warning
from fusioninfer_pulumi.pickers.check_plugins import Declared
from fusioninfer_pulumi.pickers.family import PickerFamily, PluginKind

_SINGLE = "single-profile-handler"
_DISAGG = "disagg-profile-handler"
_PD = "pd-profile-handler"
_BY_LENGTH = "prefix-based-pd-decider"
_HEADERS = ("disagg-headers-handler", "prefill-header-handler")
_FLAT = (
    "decodeProfile",
    "prefillProfile",
    "encodeProfile",
    "prefillDeciderPluginName",
    "encodeDeciderPluginName",
    "deciderPluginName",
)
_NESTED = ("profiles", "deciders")


def check_handlers(
    plugins: Sequence[Declared],
    profiles: Sequence[str],
    gates: Any,
    family: PickerFamily | None,
) -> list[Finding]:
    """What a picker has against the profile handlers.

    Args:
        plugins: The plugins that are declared.
        profiles: Names of the profiles.
        gates: The value of `featureGates`.
        family: The picker, None when it is not known.
    """
    handlers = [plugin for plugin in plugins if plugin.kind is PluginKind.HANDLER]
    findings = [
        error(
            join("plugins", extra.index),
            f"a picker has one profile handler, and {shown(handlers[0].name)} is one already",
        )
        for extra in handlers[1:]
    ]
    # A plugin of which nothing is known may be a handler.
    if not handlers and len(profiles) > 1 and all(plugin.known for plugin in plugins):
        message = f"{len(profiles)} profiles need a profile handler among the plugins"
        findings.append(error("schedulingProfiles", message))
    for handler in handlers:
        if handler.type == _SINGLE and len(profiles) > 1:
            message = f"{_SINGLE} runs one profile, and there are {len(profiles)}"
            findings.append(error(join("plugins", handler.index, "type"), message))
        if handler.type in (_DISAGG, _PD):
            findings += _check_disaggregation(handler, plugins, profiles, gates, family)
    return findings


def _check_disaggregation(
    handler: Declared,
    plugins: Sequence[Declared],
    profiles: Sequence[str],
    gates: Any,
    family: PickerFamily | None,
) -> list[Finding]:
    path = join("plugins", handler.index, "parameters")
    given = handler.parameters
    flat, nested = [[key for key in keys if key in given] for keys in (_FLAT, _NESTED)]
    if handler.type == _DISAGG and flat and nested:
        message = f"{flat[0]} and {nested[0]} are two forms of the same parameters: use one"
        return [error(path, message)]
    decider = _decider(handler)
    findings = _check_decider(handler, decider, plugins, path, family)
    for stage in ("decode", "prefill") if decider else ("decode",):
        findings += _check_profile(given, stage, profiles, path)
    if family is None:
        return findings
    by_length = any(plugin.name == decider and plugin.type == _BY_LENGTH for plugin in plugins)
    gated = isinstance(gates, list) and "prepareDataPlugins" in gates
    if by_length and not family.pd_threshold and not gated:
        message = f"never disaggregates in {family.name} without featureGates: [prepareDataPlugins]"
        findings.append(warning(path, f"{decider} {message}"))
    headers = any(plugin.type in _HEADERS for plugin in plugins)
    if decider and family.pd_needs_headers_handler and not headers:
        message = (
            f"{family.name} tells the sidecar the prefill pod only through {_HEADERS[0]}, which "
            "is not among the plugins: the decode pods do all the work"
        )
        findings.append(warning("plugins", message))
    return findings


def _decider(handler: Declared) -> str:
    """Name of the plugin that decides about prefill, empty when there is none."""
    given = handler.parameters
    nested = given.get("deciders")
    names = [
        nested.get("prefill") if isinstance(nested, dict) else None,
        given.get("prefillDeciderPluginName"),
        given.get("deciderPluginName"),
        _BY_LENGTH if handler.type == _PD else None,
    ]
    return next((name for name in names if isinstance(name, str) and name), "")


def _check_decider(
    handler: Declared,
    decider: str,
    plugins: Sequence[Declared],
    path: str,
    family: PickerFamily | None,
) -> list[Finding]:
    where = f"{path}.{'deciders.prefill' if handler.type == _DISAGG else 'deciderPluginName'}"
    if not decider:
        return [warning(where, "without a decider nothing is ever disaggregated")]
    named = next((plugin for plugin in plugins if plugin.name == decider), None)
    if named is None:
        message = f"needs a decider, and no plugin is named {shown(decider)}"
        return [error(where, message)]
    if named.kind not in (None, PluginKind.DECIDER):
        message = f"must be a decider, and {shown(decider)} is a {named.type}"
        return [error(where, message)]
    if family is not None and family.decider_first and named.index > handler.index:
        message = f"{family.name} wants plugins[{named.index}], the decider, before its handler"
        return [error(where, message)]
    return []


def _check_profile(
    given: Mapping[str, Any], stage: str, profiles: Sequence[str], path: str
) -> list[Finding]:
    nested = given.get("profiles")
    name = nested.get(stage) if isinstance(nested, dict) else None
    name = name or given.get(f"{stage}Profile") or stage
    if not isinstance(name, str) or name in profiles:
        return []
    there = f"no profile is named {shown(name)}; the profiles are {shown(list(profiles))}"
    # disagg_profile_handler.go, Pick and ProcessResults.
    if stage == "decode":
        return [error(path, f"every request fails: {there}")]
    return [warning(path, f"nothing is ever disaggregated: {there}")]
