"""Output of the command line: lines of findings, and YAML."""

from __future__ import annotations

import yaml
from rows import each_row

from fusioninfer_pulumi.cli.finding_formats import format_finding_line
from fusioninfer_pulumi.cli.printing import to_yaml
from fusioninfer_pulumi.findings import Finding, Origin, Severity


@each_row(
    "text",
    ["1e3", "1e-2", "0o7", "007", "y", "N", "yes", "on", "1.5", "1", "0x1f", "12:30", "~", ""],
)
def test_text_that_looks_like_another_type_is_quoted(text: str) -> None:
    written = to_yaml([{"key": text}])

    assert written in (f"key: '{text}'\n", f'key: "{text}"\n')
    assert yaml.safe_load(written) == {"key": text}


def test_numbers_booleans_and_null_are_not_quoted() -> None:
    assert to_yaml([{"a": 1, "b": 1.5, "c": True, "d": None, "e": "word"}]) == (
        "a: 1\nb: 1.5\nc: true\nd: null\ne: word\n"
    )


def test_multiline_text_is_a_block() -> None:
    assert to_yaml([{"key": "one\ntwo\n"}]) == "key: |\n  one\n  two\n"


def test_rule_follows_the_message_and_precedes_the_frames() -> None:
    actual = Finding("a-rule", Severity.WARNING, ("roles", 1, "port"), "is odd", ("__main__.py:1",))
    line = "F: warning: roles[1].port: is odd"
    assert format_finding_line(Origin("F"), actual) == f"{line} [a-rule]\n  __main__.py:1"
    assert (
        format_finding_line(Origin("F"), Finding("", actual.severity, actual.location, "is odd"))
        == line
    )
