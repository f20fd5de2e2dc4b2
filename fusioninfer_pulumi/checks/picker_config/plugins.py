"""Checks the `plugins` of an EndpointPickerConfig: types, names and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.checks.picker_config.written import (
    Declared,
    WrittenConfig,
    is_whole,
    not_a_list,
    not_a_mapping,
    text_findings,
    unknown_fields,
)
from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, PluginType, PrefixKeys
from fusioninfer_pulumi.endpoint_pickers.rules import (
    PICKER_CONFIG_DOUBTFUL,
    PICKER_CONFIG_INVALID,
    PICKER_FEATURE_UNSTABLE,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning

PLUGIN_NOT_REGISTERED = Rule(
    "plugin-not-registered",
    ("error", "warning"),
    "The picker's release has the plugin.",
    remedy="Correct its type, or use another release.",
)
DATA_PARALLEL_WITHOUT_POD_IP = Rule(
    "data-parallel-without-pod-ip",
    "warning",
    "The data parallel sidecar listens on an address that the picker reaches.",
    remedy="Let it listen on the pod's address.",
)
PREFIX_BLOCK_SIZE_IN_CHARACTERS = Rule(
    "prefix-block-size-in-characters",
    ("error", "warning"),
    "The block size of the prefix plugin is given in the unit that its release reads.",
    remedy="Use the parameter that the message names.",
)

_PREFIX = ("prefix-cache-scorer", "approx-prefix-cache-producer")
_BY_LENGTH = "prefix-based-pd-decider"


def plugin_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks the list `plugins`; a missing one counts as empty."""
    entries = config.content.get("plugins")
    if entries is None:
        return
    if not isinstance(entries, list):
        yield not_a_list(("plugins",), entries)
        return
    readable = {plugin.index: plugin for plugin in config.plugins}
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        at = ("plugins", index)
        if not isinstance(entry, dict):
            yield not_a_mapping(at, entry, " with a type")
            continue
        yield from unknown_fields(at, entry, ("name", "type", "parameters"))
        yield from text_findings((*at, "type"), entry.get("type"))
        yield from text_findings((*at, "name"), entry.get("name"), required=False)
        plugin = readable.get(index)
        if plugin is None:
            continue
        if first.setdefault(plugin.name, index) != index:
            message = (
                f"{shown(plugin.name)} is already the name of plugins[{first[plugin.name]}]; a "
                "plugin without a name is named like its type"
            )
            yield error(PICKER_CONFIG_INVALID, (*at, "name"), message)
        yield from _type_findings((*at, "type"), plugin, config)
        if plugin.known is not None:
            where = (*at, "parameters")
            yield from _parameter_findings(where, plugin.known, entry, config.family)


def _type_findings(at: Location, plugin: Declared, config: WrittenConfig) -> Iterator[Finding]:
    family = config.family
    if plugin.known is None:
        others = [other.name for other in FAMILIES.values() if other.registers(plugin.type)]
        message = f"{family.name} registers no plugin {shown(plugin.type)} and stops at it"
        if others:
            message += f"; registered by {', '.join(others)}"
        # A type that no release of upstream registers is the user's own, or misspelt.
        say = error if others and not config.own_image else warning
        yield say(PLUGIN_NOT_REGISTERED, at, message)
        return
    if plugin.known.alpha:
        message = f"{plugin.type} is alpha: it needs --allow-experimental-plugins=true"
        yield warning(PICKER_FEATURE_UNSTABLE, at, message)
    if plugin.known.removal is not None:
        yield info(PICKER_FEATURE_UNSTABLE, at, f"{plugin.type} {plugin.known.removal}")


def _parameter_findings(
    at: Location, plugin: PluginType, entry: Mapping[str, Any], family: EppFamily
) -> Iterator[Finding]:
    known, values = plugin.parameters, entry.get("parameters") or {}
    if not isinstance(values, dict):
        # A factory that reads no parameters ignores them.
        if known is None or known:
            yield not_a_mapping(at, values)
        return
    if known is not None:
        yield from _name_findings(at, plugin, known, values, family)
    if plugin.name in _PREFIX:
        yield from _block_size_findings(at, plugin, values, family)
    if plugin.name == _BY_LENGTH and values.get("nonCachedTokens") in (None, 0):
        message = (
            "0, which is the default, never disaggregates; always-disagg-pd-decider always does"
        )
        yield warning(PICKER_CONFIG_DOUBTFUL, (*at, "nonCachedTokens"), message)
    if "primaryPort" in (known or ()) and values.get("primaryPort") not in (None, 0):
        # Source: proxy/data_parallel.go of the sidecar, v0.4.0 to v0.10.0. Istio 1.28 and later do
        # not need the mode.
        message = (
            "switches to data-parallel mode: the sidecar then answers 400 unless its POD_IP is "
            "set; leave it out"
        )
        yield warning(DATA_PARALLEL_WITHOUT_POD_IP, (*at, "primaryPort"), message)


def _name_findings(
    at: Location,
    plugin: PluginType,
    known: frozenset[str],
    values: Mapping[str, Any],
    family: EppFamily,
) -> Iterator[Finding]:
    # Go's JSON reader ignores the case of field names.
    lower = {name.lower() for name in known}
    has = f"it reads {', '.join(sorted(known))}" if known else "it reads no parameters"
    for name in values:
        if name.lower() in lower:
            continue
        if plugin.strict:
            message = f"{family.name} stops at a parameter that {plugin.name} does not know; {has}"
            yield error(PICKER_CONFIG_INVALID, (*at, name), message)
        else:
            message = f"{plugin.name} of {family.name} ignores it; {has}"
            yield warning(PICKER_CONFIG_DOUBTFUL, (*at, name), message)


def _block_size_findings(
    at: Location, plugin: PluginType, values: Mapping[str, Any], family: EppFamily
) -> Iterator[Finding]:
    size, tokens = values.get("blockSize"), values.get("blockSizeTokens")
    if family.prefix_keys is not PrefixKeys.TOKENS or not is_whole(size) or size <= 0:
        return
    unset = 0 if family.prefix_block_refused else 1
    where = (*at, "blockSize")
    if (tokens if is_whole(tokens) else unset) <= 0:
        message = f"{family.name} refuses it: write blockSizeTokens, in tokens instead"
        yield error(PREFIX_BLOCK_SIZE_IN_CHARACTERS, where, message)
    else:
        message = f"{plugin.name} of {family.name} ignores it: write blockSizeTokens"
        yield warning(PREFIX_BLOCK_SIZE_IN_CHARACTERS, where, message)
