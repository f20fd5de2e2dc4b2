"""The fields and enumeration values of the JSON Schema that a manifest uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def schema_features(schema: Schema) -> set[str]:
    """Return each field as `Model.field`, and each enumeration value as `Enumeration: value`."""
    return {
        name
        for model, definition in schema["$defs"].items()
        for name in (
            *(f"{model}.{field}" for field in definition.get("properties", ())),
            *(f"{model}: {value}" for value in definition.get("enum", ())),
        )
    }


def used_features(schema: Schema, manifest: Any) -> set[str]:
    """Return the features of the schema that a manifest uses."""
    return set(_used(schema, schema, manifest, ""))


def _used(schema: Schema, node: Schema, value: Any, model: str) -> Iterator[str]:
    for choice in node.get("anyOf", ()):
        yield from _used(schema, choice, value, "")
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        yield from _used(schema, schema["$defs"][name], value, name)
    if model and isinstance(value, str) and value in node.get("enum", ()):
        yield f"{model}: {value}"
    if isinstance(value, dict):
        for field, inner in node.get("properties", {}).items():
            if field in value:
                yield from (f"{model}.{field}",) if model else ()
                yield from _used(schema, inner, value[field], "")
        values = node.get("additionalProperties")
        if isinstance(values, dict):
            for inner in value.values():
                yield from _used(schema, values, inner, "")
    if isinstance(value, list) and "items" in node:
        for inner in value:
            yield from _used(schema, node["items"], inner, "")
