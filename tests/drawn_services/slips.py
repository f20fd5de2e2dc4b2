"""Slips of the pen: a manifest in which one field is misspelt, missing or of a wrong value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from drawn_services.draw import Draw
from drawn_services.pods import Manifest

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


def with_slip(draw: Draw, manifest: Manifest) -> Manifest:
    """Copies a manifest and changes one field below its `spec`."""
    copy: Manifest = json.loads(json.dumps(manifest))
    fields = list(_fields(copy["spec"]))
    holder, key = draw.one(*fields)
    kind = draw.option("slip", {name: name for name in ("misspelt", "missing", "wrong value")})
    if kind == "misspelt":
        holder[key + draw.one("s", "x", "Name")] = holder.pop(key)
    elif kind == "missing":
        del holder[key]
    else:
        holder[key] = draw.one(*_JUNK)
    return copy


def _fields(value: Any) -> Iterator[tuple[Manifest, str]]:
    """Every field with the mapping that holds it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield value, key
            yield from _fields(inner)
    if isinstance(value, list):
        for inner in value:
            yield from _fields(inner)
