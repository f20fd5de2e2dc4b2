"""Lists of objects, as `kubectl get -o yaml` prints them: each item is a document of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, join, shown
from fusioninfer_pulumi.spec.document import Document

_API_VERSION, _KIND = "v1", "List"
_KEYS = ("apiVersion", "kind", "metadata", "items")
#: ListMeta: what the API server says of a list.
_METADATA = ("continue", "remainingItemCount", "resourceVersion", "selfLink")


def labelled(name: str, number: int, raw: Any) -> tuple[list[tuple[str, Any]], Document | None]:
    """Names a document of a text in messages, or the items of a list, which stand for it.

    Args:
        name: Name of the text.
        number: Which of its documents it is, from 1.
        raw: The document.

    Returns:
        Each document with its label: `FILE`, `FILE#2`; of lists `FILE#items[1]`,
        `FILE#2.items[1]`. And what is wrong with a list itself, None when nothing is.
    """
    label = name if number == 1 else f"{name}#{number}"
    if not isinstance(raw, Mapping) or raw.get("kind") != _KIND:
        return [(label, raw)], None
    held = raw.get("items")
    start = f"{name}#" if number == 1 else f"{label}."
    items = [
        (f"{start}items[{index}]", item)
        for index, item in enumerate(held if isinstance(held, list) else ())
    ]
    found = tuple(_problems(raw))
    return items, Document(label, None, found) if found else None


def _problems(raw: Mapping[str, Any]) -> Iterator[Finding]:
    if raw.get("apiVersion") != _API_VERSION:
        yield error("apiVersion", f"must be v1 for kind List, got {shown(raw.get('apiVersion'))}")
    for key in raw:
        if key not in _KEYS:
            yield error(join(str(key)), f"unknown key of a List; allowed: {', '.join(_KEYS)}")
    metadata = raw.get("metadata")
    if metadata is not None and not isinstance(metadata, Mapping):
        yield error("metadata", f"must be a mapping, got {shown(metadata)}")
    for key in metadata if isinstance(metadata, Mapping) else ():
        if key not in _METADATA:
            yield error(join("metadata", str(key)), "belongs to the items of a List, not to it")
    held = raw.get("items")
    if not isinstance(held, list):
        yield error("items", f"must be a list, got {shown(held)}")
    elif not held:
        yield error("items", "is empty: no manifest in it")
