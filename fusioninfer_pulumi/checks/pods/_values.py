"""Formats, numbers and choices of single fields, and how rules reach them.

A check takes one value and yields what is wrong with it. What the schemas decide is not repeated
here: a value of the wrong type is passed over, and so is a `pulumi.Output`, which is unknown yet.
Null is a field that is not set; the empty string is, too, unless the field is required.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, shown
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.rules.common import (
    FIELD_REQUIRED,
    INVALID_FORMAT,
    OUT_OF_RANGE,
    UNKNOWN_VALUE,
)

Check = Callable[[Location, Any], Iterator[Finding]]
FieldsRule = Callable[[Location, Mapping[str, Any]], Iterator[Finding]]

MAX_INT32 = 2**31 - 1


@dataclass(frozen=True)
class Format:
    """What a string has to look like."""

    kind: str
    pattern: str
    longest: int = MAX_INT32

    def fits(self, value: str) -> bool:
        """Whether a string has the format."""
        # Compiled at first use: most templates have few of the fields.
        return len(value) <= self.longest and re.fullmatch(self.pattern, value) is not None


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
DNS_LABEL = Format("a DNS label (a-z 0-9 -, at most 63)", _LABEL, 63)
OBJECT_NAME = Format("the name of an object (at most 253 of a-z 0-9 - .)", _SUBDOMAIN, 253)
_QUALIFIED_NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
QUALIFIED_NAME = Format(
    "a qualified name such as example.com/name",
    rf"((?=.{{1,253}}/){_SUBDOMAIN}/)?{_QUALIFIED_NAME}",
)
LABEL_VALUE = Format(
    "a label value (at most 63 of A-Z a-z 0-9 - _ .)",
    "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
    63,
)
PORT_NAME = Format(
    "a port name: at most 15 of a-z 0-9 -, with a letter, - only between others",
    "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*",
    15,
)
#: Names of variables that every Kubernetes release since 1.32 accepts.
VARIABLE = Format("printable ASCII without =", "[ -<>-~]+")
KEY = Format(
    "a key of a ConfigMap or Secret (at most 253 of A-Z a-z 0-9 - _ .)",
    r"(?!\.$|\.\.)[-._a-zA-Z0-9]+",
    253,
)


def given(value: Any) -> bool:
    """Whether a field is set: an Output is, the empty string is not."""
    return value is not None and not (isinstance(value, str) and not value)


def text(value: Any) -> str:
    """A string that is known, else the empty one."""
    return value if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    """A whole number that is known, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def known(value: Any) -> Mapping[str, Any]:
    """A mapping that is known, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """A list that is known, else an empty one."""
    return list(value) if isinstance(value, (list, tuple)) else []


def mappings(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings of a list with their indexes."""
    for index, item in enumerate(listed(value)):
        if isinstance(item, Mapping):
            yield index, item


def formatted(wanted: Format) -> Check:
    """A string of a format, or none."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if isinstance(value, str) and value and not wanted.fits(value):
            yield error(INVALID_FORMAT, at, f"must be {wanted.kind}, got {shown(value)}")

    return check


def one_of(*allowed: str) -> Check:
    """One of a few words, or none."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if isinstance(value, str) and value and value not in allowed:
            words = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
            yield error(UNKNOWN_VALUE, at, f"must be {words}, got {shown(value)}")

    return check


def between(least: int, most: int = MAX_INT32) -> Check:
    """A number within bounds."""
    bounds = f"of at least {least}" if most == MAX_INT32 else f"from {least} to {most}"

    def check(at: Location, value: Any) -> Iterator[Finding]:
        amount = number(value)
        if amount is not None and not least <= amount <= most:
            yield error(OUT_OF_RANGE, at, f"must be an integer {bounds}, got {amount}")

    return check


def items(of: Check) -> Check:
    """A list whose items are checked."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        for index, item in enumerate(listed(value)):
            yield from of((*at, index), item)

    return check


def fields(
    checks: Mapping[str, Check], *rules: FieldsRule, required: tuple[str, ...] = ()
) -> Check:
    """A mapping whose fields are checked, then the rules between them."""

    def check(at: Location, value: Any) -> Iterator[Finding]:
        if not isinstance(value, Mapping):
            return
        for key in required:
            if not given(value.get(key)):
                yield error(FIELD_REQUIRED, (*at, key), "is required")
        for key, of in checks.items():
            if value.get(key) is not None and not is_output(value[key]):
                yield from of((*at, key), value[key])
        for rule in rules:
            yield from rule(at, value)

    return check


def exactly_one(rule: Rule, what: str, keys: tuple[str, ...], *, least: int = 1) -> FieldsRule:
    """Exactly one of some fields of a mapping, or at most one."""

    def check(at: Location, value: Mapping[str, Any]) -> Iterator[Finding]:
        present = [key for key in keys if value.get(key) is not None]
        if len(present) > 1:
            yield error(
                rule, at, f"takes one {what}, got {' and '.join(present)}; remove one of them"
            )
        elif len(present) < least:
            yield error(rule, at, f"needs one {what}: {', '.join(keys)}")

    return check
