"""Values of fields, shown to people in little room."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.cli.diff.records import FieldChange

_MOST_LINES = 60
_CONTEXT = 2
# Characters that stay before the first difference of two long values.
_LEAD = 24


def shown_pair(change: FieldChange, limit: int) -> tuple[str, str]:
    """Writes both values of a changed field in one line each.

    Args:
        change: The field.
        limit: Most characters of a value.

    Returns:
        The values; of long ones, what is around their first difference.
    """
    old, new = _written(change.old), _written(change.new)
    if old == new and change.old != change.new:  # "1" and 1; masks of two secrets are equal
        old, new = _as_json(change.old), _as_json(change.new)
    if max(len(old), len(new)) <= limit:
        return old, new
    common = next(
        (place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other),
        min(len(old), len(new)),
    )
    start = max(0, common - min(_LEAD, limit // 3))
    return _window(old, start, limit), _window(new, start, limit)


def shown(value: Any, limit: int) -> str:
    """Writes one value in one line."""
    return _window(_written(value), 0, limit)


def lines(change: FieldChange, limit: int) -> Iterator[str]:
    """Writes a field's values as the lines of a diff, each with its sign.

    Args:
        change: The field.
        limit: Most characters of a line.

    Yields:
        Lines that start with `-`, `+`, `@@` or a space; only the lines that differ of texts of
        several lines, and not more than a screenful.
    """
    found = list(_lines(change, limit))
    yield from found[:_MOST_LINES]
    if len(found) > _MOST_LINES:
        yield f"  … {len(found) - _MOST_LINES} more lines"


def is_block(change: FieldChange) -> bool:
    """Tells whether a field's values need several lines."""
    return any(isinstance(value, str) and "\n" in value for value in (change.old, change.new))


def printable(text: str) -> str:
    """Escapes what would move the cursor or hide text."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


def _lines(change: FieldChange, limit: int) -> Iterator[str]:
    texts = isinstance(change.old, str) and isinstance(change.new, str)
    if change.kind == "changed" and texts and is_block(change):
        old, new = change.old.splitlines(), change.new.splitlines()
        unified = difflib.unified_diff(old, new, lineterm="", n=_CONTEXT)
        for number, line in enumerate(unified):
            if number > 1 and line.startswith("@@"):
                yield line
            elif number > 1:
                yield f"{line[0]} {_window(printable(line[1:]), 0, limit)}".rstrip()
        if old == new:
            yield "  only the ends of lines differ"
    elif change.kind == "changed":
        old_text, new_text = shown_pair(change, limit)
        yield f"- {old_text}"
        yield f"+ {new_text}"
    else:
        sign, value = ("+", change.new) if change.kind == "added" else ("-", change.old)
        for line in _block(value, limit):
            yield f"{sign} {_window(line, 0, limit)}".rstrip()


def _block(value: Any, limit: int) -> list[str]:
    """Lines of an added or removed value: a structure that one line cannot hold is YAML."""
    if isinstance(value, str):
        return [printable(line) for line in value.splitlines()] or ['""']
    text = _written(value)
    if len(text) <= limit or not isinstance(value, (dict, list)):
        return [text]
    import yaml

    dumped = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=limit)
    return [printable(line) for line in dumped.splitlines()]


def _written(value: Any) -> str:
    if isinstance(value, str) and value:
        return printable(value)
    return _as_json(value)


def _as_json(value: Any) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _window(text: str, start: int, limit: int) -> str:
    """Cuts a text down to some characters from a place on."""
    # A cut of one character would save nothing.
    start = 0 if start <= 1 or len(text) <= limit else start
    head = "…" if start else ""
    rest = text[start:]
    room = limit - len(head)
    return head + (rest if len(rest) <= room else rest[: room - 1] + "…")
