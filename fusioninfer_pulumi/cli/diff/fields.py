"""Which fields of an object differ.

What is equal is cut away first, and lists whose items are all named become mappings by name: an
environment variable inserted at the top is then one added variable, not a change of all that
follow. DeepDiff compares what is left. Replicas of a role differ in the same way, so the findings
are kept by what was compared: 10,000 replicas cost one deep comparison.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.cli.diff.plain import canonical, plain, same
from fusioninfer_pulumi.cli.diff.records import FieldChange, FieldKind

# Kubernetes merges lists by these keys; volume mounts may repeat a name, but not a path.
_NAMES = ("name", "mountPath")
# Marks of a list that became a mapping: the key that names its items, and their order where it
# differs. No Kubernetes name holds a control character.
_BY, _ORDER = "\0by", "\0order"
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KINDS: tuple[tuple[str, FieldKind], ...] = (("added", "added"), ("removed", "removed"))


class FieldComparison:
    """Compares objects field by field and remembers what it compared."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[FieldChange, ...]] = {}

    def changes(self, old: Any, new: Any) -> tuple[FieldChange, ...]:
        """Lists the fields that differ between two objects, in the order of the objects.

        Args:
            old: Object before.
            new: Object after.

        Returns:
            The changes; their values are plain JSON.
        """
        old, new = plain(old), plain(new)
        return () if same(old, new) else self._changes(*_reduced(old, new), prefix="")

    def _changes(self, old: Any, new: Any, prefix: str) -> tuple[FieldChange, ...]:
        compared = json.dumps([prefix, old, new])
        if compared not in self._found:
            self._found[compared] = tuple(self._deep(old, new, prefix))
        return self._found[compared]

    def _deep(self, old: Any, new: Any, prefix: str) -> Iterator[FieldChange]:
        # Imported here: it takes longer than the rest of the command line, and most runs of a
        # preview job find nothing to compare.
        from deepdiff import DeepDiff

        tree = DeepDiff(
            old, new, view="tree", ignore_private_variables=False, threshold_to_diff_deeper=0
        )
        finder = _Finder()
        places = [
            (finder.place(old, new, level.path(output_format="list"), prefix), report, level)
            for report, found in tree.items()
            for level in found
        ]
        for place, report, level in sorted(places, key=lambda found: found[0].order):
            kind: FieldKind = next((kind for word, kind in _KINDS if word in report), "changed")
            before = None if kind == "added" else level.t1
            after = None if kind == "removed" else level.t2
            if place.holds_text:
                before = None if before is None else json.loads(before)
                after = None if after is None else json.loads(after)
            if place.is_item and type(before) is type(after) and isinstance(before, (dict, list)):
                yield from self._changes(*_reduced(before, after), prefix=place.path)
            else:
                yield FieldChange(place.path, before, after, kind)


def _reduced(old: Any, new: Any) -> tuple[Any, Any]:
    """Cuts what is equal from two plain values that differ, and names the items of lists."""
    if isinstance(old, dict) and isinstance(new, dict):
        return _reduced_mappings(old, new)
    if isinstance(old, list) and isinstance(new, list):
        for key in _NAMES:
            olds, news = _by_name(old, key), _by_name(new, key)
            if olds is not None and news is not None:
                return _reduced_names(key, olds, news)
        # As text, so that DeepDiff aligns the items by value; it pairs mappings by position.
        return [canonical(item) for item in old], [canonical(item) for item in new]
    return old, new


def _reduced_mappings(
    old: dict[str, Any], new: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    olds: dict[str, Any] = {}
    news: dict[str, Any] = {}
    for key, value in old.items():
        if key not in new:
            olds[key] = value
        elif not same(value, new[key]):
            olds[key], news[key] = _reduced(value, new[key])
    news.update((key, value) for key, value in new.items() if key not in old)
    return olds, news


def _reduced_names(
    key: str, old: dict[str, Any], new: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    olds, news = _reduced_mappings(old, new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        # As text: one change of the order, not one at every place.
        olds[_ORDER], news[_ORDER] = canonical(list(old)), canonical(list(new))
    return {_BY: key, **olds}, {_BY: key, **news}


def _by_name(items: list[Any], key: str) -> dict[str, Any] | None:
    """Indexes items by name, None where one has no name or shares it."""
    named = {
        item[key]: item for item in items if isinstance(item, dict) and type(item.get(key)) is str
    }
    return named if len(named) == len(items) and _ORDER not in named else None


@dataclass(frozen=True)
class _Place:
    """Where a change stands.

    Attributes:
        path: For people.
        order: Sorts changes as the fields stand in the objects.
        is_item: Whether it is an item of a list.
        holds_text: Whether its values are JSON text.
    """

    path: str
    order: tuple[int, ...] = ()
    is_item: bool = False
    holds_text: bool = False


class _Finder:
    """Finds the places of changes in what was compared."""

    def __init__(self) -> None:
        self._orders: dict[tuple[int, int], dict[str, int]] = {}

    def place(self, old: Any, new: Any, steps: list[Any], prefix: str) -> _Place:
        """Follows DeepDiff's steps from the root of both sides."""
        place = _Place(prefix)
        for step in steps:
            place = self._below(place, old, new, step)
            old = old.get(step) if isinstance(old, dict) else None
            new = new.get(step) if isinstance(new, dict) else None
        return place

    def _below(self, place: _Place, old: Any, new: Any, step: Any) -> _Place:
        path = place.path
        if isinstance(old, list) or isinstance(new, list):
            return _Place(f"{path}[{step}]", (*place.order, step), is_item=True, holds_text=True)
        order = (*place.order, self._order(old or {}, new or {})[step])
        named = (old or new).get(_BY)
        if step == _ORDER:
            return _Place(f"{path}[*].{named}", order, holds_text=True)
        if named is not None or not _SIMPLE_KEY.fullmatch(step):
            return _Place(f"{path}[{step}]", order)
        return _Place(f"{path}.{step}" if path else step, order)

    def _order(self, old: dict[str, Any], new: dict[str, Any]) -> dict[str, int]:
        """Numbers the keys of both sides: as they stand before, then what is new."""
        both = (id(old), id(new))
        if both not in self._orders:
            self._orders[both] = {key: place for place, key in enumerate({**old, **new})}
        return self._orders[both]
