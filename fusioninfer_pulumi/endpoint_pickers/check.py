"""Checks an EndpointPickerConfig that a user wrote against the endpoint picker that will read it.

An error is what stops the endpoint picker, which then crash-loops; a warning is what it takes
without doing what the text says. Every verdict was compared with the real ones of the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.endpoint_pickers._check_plugins import (
    Declared,
    check_plugins,
    check_text,
    declared_plugins,
    is_whole,
    not_a_list,
    not_a_mapping,
    unknown_fields,
)
from fusioninfer_pulumi.endpoint_pickers._config_text import UnreadableError, read_config
from fusioninfer_pulumi.endpoint_pickers.config import without_load
from fusioninfer_pulumi.endpoint_pickers.family import (
    IN_PROFILE,
    KIND,
    EppFamily,
    Family,
    PluginKind,
)
from fusioninfer_pulumi.endpoint_pickers.rules import (
    PICKER_CONFIG_DOUBTFUL,
    PICKER_CONFIG_INVALID,
    PICKER_FEATURE_UNSTABLE,
    SCORERS_WITHOUT_LOAD,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE

PICKER_CONFIG_EMPTY = Rule(
    "picker-config-empty",
    "error",
    "A picker configuration is not empty.",
    remedy="Fill it, or remove it.",
)

_GO_BOOLEANS = {"1", "t", "true", "0", "f", "false"}
_GO_INT = 2**63 - 1
_DATA_LAYER = "dataLayer"
_PROFILES = "schedulingProfiles"

# These are added where the configuration does not declare them.
_DEFAULT_PICKER = "max-score-picker"
_DEFAULT_DETECTOR = "utilization-detector"
_SINGLE = "single-profile-handler"

#: Scorers that prefer a pod for what it holds, however busy it is.
_AFFINITY = {"prefix-cache-scorer", "precise-prefix-cache-scorer", "lora-affinity-scorer"}

_DISAGG = "disagg-profile-handler"
_PD = "pd-profile-handler"
_BY_LENGTH = "prefix-based-pd-decider"
_HEADERS = ("disagg-headers-handler", "prefill-header-handler")
#: The two forms of a disaggregation handler's parameters.
_FLAT = (
    "decodeProfile",
    "prefillProfile",
    "encodeProfile",
    "prefillDeciderPluginName",
    "encodeDeciderPluginName",
    "deciderPluginName",
)
_NESTED = ("profiles", "deciders")


def check_config(text: str, family: EppFamily, *, own_image: bool = False) -> list[Finding]:
    """Findings located in a user's configuration (`plugins[2].parameters.blockSize`).

    An `own_image` may register plugins that its family does not, which is then no error.
    """
    try:
        config, more = read_config(text)
    except UnreadableError as problem:
        return [error(PICKER_CONFIG_INVALID, (), str(problem))]
    if config is None:
        message = "is empty; leave endpointPickerConfig out to use a strategy"
        return [error(PICKER_CONFIG_EMPTY, (), message)]
    if not isinstance(config, dict):
        return [not_a_mapping((), config)]
    found = [*_check_header(config, family), *_check_sections(config, family)]
    found += _check_gates(config, family)
    if more:
        message = "the endpoint picker reads nothing after the first YAML document"
        found.append(warning(PICKER_CONFIG_DOUBTFUL, (), message))
    plugins = declared_plugins(config.get("plugins"), family)
    found += check_plugins(config.get("plugins"), plugins, family, own_image=own_image)
    found += _check_profiles(config.get(_PROFILES), plugins, family)
    found += _check_load(config.get(_PROFILES), plugins)
    found += _check_handlers(config, plugins, family)
    return found


def _check_header(config: Mapping[str, Any], family: EppFamily) -> Iterator[Finding]:
    # Without either of them every endpoint picker takes the text for what it expects (measured).
    kind, api = config.get("kind"), config.get("apiVersion")
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


def _check_sections(config: Mapping[str, Any], family: EppFamily) -> Iterator[Finding]:
    for key, value in config.items():
        if key in ("apiVersion", "kind"):
            continue
        if key in ("metadata", "spec"):
            message = (
                "the configuration is a file, not an object of the cluster: it has no metadata, "
                "and what would be its spec stands at the top"
            )
            yield error(PICKER_CONFIG_INVALID, (key,), message)
        elif key not in family.sections:
            message = f"no such field; {family.name} has {', '.join(family.sections)}"
            yield error(PICKER_CONFIG_INVALID, (key,), message)
        else:
            allowed = family.sections[key]
            if allowed is None or value is None:
                continue
            if isinstance(value, dict):
                yield from unknown_fields((key,), value, sorted(allowed))
            else:
                yield not_a_mapping((key,), value)


def _check_gates(config: Mapping[str, Any], family: EppFamily) -> Iterator[Finding]:
    """Checks `featureGates`: each release registers others, and an unknown one stops it."""
    gates = config.get("featureGates")
    gates = [] if gates is None else gates
    if not isinstance(gates, list) or not all(isinstance(gate, str) for gate in gates):
        message = f"must be a list of names, got {shown(gates)}"
        yield error(PICKER_CONFIG_INVALID, ("featureGates",), message)
        return
    for index, gate in enumerate(gates):
        at = ("featureGates", index)
        name, equals, value = gate.partition("=")
        if not family.gate_values:
            name = gate
        elif equals and value.strip().lower() not in _GO_BOOLEANS:
            message = f"must be {name}=true or {name}=false, got {gate}"
            yield error(PICKER_CONFIG_INVALID, at, message)
            continue
        if name not in family.feature_gates:
            known = ", ".join(sorted(family.feature_gates))
            message = f"{family.name} knows no feature gate {shown(gate)}; it has {known}"
            yield error(PICKER_CONFIG_INVALID, at, message)
        else:
            message = f"{shown(gate)} is an experiment of {family.name}: other releases refuse it"
            yield info(PICKER_FEATURE_UNSTABLE, at, message)
    # The gate and the section of the first data layers belong together (buildDataLayerConfig).
    if "data" not in family.sections:
        return
    data, first = config.get("data"), family.family is Family.GAIE_1_3
    if _DATA_LAYER in gates:
        empty = data is None or (isinstance(data, dict) and data.get("sources") is None)
        if data is None or (empty and not first):
            message = f"{family.name} stops at the gate {_DATA_LAYER} without data.sources"
            yield error(PICKER_CONFIG_INVALID, ("data",), message)
    elif data is not None and first:
        message = f"{family.name} stops at it without featureGates: [{_DATA_LAYER}]"
        yield error(PICKER_CONFIG_INVALID, ("data",), message)


def _check_profiles(
    profiles: Any, plugins: Sequence[Declared], family: EppFamily
) -> Iterator[Finding]:
    """Checks the profiles; without any, an endpoint picker makes one of all plugins."""
    if profiles is None or profiles == []:
        kinds = {plugin.kind for plugin in plugins}
        if family.weight_trap and kinds >= {PluginKind.SCORER, PluginKind.PICKER}:
            message = (
                f"is required: without it {family.name} lists the plugins in any order and crashes "
                "on a scorer that comes after the picker plugin"
            )
            yield error(PICKER_CONFIG_INVALID, (_PROFILES,), message)
        return
    if not isinstance(profiles, list):
        yield not_a_list((_PROFILES,), profiles)
        return
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        at = (_PROFILES, index)
        if not isinstance(profile, dict):
            yield not_a_mapping(at, profile)
            continue
        yield from unknown_fields(at, profile, ("name", "plugins"))
        name = profile.get("name")
        yield from check_text((*at, "name"), name)
        if isinstance(name, str) and name and name in names:
            message = f"{shown(name)} is already a profile's name"
            yield error(PICKER_CONFIG_INVALID, (*at, "name"), message)
        names.add(str(name))
        references = profile.get("plugins")
        if isinstance(references, list):
            yield from _check_references((*at, "plugins"), references, plugins, family)
        elif references is not None:
            yield not_a_list((*at, "plugins"), references)


def _check_load(profiles: Any, plugins: Sequence[Declared]) -> Iterator[Finding]:
    """Checks that profiles see load, as far as their scorers are known: one warning for all."""
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        references = profile.get("plugins") if isinstance(profile, dict) else None
        names = [
            reference.get("pluginRef")
            for reference in (references if isinstance(references, list) else ())
            if isinstance(reference, dict)
        ]
        scorers = [
            plugin.type
            for plugin in plugins
            if plugin.name in names and plugin.kind in (PluginKind.SCORER, None)
        ]
        if scorers and _AFFINITY.issuperset(scorers):
            at = (_PROFILES, index, "plugins")
            yield warning(SCORERS_WITHOUT_LOAD, at, without_load(", ".join(scorers)))
            return


def _check_references(
    at: Location, references: Sequence[Any], plugins: Sequence[Declared], family: EppFamily
) -> Iterator[Finding]:
    by_name = {plugin.name: plugin for plugin in plugins}
    picker: str | None = None
    for index, reference in enumerate(references):
        entry, where = (*at, index), (*at, index, "pluginRef")
        if not isinstance(reference, dict):
            yield not_a_mapping(entry, reference, " with a pluginRef")
            continue
        yield from unknown_fields(entry, reference, ("pluginRef", "weight"))
        name = reference.get("pluginRef")
        plugin = by_name.get(name) if isinstance(name, str) else None
        kind = plugin.kind if plugin is not None else None
        if plugin is None:
            yield from _check_undeclared(where, name, plugins, family)
            if name == _DEFAULT_PICKER:
                kind = PluginKind.PICKER
        elif kind is not None and kind not in IN_PROFILE:
            message = f"{shown(name)} is a {kind.value}: a profile has no place for it"
            yield warning(PICKER_CONFIG_DOUBTFUL, where, message)
        if kind is PluginKind.PICKER:
            if picker is not None:
                message = f"a profile has one picker plugin, and {shown(picker)} is one already"
                yield error(PICKER_CONFIG_INVALID, where, message)
            picker = str(name)
        yield from _check_weight(
            (*entry, "weight"),
            reference.get("weight"),
            kind,
            family,
            after_picker=picker is not None,
        )


def _check_undeclared(
    at: Location, name: Any, plugins: Sequence[Declared], family: EppFamily
) -> Iterator[Finding]:
    if not isinstance(name, str) or name == "":
        yield from check_text(at, name)
        return
    has_picker = any(plugin.kind in (PluginKind.PICKER, None) for plugin in plugins)
    if name == _DEFAULT_PICKER and not has_picker:
        return
    if name == _DEFAULT_DETECTOR and family.registers(name):
        return
    if name == _SINGLE:
        message = f"{name} is a handler: a profile has no place for it"
        yield warning(PICKER_CONFIG_DOUBTFUL, at, message)
        return
    declared = ", ".join(shown(plugin.name) for plugin in plugins) or "none"
    message = f"no plugin is named {shown(name)}; declared: {declared}"
    yield error(PICKER_CONFIG_INVALID, at, message)


def _check_weight(
    at: Location, weight: Any, kind: PluginKind | None, family: EppFamily, *, after_picker: bool
) -> Iterator[Finding]:
    if weight is None:
        if family.weight_trap and after_picker and kind is PluginKind.SCORER:
            message = (
                f"{family.name} crashes on a scorer without a weight that stands after the "
                "picker plugin: write one"
            )
            yield error(FIELD_REQUIRED, at, message)
        return
    number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not number or not math.isfinite(weight):
        yield error(PICKER_CONFIG_INVALID, at, f"must be a number, got {shown(weight)}")
    elif family.integer_weights and not (is_whole(weight) and abs(weight) <= _GO_INT):
        message = f"must be a whole number for {family.name}, got {shown(weight)}"
        yield error(OUT_OF_RANGE, at, message)
    elif kind is PluginKind.SCORER and weight <= 0:
        yield warning(OUT_OF_RANGE, at, f"should be above 0, got {shown(weight)}")
    elif kind is not None and kind is not PluginKind.SCORER:
        message = f"only scorers have a weight, and this is a {kind.value}"
        yield warning(PICKER_CONFIG_DOUBTFUL, at, message)


def _check_handlers(
    config: Mapping[str, Any], plugins: Sequence[Declared], family: EppFamily
) -> Iterator[Finding]:
    """Checks what decides which profiles run: profile handlers and their deciders."""
    profiles = _profile_names(config)
    handlers = [plugin for plugin in plugins if plugin.kind is PluginKind.HANDLER]
    for extra in handlers[1:]:
        there = f"{shown(handlers[0].name)} is one already"
        message = f"an endpoint picker has one profile handler, and {there}"
        yield error(PICKER_CONFIG_INVALID, ("plugins", extra.index), message)
    # A plugin of which nothing is known may be a handler.
    if not handlers and len(profiles) > 1 and all(plugin.known for plugin in plugins):
        message = f"{len(profiles)} profiles need a profile handler among the plugins"
        yield error(PICKER_CONFIG_INVALID, (_PROFILES,), message)
    for handler in handlers:
        if handler.type == _SINGLE and len(profiles) > 1:
            message = f"{_SINGLE} runs one profile, and there are {len(profiles)}"
            yield error(PICKER_CONFIG_INVALID, ("plugins", handler.index, "type"), message)
        if handler.type in (_DISAGG, _PD):
            gates = config.get("featureGates")
            gated = isinstance(gates, list) and "prepareDataPlugins" in gates
            yield from _check_disaggregation(handler, plugins, profiles, family, gated=gated)


def _profile_names(config: Mapping[str, Any]) -> list[str]:
    profiles = config.get(_PROFILES)
    listed = profiles if isinstance(profiles, list) else []
    return [str(profile.get("name")) for profile in listed if isinstance(profile, dict)]


def _check_disaggregation(
    handler: Declared,
    plugins: Sequence[Declared],
    profiles: Sequence[str],
    family: EppFamily,
    *,
    gated: bool,
) -> Iterator[Finding]:
    at = ("plugins", handler.index, "parameters")
    parameters = handler.parameters
    flat, nested = [[key for key in keys if key in parameters] for keys in (_FLAT, _NESTED)]
    if handler.type == _DISAGG and flat and nested:
        message = f"{flat[0]} and {nested[0]} are two forms of the same parameters: use one"
        yield error(PICKER_CONFIG_INVALID, at, message)
        return
    decider = _decider(handler)
    yield from _check_decider(at, handler, decider, plugins, family)
    for stage in ("decode", "prefill") if decider else ("decode",):
        yield from _check_stage(at, parameters, stage, profiles)
    by_length = any(plugin.name == decider and plugin.type == _BY_LENGTH for plugin in plugins)
    if by_length and not family.pd_threshold and not gated:
        message = f"never disaggregates in {family.name} without featureGates: [prepareDataPlugins]"
        yield warning(PICKER_CONFIG_DOUBTFUL, at, f"{decider} {message}")
    headers = any(plugin.type in _HEADERS for plugin in plugins)
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


def _check_decider(
    at: Location,
    handler: Declared,
    decider: str,
    plugins: Sequence[Declared],
    family: EppFamily,
) -> Iterator[Finding]:
    field = ("deciders", "prefill") if handler.type == _DISAGG else ("deciderPluginName",)
    where = (*at, *field)
    named = next((plugin for plugin in plugins if plugin.name == decider), None)
    if not decider:
        message = "without a decider nothing is ever disaggregated"
        yield warning(PICKER_CONFIG_DOUBTFUL, where, message)
    elif named is None:
        message = f"needs a decider, and no plugin is named {shown(decider)}"
        yield error(PICKER_CONFIG_INVALID, where, message)
    elif named.kind not in (None, PluginKind.DECIDER):
        message = f"must be a decider, and {shown(decider)} is a {named.type}"
        yield error(PICKER_CONFIG_INVALID, where, message)
    elif family.decider_first and named.index > handler.index:
        message = f"{family.name} wants plugins[{named.index}], the decider, before its handler"
        yield error(PICKER_CONFIG_INVALID, where, message)


def _check_stage(
    at: Location, parameters: Mapping[str, Any], stage: str, profiles: Sequence[str]
) -> Iterator[Finding]:
    nested = parameters.get("profiles")
    name = nested.get(stage) if isinstance(nested, dict) else None
    name = name or parameters.get(f"{stage}Profile") or stage
    if not isinstance(name, str) or name in profiles:
        return
    there = f"no profile is named {shown(name)}; the profiles are {shown(list(profiles))}"
    # disagg_profile_handler.go, Pick and ProcessResults.
    if stage == "decode":
        yield error(PICKER_CONFIG_INVALID, at, f"every request fails: {there}")
    else:
        yield warning(PICKER_CONFIG_DOUBTFUL, at, f"nothing is ever disaggregated: {there}")
