"""Which fields of an object differ.

Lists whose items are all named are compared by name: an environment variable inserted at the top
is one added variable, not a change of all that follow. The items of other lists are aligned by
value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fusioninfer_pulumi.cli.diff.plain import canonical, plain, same
from fusioninfer_pulumi.cli.diff.records import FieldChange

# Kubernetes merges lists by these keys; volume mounts may repeat a name, but not a path.
_NAMES = ("name", "mountPath")
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def field_changes(old: Any, new: Any) -> Iterator[FieldChange]:
    """Yields the fields that differ between two objects, in their order, with plain JSON values."""
    if not same(old, new):
        yield from _changes("", plain(old), plain(new))


def _changes(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _of_mappings(path, old, new, _key)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _of_lists(path, old, new)
    else:
        yield FieldChange(path, old, new, "changed")


def _of_mappings(
    path: str, old: dict[str, Any], new: dict[str, Any], step: Any
) -> Iterator[FieldChange]:
    for key, value in old.items():
        if key in new:
            yield from _changes(step(path, key), value, new[key])
        else:
            yield FieldChange(step(path, key), value, None, "removed")
    for key, value in new.items():
        if key not in old:
            yield FieldChange(step(path, key), None, value, "added")


def _of_lists(path: str, old: list[Any], new: list[Any]) -> Iterator[FieldChange]:
    for key in _NAMES:
        olds, news = _by_name(old, key), _by_name(new, key)
        if olds is not None and news is not None:
            yield from _of_mappings(path, olds, news, _item)
            if [name for name in olds if name in news] != [name for name in news if name in olds]:
                yield FieldChange(f"{path}[*].{key}", list(olds), list(news), "changed")
            return
    # Imported here: nothing else of most comparisons needs it.
    from difflib import SequenceMatcher

    texts = [[canonical(item) for item in items] for items in (old, new)]
    matcher = SequenceMatcher(None, *texts, autojunk=False)
    for tag, start, end, start_new, end_new in matcher.get_opcodes():
        if tag == "equal":
            continue
        both = min(end - start, end_new - start_new)
        for at in range(both):
            yield from _changes(_item(path, start + at), old[start + at], new[start_new + at])
        for at in range(start + both, end):
            yield FieldChange(_item(path, at), old[at], None, "removed")
        for at in range(start_new + both, end_new):
            yield FieldChange(_item(path, at), None, new[at], "added")


def _by_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """Indexes items by name, None where one has no name or shares it."""
    named = {
        item[key]: item for item in items if isinstance(item, dict) and type(item.get(key)) is str
    }
    return named if len(named) == len(items) else None


def _key(path: str, key: str) -> str:
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _item(path: str, at: str | int) -> str:
    return f"{path}[{at}]"
