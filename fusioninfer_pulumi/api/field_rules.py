"""Rules for fields, as rows of tables, and the function that checks a model against them.

Rows name fields by dotted Python paths from the checked model; an empty path is the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from fusioninfer_pulumi.findings import Finding, Location, Rule, Severity, format_path
from fusioninfer_pulumi.rules.common import (
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    FIELDS_EXCLUDE_EACH_OTHER,
)

#: `set`: by the user, not null; `changed`: differs from the default; `default`: equals it, or null.
_State = Literal["set", "changed", "default"]


class FieldRule(NamedTuple):
    """A row of a table: fields that are reported under a condition.

    Attributes:
        fields: Path of a field, or of several.
        message: Message of the findings.
        when: The condition.
        rule: Rule of the findings.
        state: State in which a field is reported.
        severity: Severity of the findings.
    """

    fields: str | Sequence[str]
    message: str
    when: bool = True
    rule: Rule = FIELD_OUT_OF_PLACE
    state: _State = "set"
    severity: Severity = Severity.ERROR


#: Returns a row that rejects fields that are set.
does_not_apply = FieldRule
#: Returns a row that rejects fields that have their defaults.
required = partial(FieldRule, rule=FIELD_REQUIRED, state="default")


def has_no_effect(
    fields: str | Sequence[str],
    reason: str,
    *,
    when: bool = True,
    severity: Severity = Severity.WARNING,
) -> FieldRule:
    """Return a row that reports fields that differ from their defaults, but have no effect."""
    message = f"has no effect: {reason}"
    return FieldRule(fields, message, when, FIELD_WITHOUT_EFFECT, "changed", severity)


def conflict(fields: str | Sequence[str], other: str, *, when: bool = True) -> FieldRule:
    """Return a row that rejects fields that are set, because the field `other` is set, too."""
    message = f"conflicts with {other}; remove one of them"
    return FieldRule(fields, message, when, FIELDS_EXCLUDE_EACH_OTHER)


def check_fields(at: Location, model: BaseModel | None, *rows: FieldRule) -> Iterator[Finding]:
    """Yield a finding at each field that a row reports, in the order of the rows.

    `at` is the location of the model, which is None if it is not set.
    """
    for row in rows:
        for path in [row.fields] if isinstance(row.fields, str) else row.fields:
            location = _locate(model, path, row.state) if row.when else None
            if location is not None:
                yield Finding(row.rule.id, row.severity, (*at, *location), row.message)


def find_set_fields(model: BaseModel, paths: Sequence[str]) -> list[str]:
    """Return the YAML paths of the fields that are set and not null."""
    locations = (_locate(model, path, "set") for path in paths)
    return [format_path(location) for location in locations if location is not None]


def _locate(value: Any, path: str, state: _State) -> Location | None:
    """Return the location of a field in YAML, None if it is not in this state."""
    location, field, is_set = [], None, True
    for name in path.split(".") if path else ():
        field = None if value is None else type(value).model_fields[name]
        is_set = field is not None and name in value.model_fields_set
        location.append((field and field.alias) or to_camel(name))
        value = getattr(value, name, None)
    has_state = is_set and value is not None
    if state != "set":
        default = None if field is None else field.get_default(call_default_factory=True)
        is_default = value in (None, default)
        has_state = is_default if state == "default" else not is_default
    return tuple(location) if has_state else None
