"""Durations, counts and percentages of `rollout` and `wait`."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, strategies as st
from rows import each_row

from fusioninfer_pulumi.kube.durations import parse_duration


@each_row(
    ("text", "expected"),
    [
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (".5s", Fraction(1, 2)),
        ("1.s", 1),
        ("2m3.5s", Fraction(247, 2)),
        ("100ms", Fraction(1, 10)),
        ("0s", 0),
        ("1µs", Fraction(1, 10**6)),
    ],
)
def test_durations_are_parsed_as_in_go(text: str, expected: Fraction) -> None:
    assert parse_duration(text) == expected


@each_row(
    "text", ["", "10", "m", "1 m", "1d", "-5s", "+5s", "1e3s", ".s", "1h30", "1..5s", "9999999h"]
)
def test_duration_that_go_rejects_is_rejected(text: str) -> None:
    assert parse_duration(text) is None


@given(st.integers(0, 2000), st.integers(0, 59), st.integers(0, 59))
def test_units_of_a_duration_add_up(hours: int, minutes: int, rest: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{rest}s") == hours * 3600 + minutes * 60 + rest
