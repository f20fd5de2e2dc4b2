"""Checks the `plugins` list: types, names and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, info, join, shown, warning
from fusioninfer_pulumi.pickers.check_parameters import check_parameters, field
from fusioninfer_pulumi.pickers.family import PickerFamily, PluginKind, PluginType
from fusioninfer_pulumi.pickers.table import FAMILIES

_KEYS = ("name", "type", "parameters")


@dataclass(frozen=True)
class Declared:
    """One entry of `plugins`.

    Attributes:
        index: Its place in the list.
        name: What references call it; its type when it has no name.
        type: Its type.
        known: What is known about the type, None when nothing is.
        parameters: Its parameters, empty when it has none that can be read.
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


def check_plugins(
    plugins: Any, family: PickerFamily | None, *, own_image: bool
) -> tuple[list[Declared], list[Finding]]:
    """Reads the list, and says what a picker has against it.

    Args:
        plugins: The value of `plugins`; a picker takes a missing one for an empty list.
        family: The picker, None when it is not known.
        own_image: Whether it may register other types than its family does.

    Returns:
        What could be read, and the findings.
    """
    if plugins is None:
        return [], []
    if not isinstance(plugins, list):
        return [], [error("plugins", f"must be a list, got {shown(plugins)}")]
    declared: list[Declared] = []
    findings: list[Finding] = []
    for index, entry in enumerate(plugins):
        path = join("plugins", index)
        problems = _check_entry(entry, path)
        findings += problems
        if problems and not (isinstance(entry, dict) and _is_name(entry.get("type"))):
            continue
        plugin = _declared(index, entry, family)
        same = next((other for other in declared if other.name == plugin.name), None)
        if same is not None:
            message = (
                f"{shown(plugin.name)} is already the name of plugins[{same.index}]; a plugin "
                "without a name is named like its type"
            )
            findings.append(error(join("plugins", index, "name"), message))
        declared.append(plugin)
        findings += _check_type(plugin, family, path, own_image=own_image)
        if family is not None and plugin.known is not None:
            parameters = entry.get("parameters")
            findings += check_parameters(plugin.known, parameters, family, path)
    return declared, findings


def _check_entry(entry: Any, path: str) -> list[Finding]:
    if not isinstance(entry, dict):
        return [error(path, f"must be a mapping with a type, got {shown(entry)}")]
    findings = [
        error(field(path, key), f"no such field; allowed: {', '.join(_KEYS)}")
        for key in entry
        if key not in _KEYS
    ]
    kind = entry.get("type")
    if kind in (None, ""):
        findings.append(error(f"{path}.type", "is required"))
    elif not isinstance(kind, str):
        findings.append(error(f"{path}.type", f"must be a string, got {shown(kind)}"))
    name = entry.get("name")
    if not (name is None or isinstance(name, str)):
        findings.append(error(f"{path}.name", f"must be a string, got {shown(name)}"))
    return findings


def _declared(index: int, entry: Mapping[str, Any], family: PickerFamily | None) -> Declared:
    kind = str(entry["type"])
    name, parameters = entry.get("name"), entry.get("parameters")
    known = family.plugins.get(kind) if family is not None else _anywhere(kind)
    return Declared(
        index=index,
        name=name if isinstance(name, str) and name else kind,
        type=kind,
        known=known,
        parameters=parameters if isinstance(parameters, dict) else {},
    )


def _check_type(
    plugin: Declared, family: PickerFamily | None, path: str, *, own_image: bool
) -> list[Finding]:
    where = f"{path}.type"
    others = _families_with(plugin.type)
    if plugin.known is None:
        if family is None:
            return [info(where, f"{shown(plugin.type)} is not a plugin of any known picker")]
        message = f"{family.name} registers no plugin {shown(plugin.type)} and stops at it"
        if others:
            message += f"; registered by {', '.join(others)}"
        # No picker of upstream has a type that nobody registers: the user's own, or misspelt.
        certain = bool(others) and not own_image
        return [error(where, message) if certain else warning(where, message)]
    if family is None:
        return []
    findings = []
    if plugin.known.alpha:
        message = f"{plugin.type} is alpha: it needs --allow-experimental-plugins=true"
        findings.append(warning(where, message))
    if plugin.known.removal is not None:
        findings.append(info(where, f"{plugin.type} {plugin.known.removal}"))
    return findings


def _anywhere(kind: str) -> PluginType | None:
    for family in reversed(FAMILIES.values()):
        if kind in family.plugins:
            return family.plugins[kind]
    return None


def _families_with(kind: str) -> Sequence[str]:
    return [family.name for family in FAMILIES.values() if family.registers(kind)]


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""
