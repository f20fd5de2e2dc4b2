"""Pods that API validation rejects have an error at the user's field."""

from __future__ import annotations

from typing import Any

from rejected_pods import ACCEPTED, REJECTED, REJECTED_BY_SERVER, Fields
from rows import each_row

from fusioninfer_pulumi.checks.pods.template_checks import check_template
from fusioninfer_pulumi.findings import format_path


@each_row(("rule", "value", "at"), REJECTED)
def test_invalid_template_is_reported_at_its_field(rule: str, value: Fields, at: str) -> None:
    result = [(finding.rule, format_path(finding.location)) for finding in check_template(value)]
    assert result == [(rule, at)]


@each_row("value", ACCEPTED)
def test_unusual_valid_fields_are_accepted(value: Fields) -> None:
    assert list(check_template(value)) == []


@each_row("value", [value for value, _ in REJECTED_BY_SERVER])
def test_template_that_only_the_server_rejects_has_no_finding(value: Fields) -> None:
    assert list(check_template(value)) == []


class Output:
    """Stand-in for a Pulumi Output."""


Output.__module__ = "pulumi"


def outputs(value: Any) -> Any:
    """Return a copy with an Output for each value that is not a mapping or list."""
    if isinstance(value, dict):
        return {key: outputs(item) for key, item in value.items()}
    return [outputs(item) for item in value] if isinstance(value, list) else Output()


#: Rules about the presence of fields and keys, whatever their values.
PRESENCE = {
    "field-required", "requests-and-limits", "sources-not-one", "unknown-resource",
}  # fmt: skip


@each_row("value", [value for _, value, _ in REJECTED])
def test_unknown_program_is_never_rejected(value: Fields) -> None:
    result = {finding.rule for finding in check_template(outputs(value))}
    assert result <= PRESENCE
