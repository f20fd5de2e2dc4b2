"""Lines of fields in the texts that were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import yaml

from fusioninfer_pulumi.findings import Location, Origin
from fusioninfer_pulumi.loading.yaml import nodes


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
            entry = _below(node, "items")
            node = None if entry is None else (_below(entry[1], item) or (None, None))[1]
        if location and node is not None and _below(node, location[0]) is None:
            location = ("spec", *location)
        for part in location:
            entry = None if node is None else _below(node, part)
            if entry is None:
                break
            line, node = _line(entry[0]), entry[1]
        return line

    @cached_property
    def _documents(self) -> list[Any]:
        return nodes(self._text)


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
    """Lines of findings in the texts that were read."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = {file: TextLines(text) for file, text in texts.items()}

    def place(self, origin: Origin, location: Location) -> Origin:
        """The origin with the line of a field, None where it is not known."""
        text = self._texts.get(origin.file)
        if text is None:
            return origin
        return replace(origin, line=text.line(origin.document, origin.item, location))
