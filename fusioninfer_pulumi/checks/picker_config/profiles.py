"""Checks the scheduling profiles of an EndpointPickerConfig: references, weights, load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fusioninfer_pulumi.checks.picker_config.written import (
    PROFILES,
    WrittenConfig,
    is_whole,
    not_a_list,
    not_a_mapping,
    text_findings,
    unknown_fields,
)
from fusioninfer_pulumi.checks.picker_strategy import without_load
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, PluginKind
from fusioninfer_pulumi.endpoint_pickers.rules import PICKER_CONFIG_INVALID, SCORERS_WITHOUT_LOAD
from fusioninfer_pulumi.findings import Finding, Location, error, shown, warning
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE

#: The picker adds this one where the configuration declares no picker plugin.
_DEFAULT_PICKER = "max-score-picker"
#: The picker adds these where the configuration does not declare them.
_ADDED = ("utilization-detector", "single-profile-handler")
#: Scorers that prefer the pod with a prefix or adapter, however busy it is.
_AFFINITY = {"prefix-cache-scorer", "precise-prefix-cache-scorer", "lora-affinity-scorer"}


def profile_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks the profiles; without any, an endpoint picker makes one of all plugins."""
    profiles, family = config.content.get(PROFILES), config.family
    if profiles is None or profiles == []:
        kinds = {plugin.kind for plugin in config.plugins}
        if family.weight_trap and kinds >= {PluginKind.SCORER, PluginKind.PICKER}:
            message = (
                f"is required: without it {family.name} lists the plugins in any order and crashes "
                "on a scorer that comes after the picker plugin"
            )
            yield error(PICKER_CONFIG_INVALID, (PROFILES,), message)
        return
    if not isinstance(profiles, list):
        yield not_a_list((PROFILES,), profiles)
        return
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        at = (PROFILES, index)
        if not isinstance(profile, dict):
            yield not_a_mapping(at, profile)
            continue
        yield from unknown_fields(at, profile, ("name", "plugins"))
        name = profile.get("name")
        yield from text_findings((*at, "name"), name)
        if isinstance(name, str) and name and name in names:
            message = f"{shown(name)} is already a profile's name"
            yield error(PICKER_CONFIG_INVALID, (*at, "name"), message)
        names.add(str(name))
        references = profile.get("plugins")
        if isinstance(references, list):
            yield from _reference_findings((*at, "plugins"), references, config)
        elif references is not None:
            yield not_a_list((*at, "plugins"), references)


def load_findings(config: WrittenConfig) -> Iterator[Finding]:
    """Checks that profiles see load, as far as their scorers are known: one warning for all."""
    profiles = config.content.get(PROFILES)
    for index, profile in enumerate(profiles if isinstance(profiles, list) else ()):
        references = profile.get("plugins") if isinstance(profile, dict) else None
        names = [
            reference.get("pluginRef")
            for reference in (references if isinstance(references, list) else ())
            if isinstance(reference, dict)
        ]
        scorers = [
            plugin.type
            for plugin in config.plugins
            if plugin.name in names and plugin.kind in (PluginKind.SCORER, None)
        ]
        if scorers and _AFFINITY.issuperset(scorers):
            at = (PROFILES, index, "plugins")
            yield warning(SCORERS_WITHOUT_LOAD, at, without_load(", ".join(scorers)))
            return


def _reference_findings(
    at: Location, references: Sequence[Any], config: WrittenConfig
) -> Iterator[Finding]:
    by_name = {plugin.name: plugin for plugin in config.plugins}
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
            yield from _undeclared_findings(where, name, config)
            if name == _DEFAULT_PICKER:
                kind = PluginKind.PICKER
        if kind is PluginKind.PICKER:
            if picker is not None:
                message = f"a profile has one picker plugin, and {shown(picker)} is one already"
                yield error(PICKER_CONFIG_INVALID, where, message)
            picker = str(name)
        scored_late = picker is not None and kind is PluginKind.SCORER
        yield from _weight_findings(
            (*entry, "weight"), reference.get("weight"), kind, config.family, late=scored_late
        )


def _undeclared_findings(at: Location, name: Any, config: WrittenConfig) -> Iterator[Finding]:
    if not isinstance(name, str) or name == "":
        yield from text_findings(at, name)
        return
    has_picker = any(plugin.kind in (PluginKind.PICKER, None) for plugin in config.plugins)
    if name == _DEFAULT_PICKER and not has_picker:
        return
    if name in _ADDED and config.family.registers(name):
        return
    declared = ", ".join(shown(plugin.name) for plugin in config.plugins) or "none"
    message = f"no plugin is named {shown(name)}; declared: {declared}"
    yield error(PICKER_CONFIG_INVALID, at, message)


def _weight_findings(
    at: Location, weight: Any, kind: PluginKind | None, family: EppFamily, *, late: bool
) -> Iterator[Finding]:
    """Checks a weight; `late` is a scorer that stands after the picker plugin."""
    if weight is None:
        if family.weight_trap and late:
            message = (
                f"{family.name} crashes on a scorer without a weight that stands after the "
                "picker plugin: write one"
            )
            yield error(FIELD_REQUIRED, at, message)
    elif not isinstance(weight, (int, float)) or isinstance(weight, bool):
        yield error(PICKER_CONFIG_INVALID, at, f"must be a number, got {shown(weight)}")
    elif family.integer_weights and not is_whole(weight):
        message = f"must be a whole number for {family.name}, got {shown(weight)}"
        yield error(OUT_OF_RANGE, at, message)
    elif kind is PluginKind.SCORER and weight <= 0:
        yield warning(OUT_OF_RANGE, at, f"should be above 0, got {shown(weight)}")
