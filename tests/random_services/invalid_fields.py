"""A manifest with one field that is misspelled, missing or has a wrong value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from random_services.pods import Manifest
from random_services.seeded_random import SeededRandom

_JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1.5,
    "",
    "x y",
    "100%",
    [],
    ["a"],
    [{}],
    {},
    {"a": 1},
)


def with_invalid_field(rng: SeededRandom, manifest: Manifest) -> Manifest:
    """Return a copy with one wrong field below `spec`."""
    copy: Manifest = json.loads(json.dumps(manifest))
    fields = list(_fields(copy["spec"]))
    parent, key = rng.choice(*fields)
    kinds = ("misspelled", "missing", "wrong value")
    kind = rng.option("invalid field", {name: name for name in kinds})
    if kind == "misspelled":
        parent[key + rng.choice("s", "x", "Name")] = parent.pop(key)
    elif kind == "missing":
        del parent[key]
    else:
        parent[key] = rng.choice(*_JUNK)
    return copy


def _fields(value: Any) -> Iterator[tuple[Manifest, str]]:
    """Yield the mapping that contains each field, and the field's key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _fields(inner)
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
