"""Validates an object, or a part of one, against the schema of its kind.

A `pulumi.Output` matches every schema. Values that are not JSON or nested too deep also match;
other checks report them. List items with equal keys (`x-keys`) are errors, because the API server
uses the keys to merge lists.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any

from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    format_path,
    quote_value,
)
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    UNKNOWN_KEY,
    UNKNOWN_VALUE,
    WRONG_TYPE,
)
from fusioninfer_pulumi.schemas.kind_schema import (
    KindSchema,
    Part,
    Schema,
    kind_schema,
    part_schema,
    pod_template_rules,
)

SOURCES_NOT_ONE = Rule("sources-not-one")

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
#: Descriptions of values that match a pattern, for messages.
_FORMATS = {
    "^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$": "the name of an HTTP header",
    "^([0-9]{1,5}(h|m|s|ms)){1,4}$": "a duration such as 0s, 90s or 1h30m",
    "^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$":
        "a host name such as api.example.com or *.example.com, without scheme and port",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "a DNS label (a-z 0-9 -, at most 63)",
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$":
        "a name (a-z 0-9 - .)",
}  # fmt: skip
_QUANTITY = "a Kubernetes quantity such as 8, 500m or 16Gi"
#: Start of the pattern of quantities; no other pattern in the schemas starts with it.
_QUANTITY_PATTERN = "^(\\+|-)?"
_LIMITS = {
    "minimum": "be at least {}",
    "maximum": "be at most {}",
    "minLength": "have at least {} characters",
    "minItems": "have at least {} items",
    "minProperties": "have at least {} items",
    "maxLength": "have at most {} characters",
    "maxItems": "have at most {} items",
    "maxProperties": "have at most {} items",
}
#: Messages list the allowed keys if there are at most this many.
_MAX_LISTED_KEYS = 8
#: Maximum nesting of mappings and lists.
MAX_DEPTH = 100


def normalize_part(value: Any, part: Part) -> Any:
    """Return a copy without null fields, and with integers or strings for float quantities.

    In pods, null means that a field is not set, and `cpu: 0.5` is valid. LeaderWorkerSets reject
    both.
    """
    schema = part_schema(part)
    return _normalize(schema, schema.find(part.path), value)


def _normalize(schema: KindSchema, node: Schema, value: Any, depth: int = 0) -> Any:
    """Normalize a value with the schema `node`, which is a part of `schema`."""
    if depth == MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        fields = node.get("properties")
        # A null label is an error, so null is removed only from fields.
        return {
            key: _normalize(schema, schema.get_child(node, str(key)), item, depth + 1)
            for key, item in value.items()
            if item is not None or not fields or key not in fields
        }
    if isinstance(value, (list, tuple)):
        items = schema.get_child(node, 0)
        return [_normalize(schema, items, item, depth + 1) for item in value]
    has_quantity_type = node.get("type") == ["integer", "string"]
    # Another check reports infinity, which is not JSON.
    if isinstance(value, float) and has_quantity_type and math.isfinite(value):
        return int(value) if value.is_integer() else str(value)
    return value


def object_findings(manifest: Mapping[str, Any]) -> list[Finding]:
    """Check an object against the schema of its kind; return no findings if there is no schema.

    Locations are relative to the object.
    """
    schema = kind_schema(manifest["apiVersion"], manifest["kind"])
    return [] if schema is None else _check_value(schema, (), manifest)


def pod_field_findings(template: Mapping[str, Any]) -> list[Finding]:
    """Return findings about fields of a pod template whose values the API server rejects."""
    return _check_value(pod_template_rules(), (), _drop_unset(template))


def _drop_unset(value: Any) -> Any:
    """Return a copy without nulls and empty strings, which API validation treats as not set."""
    if isinstance(value, Mapping):
        return {key: _drop_unset(item) for key, item in value.items() if item not in (None, "")}
    if isinstance(value, (list, tuple)):
        return [_drop_unset(item) for item in value]
    return value


def part_findings(location: Location, value: Any, part: Part) -> list[Finding]:
    """Normalize a part of an object, and check it against the part's schema."""
    findings = _check_value(part_schema(part), part.path, normalize_part(value, part))
    return [
        finding.with_location(*location, *finding.location[len(part.path) :])
        for finding in findings
    ]


