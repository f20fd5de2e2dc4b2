"""Lays a user's partial template over a generated one, as `kubectl patch` would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def overlaid(generated: Any, given: Any) -> Any:
    """Merges two pieces of a pod template; neither is changed.

    Args:
        generated: What we write.
        given: What the user wrote, which wins.

    Returns:
        Mappings merged key by key, and lists of named items (containers, volumes, env, mounts) by
        name; every other list, and every other value, is the user's. A null takes a key away.
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
