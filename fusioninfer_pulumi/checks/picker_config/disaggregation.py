"""Checks what decides which profiles run: profile handlers and their deciders."""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.checks.picker_config.written import PROFILES, Declared, WrittenConfig
from fusioninfer_pulumi.endpoint_pickers.family import PluginKind
from fusioninfer_pulumi.endpoint_pickers.rules import PICKER_CONFIG_DOUBTFUL, PICKER_CONFIG_INVALID
from fusioninfer_pulumi.findings import Finding, Location, error, shown, warning

_SINGLE = "single-profile-handler"
_DISAGG = "disagg-profile-handler"
_PD = "pd-profile-handler"
_BY_LENGTH = "prefix-based-pd-decider"
_HEADERS = ("disagg-headers-handler", "prefill-header-handler")


def handler_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks that one handler fits the profiles, and that disaggregation happens."""
    count = len(config.profiles)
    handlers = [plugin for plugin in config.plugins if plugin.kind is PluginKind.HANDLER]
    for extra in handlers[1:]:
        there = f"{shown(handlers[0].name)} is one already"
        message = f"an endpoint picker has one profile handler, and {there}"
        yield error(PICKER_CONFIG_INVALID, ("plugins", extra.index), message)
    # A plugin of which nothing is known may be a handler.
    if not handlers and count > 1 and all(plugin.known for plugin in config.plugins):
        message = f"{count} profiles need a profile handler among the plugins"
        yield error(PICKER_CONFIG_INVALID, (PROFILES,), message)
    for handler in handlers:
        if handler.type == _SINGLE and count > 1:
            message = f"{_SINGLE} runs one profile, and there are {count}"
            yield error(PICKER_CONFIG_INVALID, ("plugins", handler.index, "type"), message)
        if handler.type in (_DISAGG, _PD):
            yield from _disaggregation_findings(handler, config)


def _disaggregation_findings(handler: Declared, config: WrittenConfig) -> Iterator[Finding]:
    at, family = ("plugins", handler.index, "parameters"), config.family
    decider = _decider(handler)
    yield from _decider_findings(at, handler, decider, config)
    for stage in ("decode", "prefill") if decider else ("decode",):
        yield from _stage_findings(at, handler, stage, config)
    gates = config.content.get("featureGates")
    gated = isinstance(gates, list) and "prepareDataPlugins" in gates
    by_length = any(
        plugin.name == decider and plugin.type == _BY_LENGTH for plugin in config.plugins
    )
    if by_length and not family.pd_threshold and not gated:
        message = f"never disaggregates in {family.name} without featureGates: [prepareDataPlugins]"
        yield warning(PICKER_CONFIG_DOUBTFUL, at, f"{decider} {message}")
    headers = any(plugin.type in _HEADERS for plugin in config.plugins)
    if decider and family.pd_needs_headers_handler and not headers:
        message = (
            f"{family.name} tells the sidecar the prefill pod only through {_HEADERS[0]}, which "
            "is not among the plugins: the decode pods do all the work"
        )
        yield warning(PICKER_CONFIG_DOUBTFUL, ("plugins",), message)


def _decider(handler: Declared) -> str:
    """Name of the plugin that decides about prefill, empty when there is none."""
    parameters = handler.parameters
    nested = parameters.get("deciders")
    names = [
        nested.get("prefill") if isinstance(nested, dict) else None,
        parameters.get("prefillDeciderPluginName"),
        parameters.get("deciderPluginName"),
        _BY_LENGTH if handler.type == _PD else None,
    ]
    return next((name for name in names if isinstance(name, str) and name), "")


def _decider_findings(
    at: Location, handler: Declared, decider: str, config: WrittenConfig
) -> Iterator[Finding]:
    field = ("deciders", "prefill") if handler.type == _DISAGG else ("deciderPluginName",)
    where = (*at, *field)
    named = next((plugin for plugin in config.plugins if plugin.name == decider), None)
    if not decider:
        message = "without a decider nothing is ever disaggregated"
        yield warning(PICKER_CONFIG_DOUBTFUL, where, message)
    elif named is None:
        message = f"needs a decider, and no plugin is named {shown(decider)}"
        yield error(PICKER_CONFIG_INVALID, where, message)
    elif config.family.decider_first and named.index > handler.index:
        message = (
            f"{config.family.name} wants plugins[{named.index}], the decider, before its handler"
        )
        yield error(PICKER_CONFIG_INVALID, where, message)


def _stage_findings(
    at: Location, handler: Declared, stage: str, config: WrittenConfig
) -> Iterator[Finding]:
    nested = handler.parameters.get("profiles")
    name = nested.get(stage) if isinstance(nested, dict) else None
    name = name or handler.parameters.get(f"{stage}Profile") or stage
    names = [str(profile.get("name")) for profile in config.profiles]
    if not isinstance(name, str) or name in names:
        return
    there = f"no profile is named {shown(name)}; the profiles are {shown(names)}"
    # Source: disagg_profile_handler.go, Pick and ProcessResults.
    if stage == "decode":
        yield error(PICKER_CONFIG_INVALID, at, f"every request fails: {there}")
    else:
        yield warning(PICKER_CONFIG_DOUBTFUL, at, f"nothing is ever disaggregated: {there}")
