"""Converts findings to pydantic's errors and back.

Validators raise a `rule_error`: the type of the pydantic error is the rule's id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, get_args, get_origin

from pydantic import BaseModel, StringConstraints, ValidationError
from pydantic.alias_generators import to_snake
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from fusioninfer_pulumi.findings import (
    OUTPUT_HINT,
    Finding,
    Location,
    Rule,
    closest_name,
    error,
    format_path,
    quote_value,
)
from fusioninfer_pulumi.kube.pulumi_outputs import is_output
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_KEY,
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    OUTPUT_NOT_ALLOWED,
    UNKNOWN_KEY,
    UNKNOWN_VALUE,
    WRONG_TYPE,
)

# The keys of these dictionaries are types of pydantic's errors.
_EXPECTED_TYPES = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_from_float": "an integer",
    "string_type": "a string",
    "string_unicode": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
# Words in the message, and key of the limit in the error's context.
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_RULES_AND_MESSAGES = {
    "missing": (FIELD_REQUIRED, "is required"),
    "string_too_short": (FIELD_REQUIRED, "must not be empty"),
    "string_too_long": (OUT_OF_RANGE, "must have at most {max_length} characters, got {length}"),
    "too_short": (FIELD_REQUIRED, "must contain at least {min_length} item, got none"),
    "too_long": (OUT_OF_RANGE, "must contain at most {max_length} items, got {length}"),
}
# Description of each string format, keyed by its pattern.
_DESCRIPTIONS: dict[str, str] = {}


def string_format(pattern: str, description: str, **limits: Any) -> StringConstraints:
    """Return a constraint on strings; messages say that the string must be `description`."""
    _DESCRIPTIONS[pattern] = description
    return StringConstraints(pattern=pattern, **limits)


def rule_error(rule: Rule, message: str) -> PydanticCustomError:
    """Return an error that a validator raises for a rule."""
    return PydanticCustomError(rule.id, "{message}", {"message": message})


def raise_findings(title: str, findings: Iterable[Finding]) -> None:
    """Raise a ValidationError with all findings, if there are any; `title` names the model."""
    details = [
        InitErrorDetails(
            type=rule_error(Rule(finding.rule), finding.message), loc=finding.location, input=None
        )
        for finding in findings
    ]
    if details:
        raise ValidationError.from_exception_data(title, details)


def pydantic_findings(problem: ValidationError, root: type[BaseModel]) -> list[Finding]:
    """Return a finding for each error, in the order of fields; locations lack the leading `spec`.

    `root` is the validated model, whose fields are suggested for unknown keys.
    """
    return [_convert_error(detail, root) for detail in problem.errors(include_url=False)]


def drop_key_marker(location: Sequence[str | int]) -> Location:
    """Return a pydantic location without `[key]`, which marks an error in a mapping's key."""
    return tuple(part for part in location if part != "[key]")


def _convert_error(detail: ErrorDetails, root: type[BaseModel]) -> Finding:
    error_type, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    location = drop_key_marker(detail["loc"])
    if len(location) > 1 and location[0] == "spec":
        location = location[1:]
    if error_type == "extra_forbidden":
        return _explain_unknown_key(location, detail["loc"], root)
    if is_output(value):
        return error(OUTPUT_NOT_ALLOWED, location, OUTPUT_HINT)
    is_about_key = detail["loc"][-1:] == ("[key]",)
    if error_type == "invalid_key" or (error_type == "string_type" and is_about_key):
        return error(WRONG_TYPE, location, f"keys must be strings, got {quote_value(value)}")
    if error_type in _EXPECTED_TYPES:
        return error(
            WRONG_TYPE, location, f"must be {_EXPECTED_TYPES[error_type]}, got {quote_value(value)}"
        )
    if error_type in _BOUNDS:
        words, context_key = _BOUNDS[error_type]
        limit = context[context_key]
        limit = int(limit) if limit == int(limit) else limit
        return error(OUT_OF_RANGE, location, f"must be {words} {limit}, got {quote_value(value)}")
    if error_type in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        choice = allowed[0] if len(allowed) == 1 else f"one of {', '.join(allowed)}"
        closest = closest_name(value, allowed) if isinstance(value, str) else None
        hint = f"; did you mean {closest}?" if closest is not None and len(allowed) > 1 else ""
        return error(UNKNOWN_VALUE, location, f"must be {choice}, got {quote_value(value)}{hint}")
    if error_type == "string_pattern_mismatch":
        description = _DESCRIPTIONS[context["pattern"]]
        return error(INVALID_FORMAT, location, f"must be {description}, got {quote_value(value)}")
    if error_type in _RULES_AND_MESSAGES:
        rule, message = _RULES_AND_MESSAGES[error_type]
        return error(rule, location, message.format(length=len(value), **context))
    # The type of a `rule_error` is the rule's id. Ids contain hyphens, pydantic's types do not.
    is_rule_id = "-" in error_type
    return error(Rule(error_type) if is_rule_id else WRONG_TYPE, location, detail["msg"])


def _explain_unknown_key(location: Location, path: Location, root: type[BaseModel]) -> Finding:
    """Return the finding at `location` for an unknown key, which pydantic reports at `path`."""
    key = str(path[-1])
    fields = _fields_at(path[:-1], root)
    if key in fields:
        # Pydantic rejects a Python name as unknown if the field is also set under its alias.
        message = f"{fields[key].alias} and {key} are the same field; remove one of them"
        return error(DUPLICATE_KEY, location[:-1], message)
    sections = {
        field.alias or name
        for name, field in fields.items()
        if get_origin(field.annotation) is not list and key in _fields_of(field.annotation)
    }
    if len(sections) == 1:
        return error(UNKNOWN_KEY, location, f"unknown key, did you mean {sections.pop()}.{key}?")
    # Look for the key in the models that contain the key's model, the innermost first.
    for length in reversed(range(len(path) - 1)):
        outer_fields = _fields_at(path[:length], root)
        if key in outer_fields:
            owner = format_path(path[1:length] if path[0] == "spec" else path[:length])
            if not owner:
                if "roles" in outer_fields:
                    owner = "the service, next to roles"
                elif length:
                    owner = "spec"
                else:
                    owner = "the document" if "spec" in outer_fields else root.__name__
            return error(UNKNOWN_KEY, location, f"unknown key here; it is a field of {owner}")
    aliases = {field.alias or name for name, field in fields.items()}
    known = sorted(map(to_snake, aliases) if "_" in key else aliases)
    closest = closest_name(key, known)
    hint = f", did you mean {closest}?" if closest else f"; allowed: {', '.join(known)}"
    return error(UNKNOWN_KEY, location, f"unknown key{hint}")


def _fields_at(location: Iterable[str | int], root: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of the model at a location, by Python name and by alias."""
    fields = _fields_of(root)
    for part in location:
        if isinstance(part, str):
            fields = _fields_of(fields[part].annotation) if part in fields else {}
    return fields


def _fields_of(annotation: Any) -> dict[str, FieldInfo]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = {field.alias or name: field for name, field in annotation.model_fields.items()}
        if annotation.model_config.get("populate_by_name", False):
            fields.update(annotation.model_fields)
        return fields
    # For `list[Model]` or `Model | None`, return the fields of the model.
    candidates = (_fields_of(argument) for argument in get_args(annotation))
    return next((fields for fields in candidates if fields), {})
