"""The result of a run of a program in plain values, and the masks of its secrets.

Does not import Pulumi, because commands and the list of rules import it.
"""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PROGRAM_ENDED = Rule("program-ended")
PROGRAM_MESSAGE = Rule("program-message")
UNKNOWN_WITHOUT_PULUMI = Rule("unknown-without-pulumi")
PROGRAM_WITHOUT_SERVICE = Rule("program-without-service")
PROJECT_FILE_INVALID = Rule("project-file-invalid")
PROGRAM_FAILED = Rule("program-failed")
STACK_NOT_CHOSEN = Rule("stack-not-chosen")

#: Printed in place of a secret value.
SECRET = "<secret>"  # noqa: S105  # the mask, not a password

T = TypeVar("T")
# Neither Kubernetes names nor YAML texts contain control characters.
_MARK = re.compile(re.escape(SECRET[:-1]) + r"\0[0-9a-f]{64}" + re.escape(SECRET[-1]))


@dataclass(frozen=True)
class ProgramService:
    """An InferenceService component that a program created.

    Attributes:
        file: The file that declares it, relative to the project if it is inside; empty if unknown.
        line: Its line, None if unknown.
        plan: Its plan.
    """

    file: str
    line: int | None
    plan: ServicePlan


@dataclass(frozen=True)
class Recording:
    """The result of one run of a program.

    Attributes:
        objects: The Kubernetes objects, in the order in which the program constructed them; what
            an object depends on comes before it. Each is `apiVersion`, `kind`, `metadata` (always a
            mapping), then its other fields in alphabetical order, as the keys of all mappings are:
            the SDK passes properties as a protobuf map, which has no order.
        services: The InferenceService components, in the same order.
        findings: Warnings, each text once: what only the Pulumi engine can expand, and messages of
            the program.
        encrypted: The ciphertext of each encrypted value of the stack's config.
    """

    objects: tuple[dict[str, Any], ...]
    services: tuple[ProgramService, ...]
    findings: tuple[Finding, ...]
    encrypted: Mapping[str, str] = field(default_factory=dict)

    @property
    def plans(self) -> tuple[ServicePlan, ...]:
        """The plan of each service."""
        return tuple(service.plan for service in self.services)


class ProgramError(Exception):
    """A project that cannot be run, or a program that failed.

    Attributes:
        findings: The errors, one line each. The last one has the stack frames of the user's
            files, outermost first.
    """

    def __init__(self, *findings: Finding) -> None:
        self.findings = findings
        super().__init__(*findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


def program_error(rule: Rule, message: str) -> ProgramError:
    """Returns an error of one line."""
    return ProgramError(error(rule, (), message))


class Secrets(enum.Enum):
    """What replaces a secret value."""

    MASKED = enum.auto()  #: `<secret>`
    MARKED = enum.auto()  #: the same with a hash of the value: see `remove_marks`
    SHOWN = enum.auto()  #: the value

    def mask(self, value: Any) -> Any:
        """Returns what replaces a plain value."""
        if self is Secrets.SHOWN:
            return value
        if self is Secrets.MASKED:
            return SECRET
        mark = hashlib.sha256(repr(value).encode()).hexdigest()
        return f"{SECRET[:-1]}\0{mark}{SECRET[-1]}"


def remove_marks(value: T) -> T:
    """Returns a copy of plain values and records with `<secret>` for each marked mask."""
    return cast("T", _unmarked(value))


def _unmarked(value: Any) -> Any:
    if isinstance(value, str):
        return _MARK.sub(SECRET, value) if "\0" in value else value
    if isinstance(value, Mapping):
        return {_unmarked(key): _unmarked(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_unmarked(item) for item in value]
        # A named tuple takes its items one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{item.name: _unmarked(getattr(value, item.name)) for item in fields(value)}
        )
    return value


def masked(text: str, secrets: Iterable[str]) -> str:
    """Returns a text with its secrets masked, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, SECRET)
    return text
