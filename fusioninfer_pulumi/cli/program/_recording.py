"""What a run of a program hands back: objects, findings, and what stands in place of secrets.

A marked mask ends in a keyed hash of the value. Each command draws a key of its own and never
writes it, so that a mark that gets out by mistake reveals nothing about the value.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from fusioninfer_pulumi.findings import Finding, Rule, error

#: Printed in place of a secret value.
SECRET = "<secret>"  # noqa: S105  # the mask, not a password

T = TypeVar("T")
#: Whose hash marks are: of this process, and of those that it starts (see `mark_with`).
_KEY = bytearray(os.urandom(32))
# No Kubernetes name and no YAML text holds a control character.
_MARK = re.compile(re.escape(SECRET[:-1]) + r"\0[0-9a-f]{64}" + re.escape(SECRET[-1]))


@dataclass(frozen=True)
class Recorded:
    """One Kubernetes object that a program registered.

    Attributes:
        urn_name: Its logical (Pulumi) name.
        type_token: Its Pulumi type, such as `kubernetes:apps/v1:Deployment`.
        manifest: The object: `apiVersion`, `kind`, `metadata`, then its other fields in
            alphabetical order, as the keys of every mapping inside are (the SDK hands properties
            over as a protobuf map, which has no order). `metadata` is always a mapping.
    """

    urn_name: str
    type_token: str
    manifest: dict[str, Any]


@dataclass(frozen=True)
class Recording:
    """Everything that one run of a program brought to light.

    Attributes:
        resources: The objects, in the order in which the program constructed them; what an object
            depends on comes before it.
        plans: The plan of each InferenceService component, in the same order.
        providers: Name of the Kubernetes provider of each of them, empty for the default one.
        findings: Warnings: what is missing here because only the engine can expand it, and what
            the program itself warned about; no text twice.
        encrypted: Of each encrypted value of the stack's config what is written there.
    """

    resources: tuple[Recorded, ...]
    plans: tuple[Any, ...]
    findings: tuple[Finding, ...]
    encrypted: Mapping[str, str] = field(default_factory=dict)
    providers: tuple[str, ...] = ()


class ProgramError(Exception):
    """A project that cannot be run, or a program that failed.

    Attributes:
        findings: What is wrong, one line each. The last one holds the lines of the user's own
            files that led there, outermost first.
    """

    def __init__(self, *findings: Finding, frames: tuple[str, ...] = ()) -> None:
        *others, last = findings
        self.findings = (*others, replace(last, frames=frames or last.frames))
        # Its arguments are what it is made of again when it has been pickled.
        super().__init__(*self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


class ExitError(Exception):
    """The program called `sys.exit` with a failure."""

    def __init__(self, exit_: SystemExit) -> None:
        code = exit_.code
        called = f"the program called sys.exit({code})"
        super().__init__(called if isinstance(code, int) else f"SystemExit: {code}")


@contextlib.contextmanager
def failing_exits() -> Iterator[None]:
    """Turns a `sys.exit` with a failure into an ExitError, which the SDK does not let through."""
    try:
        yield
    except SystemExit as exit_:
        if not exit_.code:
            raise
        raise ExitError(exit_) from exit_


def refused(rule: Rule, message: str) -> ProgramError:
    """An error of one line."""
    return ProgramError(error(rule, (), message))


def key() -> bytes:
    """The key of this process's marks."""
    return bytes(_KEY)


def mark_with(other: bytes) -> None:
    """Makes the marks of this process those of another one."""
    _KEY[:] = other


class Secrets(enum.Enum):
    """What stands in place of a secret value."""

    MASKED = enum.auto()  #: `<secret>`
    MARKED = enum.auto()  #: the same, with a mark of the value: see `unmarked`
    SHOWN = enum.auto()  #: the value

    def mask(self, value: Any) -> Any:
        """What stands in place of a plain value."""
        if self is Secrets.SHOWN:
            return value
        if self is Secrets.MASKED:
            return SECRET
        mark = hashlib.blake2b(repr(value).encode(), key=_KEY, digest_size=32).hexdigest()
        return f"{SECRET[:-1]}\0{mark}{SECRET[-1]}"


def unmarked(value: T) -> T:
    """A copy of plain values and records in whose texts every marked mask is `<secret>`."""
    return cast("T", _unmarked(value))


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        return _MARK.sub(SECRET, value) if "\0" in value else value
    if isinstance(value, Mapping):
        return {_unmarked(key): _unmarked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_unmarked(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {each.name: _unmarked(getattr(value, each.name)) for each in fields(value)}
        return type(value)(**held)
    return value
