"""Rules about the fields of a model, and the function that checks a model against them.

Rules name fields by dotted Python paths from the checked model; an empty path is the model itself.
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

#: `set`: the user set the field, and not to null. `default`: the field is null or has its default
#: value, even if the user set it. `changed`: the field has another value.
_State = Literal["set", "changed", "default"]


class FieldRule(NamedTuple):
    """A condition under which fields are reported.

    Attributes:
        fields: Path of the field, or paths of several fields.
        message: Message of the findings.
        when: Whether the rule applies.
        rule: Rule whose id the findings have.
        state: State in which a field is reported.
        severity: Severity of the findings.
    """

    fields: str | Sequence[str]
    message: str
    when: bool = True
    rule: Rule = FIELD_OUT_OF_PLACE
    state: _State = "set"
    severity: Severity = Severity.ERROR


#: Returns a rule that rejects fields if they are set.
inapplicable_rule = FieldRule
#: Returns a rule that rejects fields if they are missing: null, or equal to their default.
required_rule = partial(FieldRule, rule=FIELD_REQUIRED, state="default")


def no_effect_rule(
    fields: str | Sequence[str],
    reason: str,
    *,
    when: bool = True,
    severity: Severity = Severity.WARNING,
) -> FieldRule:
    """Return a rule that reports fields that differ from their defaults but have no effect."""
    message = f"has no effect: {reason}"
    return FieldRule(
        fields, message, when=when, rule=FIELD_WITHOUT_EFFECT, state="changed", severity=severity
    )


def conflict_rule(fields: str | Sequence[str], other: str, *, when: bool = True) -> FieldRule:
    """Return a rule that rejects fields if they are set; `when` is whether `other` is set, too."""
    message = f"conflicts with {other}; remove one of them"
    return FieldRule(fields, message, when=when, rule=FIELDS_EXCLUDE_EACH_OTHER)


def check_fields(prefix: Location, model: BaseModel | None, *rules: FieldRule) -> Iterator[Finding]:
    """Yield a finding at each field that a rule reports, in the order of the rules.

    `prefix` is the location of `model`, which is None if the user set nothing there.
    """
    for rule in rules:
        if not rule.when:
            continue
        paths = [rule.fields] if isinstance(rule.fields, str) else rule.fields
        for path in paths:
            location = _locate_in_state(model, path, rule.state)
            if location is not None:
                yield Finding(rule.rule.id, rule.severity, (*prefix, *location), rule.message)


def find_set_fields(model: BaseModel, paths: Sequence[str]) -> list[str]:
    """Return the YAML paths of the fields that are set and not null."""
    locations = (_locate_in_state(model, path, "set") for path in paths)
    return [format_path(location) for location in locations if location is not None]


def _locate_in_state(model: BaseModel | None, path: str, state: _State) -> Location | None:
    """Return the location of a field in YAML, or None if the field is not in `state`."""
    location = []
    value: Any = model
    is_set, default = True, None
    for name in path.split(".") if path else ():
        if value is None:  # a field below one that is not set
            location.append(to_camel(name))
            is_set, default = False, None
        else:
            field = type(value).model_fields[name]
            location.append(field.alias or to_camel(name))
            is_set = name in value.model_fields_set
            default = field.get_default(call_default_factory=True)
            value = getattr(value, name)
    is_default = value is None or value == default
    states = {"set": is_set and value is not None, "default": is_default, "changed": not is_default}
    return tuple(location) if states[state] else None
