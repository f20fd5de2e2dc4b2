"""What a run of a program brings to light, in plain values, and what hides secrets in it.

Imports no Pulumi: commands and the list of rules read it.
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
# No Kubernetes name and no YAML text holds a control character.
_MARK = re.compile(re.escape(SECRET[:-1]) + r"\0[0-9a-f]{64}" + re.escape(SECRET[-1]))


@dataclass(frozen=True)
class ProgramService:
    """One InferenceService component that a program made.

    Attributes:
        name: Its logical name.
        file: The user's file that made it, relative to the project where it lies below it; empty
            where it is not known.
        line: The line in it, None where it is not known.
        provider: Name of its Kubernetes provider, empty for the default one.
        plan: Its plan.
    """

    name: str
    file: str
    line: int | None
    provider: str
    plan: ServicePlan


@dataclass(frozen=True)
class Recording:
    """Everything that one run of a program brought to light.

    Attributes:
        objects: The Kubernetes objects, in the order in which the program constructed them; what
            an object depends on comes before it. Each is `apiVersion`, `kind`, `metadata` (always a
            mapping), then its other fields in alphabetical order, as the keys of all mappings are:
            the SDK passes properties as a protobuf map, which has no order.
        services: The InferenceService components, in the same order.
        findings: Warnings: what is missing here because only the engine can expand it, and what
            the program itself warned about; no text twice.
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
        findings: What is wrong, one line each. The last one holds the lines of the user's own
            files that led there, outermost first.
    """

    def __init__(self, *findings: Finding, frames: tuple[str, ...] = ()) -> None:
        *others, last = findings
        self.findings = (*others, replace(last, frames=frames or last.frames))
        super().__init__(*self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)


def refused(rule: Rule, message: str) -> ProgramError:
    """An error of one line."""
    return ProgramError(error(rule, (), message))


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
        mark = hashlib.sha256(repr(value).encode()).hexdigest()
        return f"{SECRET[:-1]}\0{mark}{SECRET[-1]}"


def remove_marks(value: T) -> T:
    """A copy of plain values and records in whose texts every marked mask is `<secret>`."""
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
    """A text with a mask in place of each secret, the longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, SECRET)
    return text
