"""Merges a user's partial template over a generated one, as `kubectl patch` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def overlaid(generated: Any, given: Any) -> Any:
    """Returns the generated value with the user's value merged over it; neither is changed.

    Mappings merge by key, lists of named items (containers, volumes, env, mounts) by name. Any
    other value is replaced by the user's. A null removes a key.
    """
    if isinstance(generated, Mapping) and isinstance(given, Mapping):
        merged = {
            key: overlaid(generated[key], given[key]) if key in given else generated[key]
            for key in generated
            if given.get(key, "") is not None
        }
        added = {key: value for key, value in given.items() if key not in generated}
        return {**merged, **added}
    if isinstance(generated, list) and isinstance(given, list) and _named(generated + given):
        by_name = {item["name"]: item for item in given}
        kept = [
            overlaid(item, by_name[item["name"]]) if item["name"] in by_name else item
            for item in generated
        ]
        own = {item["name"] for item in generated}
        return [*kept, *(item for item in given if item["name"] not in own)]
    return given


def _named(items: list[Any]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)
