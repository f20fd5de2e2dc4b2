"""Writes pydantic's errors as findings: field, value, and what is allowed, in plain words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_snake
from pydantic_core import ErrorDetails

from fusioninfer_pulumi.api.string_formats import words_of
from fusioninfer_pulumi.findings import LIFT, Finding, error, join, shown, similar
from fusioninfer_pulumi.kube.outputs import is_output

_TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_from_float": "an integer",
    "string_type": "a string",
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


def findings_of(problem: ValidationError, root: type[BaseModel]) -> list[Finding]:
    """Turns a validation error into one finding per problem.

    Args:
        problem: What pydantic raised.
        root: The model that was validated; unknown keys are compared with its fields.

    Returns:
        The findings, in the order of the fields; paths are relative to `spec`.
    """
    details = problem.errors(include_url=False)
    return [error(path(item["loc"]), _message(item, root)) for item in details]


def path(location: Sequence[str | int]) -> str:
    """Writes a location relative to `spec`."""
    parts = [part for part in location if part != "[key]"]
    if parts and parts[0] == "spec":
        parts = parts[1:] or ["spec"]
    return join(*parts)


def _message(item: ErrorDetails, root: type[BaseModel]) -> str:
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return _unknown_key(item["loc"], root)
    if is_output(value):
        return LIFT
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, got {shown(value)}"
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        limit = context[bound]
        limit = int(limit) if limit == int(limit) else limit
        return f"must be {words} {limit}, got {shown(value)}"
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        choice = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
        return f"must be {choice}, got {shown(value)}"
    if kind == "string_pattern_mismatch":
        return f"must be {words_of(context['pattern'])}, got {shown(value)}"
    if kind == "string_too_long":
        return f"must have at most {context['max_length']} characters, got {len(str(value))}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "too_short":
        return f"must hold at least {context['min_length']} item, got none"
    if kind == "invalid_key" or (item["loc"] and item["loc"][-1] == "[key]"):
        return f"keys must be strings, got {shown(value)}"
    return item["msg"]


def _unknown_key(location: Sequence[str | int], root: type[BaseModel]) -> str:
    key = str(location[-1])
    aliases = _known_keys(location[:-1], root)
    snake = "_" in key
    known = sorted({to_snake(alias) for alias in aliases} if snake else aliases)
    meant = similar(key, known)
    if meant is not None:
        return f"unknown key, did you mean {meant}?"
    return f"unknown key; allowed: {', '.join(known)}"


def _known_keys(location: Sequence[str | int], root: type[BaseModel]) -> list[str]:
    """Walks from the root model to the model at a location and lists its keys."""
    model: Any = root
    for part in location:
        if isinstance(part, int):
            continue
        fields = {
            key: field
            for name, field in model.model_fields.items()
            for key in (name, field.alias or name)
        }
        if part not in fields:
            return []
        inner = _model_in(fields[part].annotation)
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
