"""Equality of manifests, their JSON form, and safe reading of manifests from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_ABSENT = object()
# The exact type first: asking for the abstract one costs more than the comparison.
_MAPPING = (dict, Mapping)


def same(old: Any, new: Any) -> bool:
    """Tells whether two values are the same to Kubernetes.

    The order of keys is irrelevant, the order of lists is not. Python takes True and 1 for equal,
    JSON does not; 1 and 1.0 are one number in both.
    """
    if old is new:
        return True
    if isinstance(old, str):
        return bool(old == new)
    if isinstance(old, _MAPPING):
        if not isinstance(new, _MAPPING) or len(old) != len(new):
            return False
        for key, value in old.items():
            other = new.get(key, _ABSENT)
            if value is not other and not same(value, other):
                return False
        return True
    if isinstance(old, (list, tuple)):
        if not isinstance(new, (list, tuple)) or len(old) != len(new):
            return False
        return all(map(same, old, new))
    return isinstance(old, bool) is isinstance(new, bool) and bool(old == new)


def plain(value: Any) -> Any:
    """Copies a value as JSON knows it: text keys, lists, and text for what JSON cannot hold."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, _MAPPING):
        return {
            key if type(key) is str else _key(key): item if type(item) is str else plain(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    return str(value)


def canonical(value: Any) -> str:
    """Writes a plain value so that equal values have equal texts."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def at(value: Any, *keys: str) -> Any:
    """Reads a nested value, None where the way there does not exist."""
    for key in keys:
        if not isinstance(value, _MAPPING):
            return None
        value = value.get(key)
    return value


def text_at(value: Any, *keys: str) -> str:
    """Reads a nested text, empty where there is none."""
    found = at(value, *keys)
    return "" if found is None else str(found)


def count_at(value: Any, *keys: str) -> int:
    """Reads a nested count, 1 (Kubernetes' default everywhere we count) where there is none."""
    found = at(value, *keys)
    is_count = isinstance(found, int) and not isinstance(found, bool) and found >= 0
    return found if is_count else 1


def _key(key: Any) -> str:
    return json.dumps(key) if key is None or isinstance(key, (bool, int)) else str(key)