def _check_value(schema: KindSchema, path: Location, value: Any) -> list[Finding]:
    """Check a value that is at `path` in an object."""
    placeholders: set[str] = set()
    known_value = _replace_unknown(value, placeholders)
    # The validator checks whole objects. This one contains only the part at `path`, so errors
    # about other parts are dropped.
    whole_object = known_value
    for key in reversed(path):
        whole_object = [whole_object] if isinstance(key, int) else {key: whole_object}
    findings: list[Finding] = []
    for problem in schema.validator.iter_errors(whole_object):
        location = _convert_path(whole_object, problem.instance_path)
        is_placeholder = isinstance(problem.instance, str) and problem.instance in placeholders
        if location[: len(path)] == path and not is_placeholder:
            user_value = reduce(getitem, location[len(path) :], value)
            findings += _convert_error(schema, problem, location, user_value)
    for location, node, part_value in schema.walk(schema.find(path), known_value, path):
        if "x-keys" in node and isinstance(part_value, list):
            findings += _check_merge_keys(schema, location, node, part_value, placeholders)
        elif isinstance(part_value, Mapping):
            findings += _check_quantities(schema, location, node, part_value)
    return findings


def _check_quantities(
    schema: KindSchema, location: Location, node: Schema, mapping: Mapping[str, Any]
) -> Iterator[Finding]:
    """Reject quantities that match the schema's pattern but are too long or too large."""
    for key, value in mapping.items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            pattern = schema.get_child(node, key).get("pattern", "")
            if pattern.startswith(_QUANTITY_PATTERN) and quantity.is_oversized(value):
                yield error(
                    INVALID_FORMAT,
                    (*location, key),
                    f"must be {_QUANTITY}, got {quote_value(value)}",
                )


def _replace_unknown(value: Any, placeholders: set[str], depth: int = 0) -> Any:
    """Replace Outputs and values that are not JSON; add each placeholder to `placeholders`."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return {
            key: _replace_unknown(item, placeholders, depth + 1)
            for key, item in value.items()
            if isinstance(key, str)
        }
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        return [_replace_unknown(item, placeholders, depth + 1) for item in value]
    if is_json_scalar(value):
        return value
    placeholder = f"\0{len(placeholders)}"
    placeholders.add(placeholder)
    return placeholder


def is_json_scalar(value: Any) -> bool:
    """Return whether a value is a string, finite number, boolean or null that JSON can contain."""
    if isinstance(value, str):
        # JSON has no lone surrogates. Most strings are ASCII, which is faster to test.
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int))


def _convert_path(value: Any, path: Sequence[str | int]) -> Location:
    """Convert a path of jsonschema-rs, in which a mapping's key "1" is a number, to a location."""
    location: list[str | int] = []
    for part in path:
        key = str(part) if isinstance(value, Mapping) else part
        location.append(key)
        value = value[key]
    return tuple(location)


def _convert_error(
    schema: KindSchema, problem: Any, location: Location, value: Any
) -> Iterator[Finding]:
    """Convert an error of jsonschema-rs at a location; `value` is the user's value there."""
    name = problem.kind.name
    # The value of the schema's keyword; for `additionalProperties`, the unknown keys.
    expected = problem.kind.value
    if name == "additionalProperties":
        for key in expected:
            if "patternProperties" in schema.find(location):
                message = f"{quote_value(key)} is not a valid Kubernetes label or annotation key"
                yield error(INVALID_FORMAT, (*location, key), message)
            else:
                yield _explain_unknown_key((*location, key), schema.find(location))
    elif name == "required":
        missing = schema.get_child(schema.find(location), expected)
        hint = f": {_describe_type(schema, missing)}" if missing.get("type") else ""
        yield error(FIELD_REQUIRED, (*location, expected), f"is required{hint}")
    elif name == "type":
        # YAML parses unquoted numbers and words such as `true` as other types.
        is_unquoted = isinstance(value, (bool, int, float)) and expected == ["string"]
        hint = "; quote it in YAML" if is_unquoted else ""
        description = _describe_type(schema, schema.find(location))
        yield error(WRONG_TYPE, location, f"must be {description}, got {quote_value(value)}{hint}")
    elif name == "enum":
        allowed = ", ".join(str(word) for word in expected)
        yield error(UNKNOWN_VALUE, location, f"must be one of {allowed}, got {quote_value(value)}")
    elif name == "pattern":
        description = _describe_type(schema, schema.find(location))
        hint = f" that matches {expected}" if description == "a string" else ""
        yield error(
            INVALID_FORMAT, location, f"must be {description}{hint}, got {quote_value(value)}"
        )
    elif name == "oneOf":
        yield _explain_one_of(location, schema.find(location), value)
    elif name in ("anyOf", "not"):
        rule = FIELD_REQUIRED if name == "anyOf" else SOURCES_NOT_ONE
        yield error(rule, location, schema.find(location)[f"x-{name}"])
    else:
        yield _explain_limit(location, name, expected, value)


