"""Pydantic's errors as findings: which rule, which field, which value, and what is allowed.

Validators of models raise `rule_error`: its type is the rule's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, StringConstraints, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from fusioninfer_pulumi.findings import (
    OUTPUT_HINT,
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    format_path,
    shown,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.rules.common import (
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    OUTPUT_NOT_ALLOWED,
    UNKNOWN_KEY,
    UNKNOWN_VALUE,
    WRONG_TYPE,
)

_TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "int_from_float": "an integer",
    "string_type": "a string",
    "string_unicode": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_DESCRIPTIONS: dict[str, str] = {}


def string_format(pattern: str, description: str, **limits: Any) -> StringConstraints:
    """A constraint on strings; `description` says in errors what the string must be."""
    _DESCRIPTIONS[pattern] = description
    return StringConstraints(pattern=pattern, **limits)


def rule_error(rule: Rule, message: str) -> PydanticCustomError:
    """The error of a rule, to be raised inside of a model's validators."""
    return PydanticCustomError(rule.id, "{message}", {"message": message})


def finding_error(finding: Finding) -> PydanticCustomError:
    """Return a finding as an error to be raised inside of validators."""
    return PydanticCustomError(finding.rule, "{message}", {"message": finding.message})


def raise_findings(title: str, findings: Iterable[Finding]) -> None:
    """Raise findings inside of a model's validators, where there are any."""
    details = [
        InitErrorDetails(type=finding_error(finding), loc=finding.location, input=None)
        for finding in findings
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


def type_mismatch(at: Location, value: Any, kind: str, rule: Rule = WRONG_TYPE) -> Finding:
    """Return the finding about a value that must be `kind`, such as `a list`."""
    if value is None:
        return error(FIELD_REQUIRED, at, f"is required: {kind}")
    if is_output(value):
        return error(OUTPUT_NOT_ALLOWED, at, OUTPUT_HINT)
    return error(rule, at, f"must be {kind}, got {shown(value)}")


def pydantic_findings(problem: ValidationError, root: type[BaseModel]) -> list[Finding]:
    """One finding for each error, in the order of the fields; locations are relative to `spec`.

    Unknown keys are compared with the fields of `root`, the model that was validated.
    """
    details = problem.errors(include_url=False)
    return [_finding(finding, root) for finding in details]


def field_of(location: Sequence[str | int]) -> Location:
    """A location of pydantic's, where a key's own error is marked, as that of the field."""
    return tuple(part for part in location if part != "[key]")


def _finding(item: ErrorDetails, root: type[BaseModel]) -> Finding:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    at = field_of(item["loc"])
    at = at[1:] if len(at) > 1 and at[0] == "spec" else at
    if kind == "missing":
        return error(FIELD_REQUIRED, at, "is required")
    if kind == "extra_forbidden":
        return error(UNKNOWN_KEY, at, _unknown_key(item["loc"], root))
    if is_output(value):
        return error(OUTPUT_NOT_ALLOWED, at, OUTPUT_HINT)
    if kind in _TYPES:
        return error(WRONG_TYPE, at, f"must be {_TYPES[kind]}, got {shown(value)}")
    if kind == "finite_number":
        return error(WRONG_TYPE, at, f"must be a finite number, got {shown(value)}")
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound]
        limit = int(limit) if limit == int(limit) else limit
        return error(OUT_OF_RANGE, at, f"must be {words} {limit}, got {shown(value)}")
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        choice = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
        meant = closest_name(value, allowed) if isinstance(value, str) else None
        hint = f"; did you mean {meant}?" if meant is not None and len(allowed) > 1 else ""
        return error(UNKNOWN_VALUE, at, f"must be {choice}, got {shown(value)}{hint}")
    if kind == "string_pattern_mismatch":
        description = _DESCRIPTIONS[context["pattern"]]
        return error(INVALID_FORMAT, at, f"must be {description}, got {shown(value)}")
    if kind == "string_too_long":
        longest = context["max_length"]
        return error(
            OUT_OF_RANGE, at, f"must have at most {longest} characters, got {len(str(value))}"
        )
    if kind == "string_too_short":
        return error(FIELD_REQUIRED, at, "must not be empty")
    if kind in ("too_short", "too_long"):
        return _length_finding(at, context)
    if kind == "invalid_key" or (item["loc"] and item["loc"][-1] == "[key]"):
        return error(WRONG_TYPE, at, f"keys must be strings, got {shown(value)}")
    # The type of an error of ours is the rule's id.
    return error(Rule(kind) if "-" in kind else WRONG_TYPE, at, item["msg"])


def _length_finding(at: Location, context: Mapping[str, Any]) -> Finding:
    """What is wrong with the length of a list."""
    if "min_length" in context:
        message = f"must contain at least {context['min_length']} item, got none"
        return error(FIELD_REQUIRED, at, message)
    message = f"must contain at most {context['max_length']} items, got {context['actual_length']}"
    return error(OUT_OF_RANGE, at, message)


def _unknown_key(location: Sequence[str | int], root: type[BaseModel]) -> str:
    key = str(location[-1])
    for length in range(len(location) - 2, -1, -1):
        outer = location[:length]
        if key in _known_keys(outer, root):
            return f"unknown key here; it is a field of {_describe_location(outer)}"
    if len(location) == 1 and key in _known_keys(("spec",), root):
        return "unknown key here; move it below spec"
    aliases = _known_keys(location[:-1], root)
    snake = "_" in key
    known = sorted({to_snake(alias) for alias in aliases} if snake else aliases)
    meant = closest_name(key, known)
    if meant is not None:
        return f"unknown key, did you mean {meant}?"
    return f"unknown key; allowed: {', '.join(known)}"


def _describe_location(location: Sequence[str | int]) -> str:
    """The mapping at a location, as a finding names it."""
    inside = tuple(location[1:] if location[:1] == ("spec",) else location)
    return format_path(inside) if inside else "the service, next to roles"


def _known_keys(location: Sequence[str | int], root: type[BaseModel]) -> list[str]:
    """The keys of the model at a location; none where there is no model."""
    model = _model_at(location, root)
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(location: Sequence[str | int], root: type[BaseModel]) -> type[BaseModel] | None:
    """Walk from the root model to the one at a location."""
    model = root
    for part in location:
        if isinstance(part, int):
            continue
        fields = {
            key: field
            for name, field in model.model_fields.items()
            for key in (name, field.alias or name)
        }
        if part not in fields:
            return None
        inner = _model_in(fields[part].annotation)
        if inner is None:
            return None
        model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        model = _model_in(argument)
        if model is not None:
            return model
    return None
