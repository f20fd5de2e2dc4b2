"""Validates an object, or a part of one, against the schema of its kind.

A `pulumi.Output` matches every schema, and so do values that are not JSON or nested too deep, which
have other findings. Keys of items (`x-keys`) must be unique, because the API server merges by them.
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
    show,
    warning,
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
FIELD_OF_EXPERIMENTAL_CHANNEL = Rule("field-of-experimental-channel")

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "object": "a mapping",
    "string": "a string",
}
#: What the patterns of schemas describe.
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
#: Quantities are the only strings of schemas whose pattern begins with a sign.
_QUANTITY_PATTERN = "^(\\+|-)?"
#: Most keys that a message lists.
_LISTED = 8
#: Most levels of mappings and lists; deeper input is a finding.
MAX_DEPTH = 100


def normalize_part(value: Any, part: Part) -> Any:
    """Return a copy without fields that are null, and with fractional quantities as strings.

    A pod may ask for `cpu: 0.5`. A LeaderWorkerSet takes integers and strings only, and rejects a
    null, which in a pod is a field that is not set.
    """
    schema = part_schema(part)
    return _normal(schema, schema.at(part.path), value)


def _normal(kind: KindSchema, schema: Schema, value: Any, depth: int = 0) -> Any:
    if depth == MAX_DEPTH:
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


def object_findings(manifest: Mapping[str, Any]) -> list[Finding]:
    """Return findings about an object that violates the schema of its kind; none without a schema.

    Locations are relative to the object.
    """
    schema = kind_schema(manifest["apiVersion"], manifest["kind"])
    return [] if schema is None else _findings(schema, (), manifest)


def pod_template_findings(template: Mapping[str, Any]) -> list[Finding]:
    """Return findings about single fields of a pod template that API validation rejects."""
    return _findings(pod_template_rules(), (), _set_fields(template))


def _set_fields(value: Any) -> Any:
    """A copy without fields that are null or empty, which are not set to API validation."""
    if isinstance(value, Mapping):
        return {key: _set_fields(item) for key, item in value.items() if item not in (None, "")}
    return [_set_fields(item) for item in value] if isinstance(value, (list, tuple)) else value


def part_findings(at: Location, value: Any, part: Part) -> list[Finding]:
    """Return findings about a part of an object that violates its schema, after normalization."""
    problems = _findings(part_schema(part), part.path, normalize_part(value, part))
    return [problem.at(*at, *problem.location[len(part.path) :]) for problem in problems]


def _findings(schema: KindSchema, path: Location, value: Any) -> list[Finding]:
    unknown: set[str] = set()
    checked = _replace_unknown(value, unknown)
    whole = checked
    for key in reversed(path):
        whole = [whole] if isinstance(key, int) else {key: whole}
    problems = [
        finding
        for problem in schema.validator.iter_errors(whole)
        if (at := _location(whole, problem.instance_path))[: len(path)] == path
        and not (isinstance(problem.instance, str) and problem.instance in unknown)
        for finding in _convert_error(schema, problem, at, reduce(getitem, at[len(path) :], value))
    ]
    part = schema.at(path)
    for at, node, part_value in schema.nodes(part, checked, path):
        if "x-keys" in node and isinstance(part_value, list):
            problems += _same_keys(schema, at, node, part_value, unknown)
        elif isinstance(part_value, Mapping):
            problems += _experimental(at, node, part_value)
            problems += _oversized_quantities(schema, at, node, part_value)
    return problems


def _oversized_quantities(
    schema: KindSchema, at: Location, part: Schema, mapping: Mapping[str, Any]
) -> Iterator[Finding]:
    """Reject quantities that have the form of one and no meaning, such as a hundred digits."""
    for key, value in mapping.items():
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            pattern = schema.below(part, key).get("pattern", "")
            if pattern.startswith(_QUANTITY_PATTERN) and quantity.is_absurd(value):
                yield error(INVALID_FORMAT, (*at, key), f"must be {_QUANTITY}, got {show(value)}")


def _replace_unknown(value: Any, unknown: set[str], depth: int = 0) -> Any:
    """Return a copy with a text in place of values that are unknown, not JSON, or too deep."""
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        items = ((key, item) for key, item in value.items() if isinstance(key, str))
        return {key: _replace_unknown(item, unknown, depth + 1) for key, item in items}
    if isinstance(value, (list, tuple)) and depth < MAX_DEPTH:
        return [_replace_unknown(item, unknown, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str) and value.isascii():
        return value
    if isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    unknown.add(f"\0{len(unknown)}")
    return f"\0{len(unknown) - 1}"


def _location(value: Any, path: Sequence[str | int]) -> Location:
    """A path of the library's, which writes keys such as "1" as numbers."""
    at: list[str | int] = []
    for part in path:
        key = str(part) if isinstance(value, Mapping) else part
        at.append(key)
        value = value[key]
    return tuple(at)