def _explain_one_of(location: Location, node: Schema, value: Mapping[str, Any]) -> Finding:
    """Return the error about a mapping that must have exactly one of several fields."""
    keys = [key for choice in node["oneOf"] for key in choice.get("required", ())]
    present, noun = [key for key in keys if key in value], node["x-oneOf"]
    if present:
        message = f"must have one {noun}, got {' and '.join(present)}; remove one of them"
    else:
        message = f"must have one {noun}: {', '.join(keys)}"
    return error(SOURCES_NOT_ONE, location, message)


def _describe_type(schema: KindSchema, node: Schema) -> str:
    types, pattern = node.get("type"), node.get("pattern", "")
    if "x-format" in node:
        return str(node["x-format"])
    if pattern.startswith(_QUANTITY_PATTERN):
        return _QUANTITY
    if pattern in _FORMATS:
        return _FORMATS[pattern]
    if types == "array" and schema.get_child(node, 0).get("type") == "string":
        return "a list of strings"
    if isinstance(types, list):
        return " or ".join(_TYPES[name] for name in types)
    return _TYPES.get(types or "", "a value")


def _explain_unknown_key(location: Location, parent: Schema) -> Finding:
    known_keys = sorted(parent.get("properties", ()))
    closest = closest_name(str(location[-1]), known_keys)
    if closest is not None:
        return error(UNKNOWN_KEY, location, f"unknown key, did you mean {closest}?")
    if len(known_keys) <= _MAX_LISTED_KEYS:
        return error(UNKNOWN_KEY, location, f"unknown key; allowed: {', '.join(known_keys)}")
    return error(UNKNOWN_KEY, location, "unknown key; Kubernetes has no such field")


def _explain_limit(location: Location, name: str, limit: Any, value: Any) -> Finding:
    """Return the error for the schema keyword `name`: `uniqueItems` or a key of `_LIMITS`."""
    if name == "uniqueItems":
        return error(DUPLICATE_NAME, location, f"must not repeat values, got {quote_value(value)}")
    if name in ("minLength", "minItems", "minProperties") and limit == 1:
        return error(FIELD_REQUIRED, location, "must not be empty")
    actual = quote_value(value) if name in ("minimum", "maximum") else len(value)
    return error(OUT_OF_RANGE, location, f"must {_LIMITS[name].format(limit)}, got {actual}")


def _check_merge_keys(
    schema: KindSchema, location: Location, node: Schema, items: list[Any], placeholders: set[str]
) -> Iterator[Finding]:
    """Yield an error for each item whose merge keys (`x-keys`) have the values of an earlier item.

    Containers have one key (`name`), container ports two (`containerPort` and `protocol`).
    """
    item_schema = schema.get_child(node, 0)
    first_indexes: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            continue
        values = {
            key: item.get(key, schema.get_child(item_schema, key).get("default"))
            for key in node["x-keys"]
        }
        if any(isinstance(value, str) and value in placeholders for value in values.values()):
            continue
        first_index = first_indexes.setdefault(repr(values), index)
        if first_index == index:
            continue
        earlier = format_path((location[-1], first_index))
        shown = " and ".join(f"{key} {quote_value(value)}" for key, value in values.items())
        message = f"has the same {shown} as {earlier}; remove one of them"
        yield error(DUPLICATE_NAME, (*location, index), message)
