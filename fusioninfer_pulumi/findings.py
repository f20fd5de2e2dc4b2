"""Findings: what is wrong with an input, at which field, and how severe it is."""

from __future__ import annotations

import enum
import functools
import json
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from fusioninfer_pulumi.kube.labels import IGNORE_RULES
from fusioninfer_pulumi.kube.pulumi_outputs import is_output

_MAX_VALUE_LENGTH = 80
#: URL of the documentation, for messages: the package does not contain it.
DOCS_URL = "https://github.com/fusioninfer/fusioninfer-pulumi/blob/main/docs"


class Severity(str, enum.Enum):
    """Severity of a finding."""

    ERROR = "error"  #: rejects the input
    WARNING = "warning"  #: valid but probably wrong; `--strict` rejects it
    INFO = "info"  #: a default or an automatic change that users should know


class Rule(NamedTuple):
    """A rule that an input can violate; its description and example are in `rule_examples`.

    Attributes:
        id: Stable id, such as `accelerators-too-few`.
    """

    id: str


#: Path of a field, as keys and list indexes: `("roles", 1, "port")` is `roles[1].port`.
Location = tuple[str | int, ...]


class Origin(NamedTuple):
    """File of a document, and its position in the file.

    Messages show it as `service.yaml:12`. If the line is unknown, they show `service.yaml`,
    `service.yaml#2` for the second document, or `service.yaml#2.items[0]` for an item of a `List`.

    Attributes:
        file: Path of the file, directory or project, `<stdin>`, or empty for a text or mapping.
        document: Number of the document in the file, from 1.
        item: Index among the items of a `List`, or None if the document is not an item.
        line: Line in the file, or None if unknown.
    """

    file: str
    document: int = 1
    item: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.file}:{self.line}"
        parts = []
        if self.document > 1:
            parts.append(str(self.document))
        if self.item is not None:
            parts.append(f"items[{self.item}]")
        return f"{self.file}#{'.'.join(parts)}" if parts else self.file


@dataclass(frozen=True)
class Finding:
    """A problem with a field of the input, or a remark about it.

    Attributes:
        rule: Stable id of the rule, such as `accelerators-too-few`.
        severity: Severity of the problem.
        location: The user's field, relative to `spec`, or starting with `metadata`, `kind` or
            `apiVersion`; empty for the whole document.
        message: What is wrong, the value found, and the fix, on one line.
        frames: Stack frames of the user's program, printed below the message.
        converted: Field of the service that was converted from another system's document, if that
            document has no such field (`location` is then its closest field). Otherwise empty.
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
        return format_path(self.location)

    @property
    def text(self) -> str:
        """The message, prefixed with the field of the converted service if `converted` is set."""
        if not self.converted:
            return self.message
        return f"{one_line(format_path(self.converted))} of the converted service: {self.message}"

    def with_location(self, *location: str | int) -> Finding:
        """Return a copy of the finding with this location."""
        return replace(self, location=location)

    def with_prefix(self, *prefix: str | int) -> Finding:
        """Return a copy of the finding with `prefix` prepended to its location."""
        return replace(self, location=(*prefix, *self.location))

    def __post_init__(self) -> None:
        # Messages quote untrusted input, and GitHub Actions executes lines that start with `::`.
        if not self.message.isprintable():
            object.__setattr__(self, "message", one_line(self.message))

    def __str__(self) -> str:
        kind = "" if self.severity is Severity.ERROR else f"{self.severity.value}: "
        path = f"{one_line(self.path)}: " if self.path else ""
        frames = "".join(f"\n  {one_line(frame)}" for frame in self.frames)
        return f"{kind}{path}{self.text}{frames}"


def format_with_rule(finding: Finding) -> str:
    """Return a finding as text, with its rule in brackets."""
    return f"{finding} [{finding.rule}]" if finding.rule else str(finding)


def one_line(text: str) -> str:
    """Escape unprintable characters, such as line breaks and terminal colors."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def error(rule: Rule, location: Location, message: str) -> Finding:
    """Return a finding that rejects the input."""
    return Finding(rule.id, Severity.ERROR, location, message)


def warning(rule: Rule, location: Location, message: str) -> Finding:
    """Return a finding about a valid value that is probably wrong."""
    return Finding(rule.id, Severity.WARNING, location, message)


def info(rule: Rule, location: Location, message: str) -> Finding:
    """Return a finding about a default or an automatic change that users should know."""
    return Finding(rule.id, Severity.INFO, location, message)


