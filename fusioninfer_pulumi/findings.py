"""What the library has to say about an input: where, how bad, and in which words."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.outputs import is_output

_SHOWN = 80


class Severity(str, enum.Enum):
    """How bad a finding is."""

    ERROR = "error"  #: refused
    WARNING = "warning"  #: legal but probably wrong; refused by `--strict`
    INFO = "info"  #: a choice or a repair worth knowing


@dataclass(frozen=True)
class Finding:
    """One statement about one place of the input.

    Attributes:
        severity: How bad it is.
        path: Field as the user wrote it, relative to `spec` (`metadata.name` and `kind` lie
            outside of it); empty when the whole document is meant.
        message: What is wrong, which value was found, and what is allowed; one line.
        frames: Where in a user's program it comes from, each on a line below the message.
    """

    severity: Severity
    path: str
    message: str
    frames: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Inputs of strangers are quoted in it, and jobs of CI obey lines that begin with `::`.
        if not self.message.isprintable():
            object.__setattr__(self, "message", one_line(self.message))

    def __str__(self) -> str:
        kind = "" if self.severity is Severity.ERROR else f"{self.severity.value}: "
        place = f"{one_line(self.path)}: " if self.path else ""
        below = "".join(f"\n  {one_line(frame)}" for frame in self.frames)
        return f"{kind}{place}{self.message}{below}"


def one_line(text: str) -> str:
    """A text of which a user's names and keys are part, without what breaks or colours a line."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def error(path: str, message: str) -> Finding:
    """A finding that refuses the input."""
    return Finding(Severity.ERROR, path, message)


def warning(path: str, message: str) -> Finding:
    """A finding about something legal that is probably wrong."""
    return Finding(Severity.WARNING, path, message)


def info(path: str, message: str) -> Finding:
    """A finding about a choice or a repair worth knowing."""
    return Finding(Severity.INFO, path, message)


class InvalidServiceError(ValueError):
    """Raised when an input cannot work; its text has one line per problem.

    Attributes:
        findings: All problems that were found, not only the first.
    """

    def __init__(self, findings: Sequence[Finding], title: str = "") -> None:
        self.findings = tuple(findings)
        self.title = title
        prefix = f"{one_line(title)}: " if title else ""
        super().__init__("\n".join(f"{prefix}{finding}" for finding in self.findings))


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that refuse the input."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def similar(key: str, known: Iterable[str]) -> str | None:
    """The known key that was probably meant by an unknown one; None when none is like it."""
    import difflib  # noqa: PLC0415  # start-up time: most manifests have no unknown key

    lowered = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(key.lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def shown(value: Any) -> str:
    """A value as a message shows it: JSON, shortened, never an object's address."""
    if is_output(value):
        return "a pulumi Output"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    # Half of a surrogate pair is no text, not even for the libraries that a message goes through.
    text = one_line(text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def join(*parts: str | int) -> str:
    """Writes a path: `join("roles", 1, "port")` is `roles[1].port`."""
    text = ""
    for part in parts:
        if isinstance(part, int) or any(character in str(part) for character in "./[] "):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


LIFT = (
    "must be a plain value, got a pulumi Output; read it from pulumi.Config (or another plain "
    "source) instead: only image, env values, annotations, hostnames, namespace and pod template "
    "fields that are passed through may be Outputs"
)
