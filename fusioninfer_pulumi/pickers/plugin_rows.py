"""Reads the plugin tables: one type a row, as `type  kind  parameters`.

`-` stands for a factory that reads no parameters, `?` for one whose parameters are not recorded.
A row that begins with spaces goes on with the parameters of the row before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fusioninfer_pulumi.pickers.family import PluginKind, PluginType

Plugins = dict[str, PluginType]


def plugins(text: str, *, strict: bool = False, alpha: bool = False) -> Plugins:
    """The plugins of a table.

    Args:
        text: The table.
        strict: Whether the picker decodes parameters strictly; it does so only where the factory
            reads any.
        alpha: Whether the picker wants `--allow-experimental-plugins` for them.
    """
    rows: list[list[str]] = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            rows[-1] += line.split()
        elif line:
            rows.append(line.split())
    found = {}
    for name, kind, *words in rows:
        parameters = None if words == ["?"] else frozenset(words) - {"-"}
        found[name] = PluginType(
            name=name,
            kind=PluginKind(kind),
            parameters=parameters,
            strict=strict and bool(parameters),
            alpha=alpha,
        )
    return found


def removed_later(table: Plugins, notices: Mapping[str, str]) -> Plugins:
    """A table with what was announced about some of its types."""
    return {name: replace(plugin, removal=notices.get(name)) for name, plugin in table.items()}
