"""Values as schemas want them, where Kubernetes reads two spellings as the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.schemas.kind import KindSchema, Part, Schema, part_schema

#: Levels of mappings and lists; what is deeper is refused elsewhere.
DEEPEST = 100


def normal(value: Any, part: Part) -> Any:
    """Returns a copy without fields that are null, and with fractional quantities as strings.

    A pod may ask for `cpu: 0.5`. A LeaderWorkerSet takes integers and strings only, and refuses a
    null, which a pod reads as a field that is not set.
    """
    schema = part_schema(part)
    return _normal(schema, schema.at(part.path), value)


def _normal(kind: KindSchema, schema: Schema, value: Any, depth: int = 0) -> Any:
    if depth == DEEPEST:
        return value
    if isinstance(value, Mapping):
        fields = schema.get("properties")
        return {
            key: _normal(kind, kind.below(schema, str(key)), item, depth + 1)
            for key, item in value.items()
            if item is not None or not fields or key not in fields
        }
    if isinstance(value, (list, tuple)):
        items = kind.below(schema, 0)
        return [_normal(kind, items, item, depth + 1) for item in value]
    if isinstance(value, float) and schema.get("type") == ["integer", "string"]:
        return _quantity(value)
    return value


def _quantity(value: float) -> Any:
    if not math.isfinite(value):
        return value  # reported as no JSON
    return int(value) if value.is_integer() else str(value)
