"""Follows every value of a document into what is made of it: no field is dropped in silence."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.findings import join
from fusioninfer_pulumi.loading.documents import Reading, read_all

Manifest = dict[str, Any]
Path = tuple[str | int, ...]


def leaves(value: Any, at: Path = ()) -> Iterator[Path]:
    """Paths of all values that hold no other; not of nulls, which say nothing."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*at, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*at, index))
    elif value is not None:
        yield at


def silent(
    documents: Sequence[Manifest],
    others: Mapping[str, Sequence[Any]],
    beside: Sequence[Manifest] = (),
) -> list[str]:
    """Leaves that may be changed without anybody noticing.

    Args:
        documents: The documents of one input.
        others: By key, the values that its fields may have, where not every value is valid.
        beside: More documents of the input, whose leaves are not looked at.

    Returns:
        Those of which a change neither changes a service nor is named by a finding.
    """
    read = _read([*documents, *beside])
    found = []
    for number, document in enumerate(documents):
        for path in leaves(document):
            if path[0] in ("apiVersion", "kind") or _named(read, number, path):
                continue
            changed = copy.deepcopy([*documents, *beside])
            _change(changed[number], path, others)
            again = _read(changed)
            if not _named(again, number, path) and _made(again) == _made(read):
                found.append(f"{number}: {join(*path)}")
    return found


def _read(documents: Sequence[Manifest]) -> list[Reading]:
    given = [(str(number), document) for number, document in enumerate(documents)]
    return read_all(copy.deepcopy(given), allow_lossy=True)


def _made(read: Sequence[Reading]) -> list[Any]:
    return [each.manifest for each in read if each.manifest is not None]


def _named(read: Sequence[Reading], number: int, path: Path) -> bool:
    """Whether a finding is about this leaf, about what it is a part of, or about a part of it."""
    relative = path[1:] if path[0] == "spec" else path
    # "" is the document as a whole, and so is `spec`.
    parts = range(1, len(relative) + 1)
    above = {"", str(path[0]), *(join(*relative[:end]) for end in parts)}
    below = (f"{join(*relative)}.", f"{join(*relative)}[")
    return any(
        label == str(number) and (finding.path in above or finding.path.startswith(below))
        for each in read
        for label, finding in each.remarks
    )


def _change(document: Manifest, path: Path, others: Mapping[str, Sequence[Any]]) -> None:
    holder: Any = document
    for part in path[:-1]:
        holder = holder[part]
    value, last = holder[path[-1]], path[-1]
    holder[last] = next(
        (each for each in others.get(str(last), ()) if each != value), _another(value)
    )


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return {"x": "y"} if isinstance(value, dict) else ["x"]
