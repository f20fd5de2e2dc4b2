"""Where the fields of a converted service stand in the documents that a user wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusioninfer_pulumi.findings import Finding, join, one_line, parse_path
from fusioninfer_pulumi.importers.given import At

#: Messages whose subject is the field that they stand at.
_OF_ITS_FIELD = re.compile(r"(is|are|must|has|have|needs|would|cannot|does|belongs|stands)\b")


@dataclass(frozen=True)
class Origin:
    """Where one field came from.

    Attributes:
        at: The place.
        whole: Whether everything below it was carried over as it stands there.
    """

    at: At
    whole: bool


@dataclass(frozen=True)
class Origins:
    """The fields of one service, by path as in a finding.

    Attributes:
        label: Label of the document that stands for the service.
        fields: Path of each field that has an origin.
        used: Labels of documents that say something about it, whether or not a field came of it.
    """

    label: str
    fields: Mapping[str, Origin]
    used: frozenset[str] = frozenset()

    @property
    def labels(self) -> frozenset[str]:
        """Labels of all documents that the service was made of."""
        fields = (each.at.document.label for each in self.fields.values())
        return frozenset({self.label, *self.used, *fields})

    def locate(self, finding: Finding) -> tuple[str, Finding]:
        """Moves a finding from the service to the document that the user wrote.

        Args:
            finding: A finding about the service.

        Returns:
            The document's label, and the finding with a path of that document. Where our field
            has no counterpart there, the path is that of what it was made of, and the message
            names our field.
        """
        path = finding.path
        known = next((prefix for prefix in _prefixes(path) if prefix in self.fields), None)
        if known is None:
            return self.label, _told(finding, "", path)
        origin, rest = self.fields[known], path[len(known) :]
        place, label = written(origin.at), origin.at.document.label
        if origin.whole:
            return label, replace(finding, location=parse_path(place + rest))
        return label, _told(finding, place, path if rest else "")


def written(at: At) -> str:
    """Writes a place as findings do: relative to `spec`."""
    path = at.path[1:] or at.path if at.path[:1] == ("spec",) else at.path
    return one_line(join(*path))


def _told(finding: Finding, place: str, ours: str) -> Finding:
    if not ours:
        return replace(finding, location=parse_path(place))
    named = f"{ours} of the converted service"
    if _OF_ITS_FIELD.match(finding.message):
        return replace(finding, location=parse_path(place), message=f"{named} {finding.message}")
    return replace(finding, location=parse_path(place), message=f"{finding.message} ({named})")


def _prefixes(path: str) -> list[str]:
    """A path, and every path above it, the longest first."""
    cuts = [index for index, character in enumerate(path) if character in ".[" and index]
    return [path, *(path[:cut] for cut in reversed(cuts))]
