"""Durations, counts and percentages of `rollout` and `wait`."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import problems, role, service

from fusioninfer_pulumi.kube.durations import seconds


@pytest.mark.parametrize(
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
def test_durations_as_go_reads_them(text: str, expected: Fraction) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "10", "m", "1 m", "1d", "-5s", "+5s", "1e3s", ".s", "1h30", "1..5s", "9999999h"]
)
def test_what_go_would_refuse(text: str) -> None:
    assert seconds(text) is None


@given(st.integers(0, 2000), st.integers(0, 59), st.integers(0, 59))
def test_hours_minutes_and_seconds_add_up(hours: int, minutes: int, rest: int) -> None:
    assert seconds(f"{hours}h{minutes}m{rest}s") == hours * 3600 + minutes * 60 + rest


_NEEDS_SURGE = "must be at least 1, or 0 together with maxSurge and layout: PerRole, got 0"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("timeout", "0s", 'must be a duration above 0 such as 90s, 10m or 1h30m, got "0s"'),
        ("timeout", 90, "must be a duration above 0 such as 90s, 10m or 1h30m, got 90"),
        ("maxUnavailable", -1, _COUNT := "must be a count of at least 0 or a percentage from 1% "
         "to 100%, got -1"),
        ("maxSurge", -1, _COUNT),
        ("maxUnavailable", 0, _NEEDS_SURGE),
        ("maxUnavailable", True, _COUNT[:-2] + "true"),
        ("maxUnavailable", "0%", _COUNT[:-2] + '"0%"'),
        ("maxUnavailable", "101%", _COUNT[:-2] + '"101%"'),
        ("maxUnavailable", "2", _COUNT[:-2] + '"2"'),
        ("partition", -1, "must be at least 0, got -1"),
        ("strategy", "Blue", 'must be one of Rolling, AllAtOnce, Recreate, got "Blue"'),
    ],
)  # fmt: skip
def test_bad_values_are_refused_in_service_and_role(field: str, value: Any, message: str) -> None:
    assert problems(service(rollout={field: value})) == [f"rollout.{field}: {message}"]
    inner = problems(service(role(rollout={field: value})))
    assert inner == [f"roles[0].rollout.{field}: {message}"]


def test_the_order_of_roles_belongs_to_the_service() -> None:
    (told,) = problems(service(role(rollout={"roleOrder": "Together"})))
    assert told.startswith("roles[0].rollout.roleOrder: unknown key")


def test_a_router_is_no_role_that_rolls() -> None:
    router = {"name": "router", "componentType": "router", "rollout": {"partition": 1}}
    (told,) = problems(service(role(), router))
    assert told.startswith("roles[1].rollout: a router runs no model")


def test_wait_knows_its_levels() -> None:
    (told,) = problems(service(wait={"level": "Ready"}))
    assert told == ('wait.level: must be one of None, Scheduled, Available, Serving, got "Ready"')
    assert problems(service(wait={"timeout": "1d"}))