class InvalidServiceError(ValueError):
    """The input is invalid.

    The text has a line for each finding, with the rule's id at its end. If pulumi is imported, the
    exception is also a `pulumi.RunError`, which Pulumi prints without a traceback.

    Attributes:
        findings: Every finding of the rejected input.
        titles: File or service of each finding, or an empty string if it is unknown.
    """

    def __new__(cls, *_: object) -> InvalidServiceError:
        """Return an instance that is also a `pulumi.RunError` if pulumi is imported."""
        if cls is InvalidServiceError and "pulumi" in sys.modules:
            return super().__new__(_run_error_type())
        return super().__new__(cls)

    def __init__(self, findings: Sequence[Finding], title: str | Sequence[str] = "") -> None:
        self.findings = tuple(findings)
        # One string is the title of all findings.
        self.titles = (title,) * len(findings) if isinstance(title, str) else tuple(title)
        texts = zip(self.titles, map(format_with_rule, self.findings), strict=True)
        lines = [f"{one_line(prefix)}: {text}" if prefix else text for prefix, text in texts]
        super().__init__("\n".join(lines))


@functools.cache
def _run_error_type() -> type[InvalidServiceError]:
    bases = (InvalidServiceError, sys.modules["pulumi"].RunError)
    return type(InvalidServiceError.__name__, bases, {"__module__": __name__})


def filter_errors(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings that reject the input."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def raise_errors(findings: Iterable[Finding], title: str = "") -> None:
    """Raise an InvalidServiceError with the findings that reject the input, if there are any."""
    errors = filter_errors(findings)
    if errors:
        raise InvalidServiceError(errors, title)


def closest_name(key: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to `key`, or None if none is similar enough."""
    import difflib  # noqa: PLC0415  # startup time: most manifests have no unknown key

    lowered = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(key.lower(), list(lowered), n=1, cutoff=cutoff)
    return lowered[close[0]] if close else None


def quote_value(value: Any) -> str:
    """Return a value as messages quote it: JSON of at most 80 characters, or the type's name."""
    if is_output(value):
        return "a pulumi Output"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = f"a {type(value).__name__}"
    # Lone surrogates are escaped, because they cannot be encoded when the message is printed.
    text = one_line(text)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def summarize_names(names: Sequence[str], limit: int = 3) -> str:
    """Join up to `limit` names with commas, and append the number of the remaining ones."""
    remaining = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {remaining} more" if remaining > 0 else "")


def format_path(location: Location) -> str:
    """Format a location: `("roles", 1, "port")` is `roles[1].port`."""
    text = ""
    for part in location:
        if isinstance(part, int) or any(character in part for character in "./[] "):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


#: Matches `[0]`, `[key.with.dots]` or `key`.
_PATH_PART = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def parse_path(path: str) -> Location:
    """Parse a path of a field as messages of this library and of the API server show it."""
    return tuple(
        int(index) if index.isdigit() else index or key for index, key in _PATH_PART.findall(path)
    )


_Value = TypeVar("_Value")


def find_closest(
    values: Mapping[Location, _Value], location: Location
) -> tuple[_Value, Location] | None:
    """Return the value at a location or its closest parent, and the rest of the location.

    If `values` has the key `("roles", 0)`, the rest of `("roles", 0, "port")` is `("port",)`.
    Return None if neither the location nor a parent has a value.
    """
    for end in range(len(location), 0, -1):
        if (value := values.get(location[:end])) is not None:
            return value, location[end:]
    return None


def parse_ignored_rules(annotations: Mapping[str, Any]) -> frozenset[str]:
    """Return the rule ids in the annotation `fusioninfer.io/ignore-rules` of a service."""
    ignored_text = annotations.get(IGNORE_RULES)
    if not isinstance(ignored_text, str):
        return frozenset()
    return frozenset(rule_id.strip() for rule_id in ignored_text.split(",") if rule_id.strip())


def drop_ignored(findings: Iterable[Finding], ignored: Collection[str]) -> list[Finding]:
    """Remove the warnings and infos of ignored rules; errors stay."""
    return [
        finding
        for finding in findings
        if finding.severity is Severity.ERROR or finding.rule not in ignored
    ]


OUTPUT_HINT = (
    "must be known before the update, got a pulumi Output; take it from pulumi.Config, or pass the "
    "plain value and depend on its resource: ResourceOptions(depends_on=[...])"
)
