"""What the library has to say about an input: where, how bad, and in which words."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from fusioninfer_pulumi.kube.outputs import is_output

_SHOWN = 80


class Severity(str, enum.Enum):
    """How bad a finding is."""

    ERROR = "error"  #: refused
    WARNING = "warning"  #: legal but probably wrong; refused by `--strict`
    INFO = "info"  #: a choice or a repair worth knowing


#: Keys and list indexes that lead to a field: `("roles", 1, "port")` is `roles[1].port`.
Location = tuple[str | int, ...]


@dataclass(frozen=True)
class Finding:
    """One statement about one field of the input.

    Attributes:
        rule: Id of the rule, in words: `accelerators-too-few`. Stable: programs compare it.
        severity: How bad it is.
        location: Field as the user wrote it, relative to `spec` (`metadata.name` and `kind` lie
            outside of it); empty when the whole document is meant.
        message: What is wrong, which value was found, and what is allowed; one line.
        frames: Where in a user's program it comes from, each on a line below the message.
        converted: Field of a converted service that the message is about, where the user's
            manifest has no such field: `location` is then the field that it follows from.
    """

    rule: str
    severity: Severity
    location: Location
    message: str
    frames: tuple[str, ...] = ()
    converted: Location = ()

    @property
    def path(self) -> str:
        """The location as messages show it: `roles[1].port`."""
        return path_text(self.location)

    @property
    def text(self) -> str:
        """The message, after the field of the converted service that it is about."""
        if not self.converted:
            return self.message
        return f"{one_line(path_text(self.converted))} of the converted service: {self.message}"

    def at(self, *location: str | int) -> Finding:
        """The same finding at another location."""
        return replace(self, location=location)

    def under(self, *prefix: str | int) -> Finding:
        """The same finding below a prefix."""
        return replace(self, location=(*prefix, *self.location))

    def __post_init__(self) -> None:
        # Inputs of strangers are quoted in it, and jobs of CI obey lines that begin with `::`.
        if not self.message.isprintable():
            object.__setattr__(self, "message", one_line(self.message))

    def __str__(self) -> str:
        kind = "" if self.severity is Severity.ERROR else f"{self.severity.value}: "
        place = f"{one_line(self.path)}: " if self.path else ""
        below = "".join(f"\n  {one_line(frame)}" for frame in self.frames)
        return f"{kind}{place}{self.text}{below}"


def one_line(text: str) -> str:
    """A text of which a user's names and keys are part, without what breaks or colours a line."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


@overload
def error(rule: str, location: Location, message: str) -> Finding: ...
@overload
def error(rule: str, location: str) -> Finding: ...
def error(rule: str, location: Location | str, message: str | None = None) -> Finding:
    """A finding that refuses the input.

    The form with a path as text and without a rule is being replaced.
    """
    return _finding(Severity.ERROR, rule, location, message)


@overload
def warning(rule: str, location: Location, message: str) -> Finding: ...
@overload
def warning(rule: str, location: str) -> Finding: ...
def warning(rule: str, location: Location | str, message: str | None = None) -> Finding:
    """A finding about something legal that is probably wrong.

    The form with a path as text and without a rule is being replaced.
    """
    return _finding(Severity.WARNING, rule, location, message)


@overload
def info(rule: str, location: Location, message: str) -> Finding: ...
@overload
def info(rule: str, location: str) -> Finding: ...
def info(rule: str, location: Location | str, message: str | None = None) -> Finding:
    """A finding about a choice or a repair worth knowing.

    The form with a path as text and without a rule is being replaced.
    """
    return _finding(Severity.INFO, rule, location, message)


def _finding(
    severity: Severity, rule: str, location: Location | str, message: str | None
) -> Finding:
    if message is None:
        return Finding("", severity, parse_path(rule), str(location))
    return Finding(rule, severity, tuple(location), message)


class _Raw(str):
    """A path that no parser understands; shown as it is."""

    __slots__ = ()


_PART = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|(?:^|\.)([^.\[\]]+)")


def parse_path(text: str) -> Location:
    """Reads a path that is still handed on as text; to be deleted when all are tuples."""
    if text == "":
        return ()
    parts = tuple(
        int(match[1]) if match[1] is not None else match[2] if match[2] is not None else match[3]
        for match in _PART.finditer(text)
    )
    return parts if path_text(parts) == text else (_Raw(text),)


class InvalidServiceError(ValueError):
    """Raised when an input cannot work; its text has one line per problem.

    Attributes:
        findings: All problems that were found, not only the first.
        titles: The file or service of each of them, in the same order; empty where there is one.
    """

    def __init__(self, findings: Sequence[Finding], title: str | Sequence[str] = "") -> None:
        self.findings = tuple(findings)
        self.titles = (title,) * len(findings) if isinstance(title, str) else tuple(title)
        super().__init__(
            "\n".join(
                f"{one_line(each)}: {finding}" if each else str(finding)
                for each, finding in zip(self.titles, self.findings, strict=True)
            )
        )


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


def path_text(location: Location) -> str:
    """Writes a location: `("roles", 1, "port")` is `roles[1].port`."""
    text = ""
    for part in location:
        if isinstance(part, _Raw):
            text += f".{part}" if text else part
        elif isinstance(part, int) or any(character in part for character in "./[] "):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def join(*parts: str | int) -> str:
    """Writes a path as text; to be deleted when all are tuples."""
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
