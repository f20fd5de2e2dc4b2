"""Carries the fields of documents over to a service of ours, and keeps book of every one.

A converter says for each field what becomes of it: carried as it is (`put`), made into something
else (`derive`), already said by something else (`read`), or not to be had (`lost`). What it says
nothing about is an error (`unread`): no field is dropped in silence.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from fusioninfer_pulumi.api.service import API_VERSION, KIND
from fusioninfer_pulumi.findings import Finding, Severity, join, parse_path
from fusioninfer_pulumi.importers.conversion import Conversion, Located, Service
from fusioninfer_pulumi.importers.given import At, Given, Path
from fusioninfer_pulumi.importers.origins import Origin, Origins, written


class Book:
    """What became of the fields of a set of documents.

    Args:
        documents: The documents.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.
    """

    def __init__(self, documents: Sequence[Given], *, allow_lossy: bool) -> None:
        self.documents = documents
        self.allow_lossy = allow_lossy
        self._findings: list[tuple[At, Finding]] = []
        self._seen: set[At] = set()
        self._services: list[Carrier] = []

    def service(self, main: Given) -> Carrier:
        """Begins a service, which stands for a document."""
        carrier = Carrier(self, main)
        self._services.append(carrier)
        return carrier

    def read(self, *places: At) -> None:
        """Notes fields whose meaning is in the service already, or the same as leaving them out."""
        self._seen.update(places)

    def is_read(self, at: At) -> bool:
        """Whether something was said about a field itself."""
        return at in self._seen

    def lost(self, at: At, message: str) -> None:
        """Says that a field cannot be carried over: an error, a warning with `allow_lossy`.

        Args:
            at: The field.
            message: Why not, and the nearest thing that we offer.
        """
        severity = Severity.WARNING if self.allow_lossy else Severity.ERROR
        self._say(at, severity, f"cannot be carried over: {message}")

    def refuse(self, at: At, message: str) -> None:
        """Says that a document contradicts itself or its own system's rules."""
        self._say(at, Severity.ERROR, message)

    def warn(self, at: At, message: str) -> None:
        """Says that something legal is probably wrong."""
        self._say(at, Severity.WARNING, message)

    def note(self, at: At, message: str) -> None:
        """Says something worth knowing about a field, which is thereby read."""
        self._say(at, Severity.INFO, message)

    def add(self, document: Given, findings: Iterable[tuple[Path, Finding]]) -> None:
        """Takes over findings that were made elsewhere, each with its place."""
        self._findings += [(document.at(*path), finding) for path, finding in findings]

    def _say(self, at: At, severity: Severity, message: str) -> None:
        self._findings.append((at, Finding("", severity, parse_path(written(at)), message)))

    def conversion(self) -> Conversion:
        """Closes the book: every field that nothing was said about is an error."""
        said = self._seen | {at for at, _ in self._findings}
        for document in self.documents:
            if document.at() in said:
                continue
            for leaf in document.leaves():
                if not any(At(document, leaf.path[:n]) in said for n in range(len(leaf.path) + 1)):
                    self.lost(leaf, "nothing reads it; remove it")
        services = [each.finished() for each in self._services]
        self._say_unused({label for each in services for label in each.origins.labels})
        order = {document: index for index, document in enumerate(self.documents)}
        found = sorted(self._findings, key=lambda each: order[each[0].document])
        located: list[Located] = [(at.document.label, finding) for at, finding in found]
        services.sort(key=lambda each: order[each.main])
        return Conversion(tuple(services), tuple(located))

    def _say_unused(self, made: Collection[str]) -> None:
        """Warns of documents that no service has anything of: infos are shown with services."""
        told = {at.document for at, each in self._findings if each.severity is not Severity.INFO}
        for document in self.documents:
            if document.label not in made and document not in told:
                self.warn(document.at(), "says nothing about any service of this input; left out")


class Carrier:
    """One service that is being built.

    Args:
        book: The book of its documents.
        main: The document that it stands for.
    """

    def __init__(self, book: Book, main: Given) -> None:
        self.book = book
        self.main = main
        self._manifest: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {},
            "spec": {"roles": []},
        }
        self._origins: dict[str, Origin] = {}
        self._used: set[str] = set()
        book.read(main.at("apiVersion"), main.at("kind"))

    @property
    def roles(self) -> list[dict[str, Any]]:
        """The roles so far."""
        roles: list[dict[str, Any]] = self._manifest["spec"]["roles"]
        return roles

    def role(self, at: At) -> Path:
        """Adds a role that stands for a place; returns its path."""
        self.roles.append({})
        target: Path = ("spec", "roles", len(self.roles) - 1)
        self._origins[_key(target)] = Origin(at, whole=False)
        return target

    def put(self, target: Path, value: Any, at: At) -> None:
        """Carries a value over as it is.

        Args:
            target: Where it stands in our manifest.
            value: The value.
            at: Where it came from.
        """
        self._set(target, value)
        self._origins[_key(target)] = Origin(at, whole=True)
        self.book.read(at)

    def derive(self, target: Path, value: Any, at: At, *more: At) -> None:
        """Sets a value that follows from fields of the documents, which are thereby read.

        Args:
            target: Where it stands in our manifest.
            value: The value.
            at: The field that it follows from first of all.
            more: Other fields that it follows from.
        """
        self._set(target, value)
        self._origins[_key(target)] = Origin(at, whole=False)
        self.book.read(at, *more)

    def imply(self, target: Path, value: Any, at: At) -> None:
        """Sets a value that the other system has without anybody writing it.

        Args:
            target: Where it stands in our manifest.
            value: The value.
            at: The place that findings about it should name; it is not thereby read.
        """
        self._set(target, value)
        self._origins[_key(target)] = Origin(at, whole=False)

    def origin(self, target: Path, at: At, *, whole: bool = False) -> None:
        """Says where a part of a value that was set came from."""
        self._origins[_key(target)] = Origin(at, whole=whole)

    def uses(self, document: Given) -> None:
        """Says that a document says something about the service, if only what others overrule."""
        self._used.add(document.label)

    def held(self, target: Path) -> Any:
        """What our manifest holds at a place, None when nothing."""
        value: Any = self._manifest
        for part in target:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def finished(self) -> Service:
        """The service as it is now."""
        origins = Origins(self.main.label, dict(self._origins), frozenset(self._used))
        return Service(self.main, self._manifest, origins)

    def _set(self, target: Path, value: Any) -> None:
        holder: Any = self._manifest
        for part, following in itertools.pairwise(target):
            fresh: Any = [] if isinstance(following, int) else {}
            if isinstance(part, int):
                while len(holder) <= part:
                    holder.append({})
                holder = holder[part]
            else:
                holder = holder.setdefault(part, fresh)
        last = target[-1]
        if isinstance(last, int):
            while len(holder) <= last:
                holder.append(None)
        holder[last] = value


def _key(target: Path) -> str:
    return join(*(target[1:] if target[:1] == ("spec",) and len(target) > 1 else target))