def _convert_error(schema: KindSchema, problem: Any, at: Location, value: Any) -> Iterator[Finding]:
    """The findings of one error of the library's, about a value as the user wrote it."""
    name, expected = problem.kind.name, problem.kind.value
    if name == "additionalProperties":
        for key in expected:
            if "patternProperties" in schema.at(at):
                message = f"{show(key)} is not a valid Kubernetes label or annotation key"
                yield error(INVALID_FORMAT, (*at, key), message)
            else:
                yield _unknown_key((*at, key), schema.at(at))
    elif name == "required":
        wanted = schema.below(schema.at(at), expected)
        kind = f": {_describe_type(schema, wanted)}" if wanted.get("type") else ""
        yield error(FIELD_REQUIRED, (*at, expected), f"is required{kind}")
    elif name == "type":
        # YAML reads unquoted numbers and words such as `true` as other types than strings.
        scalar = isinstance(value, (bool, int, float)) and expected == ["string"]
        hint = "; quote it in YAML" if scalar else ""
        kind = _describe_type(schema, schema.at(at))
        yield error(WRONG_TYPE, at, f"must be {kind}, got {show(value)}{hint}")
    elif name == "enum":
        allowed = ", ".join(str(word) for word in expected)
        yield error(UNKNOWN_VALUE, at, f"must be one of {allowed}, got {show(value)}")
    elif name == "pattern":
        kind = _describe_type(schema, schema.at(at))
        hint = f" that matches {expected}" if kind == "a string" else ""
        yield error(INVALID_FORMAT, at, f"must be {kind}{hint}, got {show(value)}")
    elif name == "oneOf":
        yield _sources_finding(at, schema.at(at), value)
    elif name in ("anyOf", "not"):
        rule = FIELD_REQUIRED if name == "anyOf" else SOURCES_NOT_ONE
        yield error(rule, at, schema.at(at)[f"x-{name}"])
    else:
        yield _out_of_range(at, name, expected, value)


def _sources_finding(at: Location, part: Schema, value: Mapping[str, Any]) -> Finding:
    """The finding of a mapping that has none or several of the fields of which it takes one."""
    keys = [key for choice in part["oneOf"] for key in choice.get("required", ())]
    present, what = [key for key in keys if key in value], part["x-oneOf"]
    if present:
        message = f"takes one {what}, got {' and '.join(present)}; remove one of them"
    else:
        message = f"needs one {what}: {', '.join(keys)}"
    return error(SOURCES_NOT_ONE, at, message)


def _describe_type(schema: KindSchema, part: Schema) -> str:
    """What a value has to be, in words."""
    kinds, pattern = part.get("type"), part.get("pattern", "")
    if "x-format" in part:
        return str(part["x-format"])
    if pattern.startswith(_QUANTITY_PATTERN):
        return _QUANTITY
    if pattern in _FORMATS:
        return _FORMATS[pattern]
    if kinds == "array" and schema.below(part, 0).get("type") == "string":
        return "a list of strings"
    if isinstance(kinds, list):
        return " or ".join(_TYPES[kind_name] for kind_name in kinds)
    return _TYPES.get(kinds or "", "a value")


def _unknown_key(at: Location, parent: Schema) -> Finding:
    key, known = str(at[-1]), sorted(parent.get("properties", ()))
    meant = closest_name(key, known)
    if meant is not None:
        return error(UNKNOWN_KEY, at, f"unknown key, did you mean {meant}?")
    listed = (
        f"allowed: {', '.join(known)}" if len(known) <= _LISTED else "Kubernetes has no such field"
    )
    return error(UNKNOWN_KEY, at, f"unknown key; {listed}")


def _out_of_range(at: Location, name: str, limit: Any, value: Any) -> Finding:
    """The finding of a number, a text, a list or a mapping that is too small or too large."""
    if name in ("minimum", "maximum"):
        word = "least" if name == "minimum" else "most"
        return error(OUT_OF_RANGE, at, f"must be at {word} {limit}, got {show(value)}")
    if name in ("minLength", "minItems", "minProperties"):
        if limit == 1:
            return error(FIELD_REQUIRED, at, "must not be empty")
        return error(OUT_OF_RANGE, at, f"must have at least {limit}, got {len(value)}")
    if name in ("maxLength", "maxItems", "maxProperties"):
        counted = "characters" if name == "maxLength" else "items"
        return error(OUT_OF_RANGE, at, f"must have at most {limit} {counted}, got {len(value)}")
    return error(DUPLICATE_NAME, at, f"takes each value once, got {show(value)}")


def _same_keys(
    schema: KindSchema, at: Location, part: Schema, items: list[Any], unknown: set[str]
) -> Iterator[Finding]:
    """Yield an error for each item whose keys are those of an earlier one."""
    fields = schema.below(part, 0)
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            continue
        keys = {
            key: item.get(key, schema.below(fields, key).get("default")) for key in part["x-keys"]
        }
        if any(isinstance(key, str) and key in unknown for key in keys.values()):
            continue
        before = first.setdefault(repr(keys), index)
        if before != index:
            values = " and ".join(
                show(value) if len(keys) == 1 else f"{key} {show(value)}"
                for key, value in keys.items()
            )
            where = (*at, index, *keys) if len(keys) == 1 else (*at, index)
            other = format_path((at[-1], before))
            verb = "is" if len(keys) == 1 else "are"
            message = f"{values} {verb} in {other}, too; remove one of them"
            yield error(DUPLICATE_NAME, where, message)


def _experimental(at: Location, schema: Schema, value: Mapping[str, Any]) -> Iterator[Finding]:
    """Warn of fields that only the experimental channel of the Gateway API has."""
    fields = schema.get("properties", {})
    for key in value:
        if "x-experimental" in fields.get(key, ()):
            yield warning(
                FIELD_OF_EXPERIMENTAL_CHANNEL,
                (*at, key),
                "needs the experimental channel of the Gateway API; the standard one rejects it",
            )
