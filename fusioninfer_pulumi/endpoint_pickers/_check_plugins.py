"""Checks the `plugins` of an EndpointPickerConfig: types, names and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from fusioninfer_pulumi.endpoint_pickers.families import FAMILIES
from fusioninfer_pulumi.endpoint_pickers.family import EppFamily, PluginKind, PluginType, PrefixKeys
from fusioninfer_pulumi.endpoint_pickers.rules import (
    PICKER_CONFIG_DOUBTFUL,
    PICKER_CONFIG_INVALID,
    PICKER_FEATURE_UNSTABLE,
)
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, info, shown, warning
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, OUT_OF_RANGE

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

_PREFIX = "prefix-cache-scorer"
_PRODUCER = "approx-prefix-cache-producer"
_BY_LENGTH = "prefix-based-pd-decider"
_BY_LABEL = "by-label"

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
#: Plugins of which the types of these parameters were compared with the factories.
_TYPED = {
    _PREFIX,
    _PRODUCER,
    _BY_LENGTH,
    _BY_LABEL,
    "pd-profile-handler",
    "max-score-picker",
    "random-picker",
    "weighted-random-picker",
}


@dataclass(frozen=True)
class Declared:
    """One entry of `plugins`.

    Attributes:
        name: What references call it; its type when it has no name.
        known: What is known about the type, None when nothing is.
    """

    index: int
    name: str
    type: str
    known: PluginType | None
    parameters: Mapping[str, Any]

    @property
    def kind(self) -> PluginKind | None:
        """What it does, None when that is not known."""
        return None if self.known is None else self.known.kind


def declared_plugins(plugins: Any, family: EppFamily) -> list[Declared]:
    """The entries of `plugins` that have a type."""
    found = []
    for index, entry in enumerate(plugins if isinstance(plugins, list) else ()):
        kind = entry.get("type") if isinstance(entry, dict) else None
        if isinstance(kind, str) and kind:
            name, parameters = entry.get("name"), entry.get("parameters")
            found.append(
                Declared(
                    index=index,
                    name=name if isinstance(name, str) and name else kind,
                    type=kind,
                    known=family.plugins.get(kind),
                    parameters=parameters if isinstance(parameters, dict) else {},
                )
            )
    return found


def check_plugins(
    plugins: Any, declared: Sequence[Declared], family: EppFamily, *, own_image: bool
) -> Iterator[Finding]:
    """Checks the list `plugins`; a missing one counts as empty.

    `declared` is what could be read of it; an `own_image` may register other types than its family.
    """
    if plugins is None:
        return
    if not isinstance(plugins, list):
        yield not_a_list(("plugins",), plugins)
        return
    readable = {plugin.index: plugin for plugin in declared}
    first: dict[str, int] = {}
    for index, entry in enumerate(plugins):
        at = ("plugins", index)
        if not isinstance(entry, dict):
            yield not_a_mapping(at, entry, " with a type")
            continue
        yield from unknown_fields(at, entry, ("name", "type", "parameters"))
        yield from check_text((*at, "type"), entry.get("type"))
        yield from check_text((*at, "name"), entry.get("name"), required=False)
        plugin = readable.get(index)
        if plugin is None:
            continue
        if first.setdefault(plugin.name, index) != index:
            message = (
                f"{shown(plugin.name)} is already the name of plugins[{first[plugin.name]}]; a "
                "plugin without a name is named like its type"
            )
            yield error(PICKER_CONFIG_INVALID, (*at, "name"), message)
        yield from _check_type((*at, "type"), plugin, family, own_image=own_image)
        if plugin.known is not None:
            where = (*at, "parameters")
            yield from _check_parameters(where, plugin.known, entry.get("parameters"), family)


def _check_type(
    at: Location, plugin: Declared, family: EppFamily, *, own_image: bool
) -> Iterator[Finding]:
    if plugin.known is None:
        others = [each.name for each in FAMILIES.values() if each.registers(plugin.type)]
        message = f"{family.name} registers no plugin {shown(plugin.type)} and stops at it"
        if others:
            message += f"; registered by {', '.join(others)}"
        # No endpoint picker of upstream has a type that no plugin registers: the user's own, or
        # misspelt.
        say = error if others and not own_image else warning
        yield say(PLUGIN_NOT_REGISTERED, at, message)
        return
    if plugin.known.alpha:
        message = f"{plugin.type} is alpha: it needs --allow-experimental-plugins=true"
        yield warning(PICKER_FEATURE_UNSTABLE, at, message)
    if plugin.known.removal is not None:
        yield info(PICKER_FEATURE_UNSTABLE, at, f"{plugin.type} {plugin.known.removal}")


def _check_parameters(
    at: Location, plugin: PluginType, parameters: Any, family: EppFamily
) -> Iterator[Finding]:
    """What an endpoint picker has against the parameters of one plugin, None for none."""
    known = plugin.parameters
    if parameters is not None and not isinstance(parameters, dict):
        # A factory that reads no parameters does not look at them either.
        ignored = known is not None and not known
        yield not_a_mapping(at, parameters, say=warning if ignored else error)
        return
    values: Mapping[str, Any] = parameters or {}
    if known is not None:
        yield from _check_names(at, plugin, known, values, family)
    if plugin.name in _TYPED:
        yield from _check_values(at, known or frozenset(), values)
    if plugin.name in (_PREFIX, _PRODUCER):
        yield from _check_block_size(at, plugin, values, family)
    if plugin.name == _BY_LENGTH:
        yield from _check_decider((*at, "nonCachedTokens"), values.get("nonCachedTokens"))
    if plugin.name == _BY_LABEL:
        if values.get("label") in (None, ""):
            yield missing((*at, "label"))
        if not values.get("validValues") and values.get("allowsNoLabel") is not True:
            yield missing((*at, "validValues"), ", unless allowsNoLabel is true")
    if "primaryPort" in (known or ()) and values.get("primaryPort") not in (None, 0):
        # proxy/data_parallel.go of the sidecar, v0.4.0 to v0.10.0; not needed with Istio >= 1.28.
        message = (
            "switches to data-parallel mode: the sidecar then answers 400 unless its POD_IP is "
            "set; leave it out"
        )
        yield warning(DATA_PARALLEL_WITHOUT_POD_IP, (*at, "primaryPort"), message)


def _check_names(
    at: Location,
    plugin: PluginType,
    known: frozenset[str],
    values: Mapping[str, Any],
    family: EppFamily,
) -> Iterator[Finding]:
    # Go's JSON reader takes the names of fields without regard to case.
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


def _check_values(
    at: Location, known: frozenset[str], values: Mapping[str, Any]
) -> Iterator[Finding]:
    for name, value in values.items():
        if name not in known or value is None:
            continue
        if name in _WHOLE and not is_whole(value):
            message = f"must be a whole number, got {shown(value)}"
            yield error(PICKER_CONFIG_INVALID, (*at, name), message)
        elif name in _BOOLEAN and not isinstance(value, bool):
            message = f"must be true or false, got {shown(value)}"
            yield error(PICKER_CONFIG_INVALID, (*at, name), message)


def _check_block_size(
    at: Location, plugin: PluginType, values: Mapping[str, Any], family: EppFamily
) -> Iterator[Finding]:
    size, tokens = values.get("blockSize"), values.get("blockSizeTokens")
    unset = 0 if family.prefix_block_refused else 1
    in_tokens = tokens if is_whole(tokens) else unset
    where = (*at, "blockSize")
    tuned = values.get("autoTune") is not False or family.prefix_block_refused
    if is_whole(size) and size > 0 and family.prefix_keys is PrefixKeys.TOKENS:
        if in_tokens <= 0:
            message = f"{family.name} refuses it: write blockSizeTokens, in tokens instead"
            yield error(PREFIX_BLOCK_SIZE_IN_CHARACTERS, where, message)
        else:
            message = f"{plugin.name} of {family.name} ignores it: write blockSizeTokens"
            yield warning(PREFIX_BLOCK_SIZE_IN_CHARACTERS, where, message)
    elif not tuned and in_tokens <= 0 and "blockSizeTokens" in (plugin.parameters or ()):
        message = f"must be at least 1 without autoTune, got {shown(tokens)}"
        yield error(OUT_OF_RANGE, (*at, "blockSizeTokens"), message)


def _check_decider(at: Location, tokens: Any) -> Iterator[Finding]:
    if tokens in (None, 0):
        message = (
            "0, which is the default, never disaggregates; always-disagg-pd-decider always does"
        )
        yield warning(PICKER_CONFIG_DOUBTFUL, at, message)
    elif is_whole(tokens) and tokens < 0:
        yield error(PICKER_CONFIG_INVALID, at, f"must be at least 0, got {shown(tokens)}")


def not_a_mapping(
    at: Location, value: Any, more: str = "", say: Callable[[Rule, Location, str], Finding] = error
) -> Finding:
    """That a value is no mapping."""
    return say(PICKER_CONFIG_INVALID, at, f"must be a mapping{more}, got {shown(value)}")


def not_a_list(at: Location, value: Any) -> Finding:
    """That a value is no list."""
    return error(PICKER_CONFIG_INVALID, at, f"must be a list, got {shown(value)}")


def missing(at: Location, more: str = "") -> Finding:
    """That a field has no value."""
    return error(FIELD_REQUIRED, at, f"is required{more}")


def check_text(at: Location, value: Any, *, required: bool = True) -> Iterator[Finding]:
    """Asks for a string."""
    if value in (None, ""):
        if required:
            yield missing(at)
    elif not isinstance(value, str):
        yield error(PICKER_CONFIG_INVALID, at, f"must be a string, got {shown(value)}")


def unknown_fields(
    at: Location, entry: Mapping[str, Any], allowed: Iterable[str]
) -> Iterator[Finding]:
    """The keys that an entry must not have."""
    for key in entry:
        if key not in allowed:
            message = f"no such field; allowed: {', '.join(allowed)}"
            yield error(PICKER_CONFIG_INVALID, (*at, key), message)


def is_whole(value: Any) -> TypeGuard[float]:
    """Whether Go reads a YAML value into an int."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
