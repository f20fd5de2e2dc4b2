"""Lines of fields in the texts that were read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import yaml

from fusioninfer_pulumi.findings import Location

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: A label of a service that a program makes: `project/__main__.py:12`.
_SOURCE_LINE = re.compile(r"(.*\.py):(\d+)")
#: What follows the name of a text in a label: `#2`, `#items[1]`, `#2.items[1]`.
_REST = re.compile(r"(?:#(\d+))?(?:[#.]items\[(\d+)\])?")


class TextLines:
    """Lines of the fields of one text, which is parsed when it is asked first."""

    def __init__(self, text: str) -> None:
        self._text = text

    def line(self, document: int, item: int | None, location: Location) -> int | None:
        """The line of a field, or of the nearest one around it; None where there is none."""
        if not 0 < document <= len(self._documents):
            return None
        node = self._documents[document - 1]
        line = _line(node)
        if item is not None:
            found = _below(node, "items")
            node = None if found is None else (_below(found[1], item) or (None, None))[1]
        if location and node is not None and _below(node, location[0]) is None:
            location = ("spec", *location)
        for part in location:
            found = None if node is None else _below(node, part)
            if found is None:
                break
            line, node = _line(found[0]), found[1]
        return line

    @cached_property
    def _documents(self) -> list[Any]:
        try:
            return list(yaml.compose_all(self._text, Loader=_LOADER))
        except (yaml.YAMLError, RecursionError):
            return []


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _below(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """The key and the value of a node by a key or an index."""
    if isinstance(node, yaml.MappingNode):
        return next((pair for pair in node.value if pair[0].value == str(part)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part], node.value[part]
    return None


class Lines:
    """Files and lines of findings."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {label: TextLines(text) for label, text in texts.items()}

    def place(self, label: str, location: Location) -> tuple[str, int | None]:
        """The file of a document, and the line of a field in it, None where it is not known."""
        if match := _SOURCE_LINE.fullmatch(label):
            return match[1], int(match[2])
        for name, text in self._texts.items():
            rest = _REST.fullmatch(label, len(name)) if label.startswith(name) else None
            if rest is not None:
                number, item = rest.groups()
                return name, text.line(int(number or 1), int(item) if item else None, location)
        return label.partition("#")[0], None
