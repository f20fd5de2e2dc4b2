"""Builds services from source manifests, and keeps track of every source field.

A converter handles each field of a document: `copy` (unchanged), `derive` (another value follows
from it), `consume` (nothing to do), or `unsupported`. A field that no call handled is reported as
unsupported when the conversion finishes, so that no field is dropped silently.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_importers.rules import (
    DEFAULT_CHOSEN,
    DOCUMENT_UNUSED,
    FIELD_INVALID,
    FIELD_LEFT_OUT,
    FIELD_TRANSLATED,
    FIELD_UNSUPPORTED,
)
from fusioninfer_pulumi.plugins.importers import (
    API_VERSION,
    KIND,
    Conversion,
    ConvertedService,
    FieldOrigin,
    Finding,
    Location,
    Origin,
    Origins,
    Rule,
    Severity,
    SourceDocument,
    SourceField,
    error,
    find_closest,
    info,
    warning,
)


def walk_leaves(field: SourceField, value: Any) -> Iterator[SourceField]:
    """Yield the field of every scalar, empty mapping and empty list in a value, except nulls."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from walk_leaves(field / key, item)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from walk_leaves(field / index, item)
    elif value is not None:
        yield field


def filter_kind(documents: Iterable[SourceDocument], kind: str) -> list[SourceDocument]:
    """Return the documents of a kind."""
    return [document for document in documents if document.kind == kind]


class ConversionReport:
    """Collects findings and services while documents are converted.

    Args:
        documents: The documents of one input.
        allow_lossy: Whether an unsupported field is a warning instead of an error.
    """

    def __init__(self, documents: Sequence[SourceDocument], *, allow_lossy: bool) -> None:
        self.documents = documents
        self.allow_lossy = allow_lossy
        self._findings: list[tuple[SourceDocument, Finding]] = []
        self._consumed: set[SourceField] = set()
        self._builders: list[ServiceBuilder] = []

    def add_service(self, main: SourceDocument) -> ServiceBuilder:
        """Start the service that a document becomes."""
        builder = ServiceBuilder(self, main)
        self._builders.append(builder)
        return builder

    def consume(self, *fields: SourceField) -> None:
        """Mark fields as handled without a finding."""
        self._consumed.update(fields)

    def is_consumed(self, field: SourceField) -> bool:
        """Return whether a field itself was used or reported; its parents do not count."""
        return field in self._consumed

    def unsupported(self, field: SourceField, message: str, rule: Rule = FIELD_UNSUPPORTED) -> None:
        """Report a field without a counterpart: an error unless losses are allowed.

        Args:
            field: The field.
            message: The reason, and the closest feature that we support.
            rule: A more specific rule, for which losses may be allowed as well.
        """
        make_finding = warning if self.allow_lossy else error
        self.add(field, make_finding(rule, field.location, f"cannot be carried over: {message}"))

    def invalid(self, field: SourceField, message: str) -> None:
        """Report a field that breaks a rule of the source system."""
        self.error(FIELD_INVALID, field, message)

    def left_out(self, field: SourceField, message: str) -> None:
        """Report a field that is left out because it has no effect."""
        self.info(FIELD_LEFT_OUT, field, message)

    def translated(self, field: SourceField, message: str) -> None:
        """Report a field that becomes another one with the same effect."""
        self.info(FIELD_TRANSLATED, field, message)

    def chosen(self, field: SourceField, message: str) -> None:
        """Report a value that the conversion chooses; `field` is not consumed."""
        self._findings.append((field.document, info(DEFAULT_CHOSEN, field.location, message)))

    def error(self, rule: Rule, field: SourceField, message: str) -> None:
        """Report an error in a field."""
        self.add(field, error(rule, field.location, message))

    def warning(self, rule: Rule, field: SourceField, message: str) -> None:
        """Report a valid field that is probably wrong."""
        self.add(field, warning(rule, field.location, message))

    def info(self, rule: Rule, field: SourceField, message: str) -> None:
        """Report how a field is converted."""
        self.add(field, info(rule, field.location, message))

    def add(self, field: SourceField, finding: Finding) -> None:
        """Add a finding about a field, and consume the field."""
        self._consumed.add(field)
        self._findings.append((field.document, finding))

    def finish(self) -> Conversion:
        """End the conversion: every field that was not consumed is unsupported."""
        for document in self.documents:
            self._report_unconsumed(document)
        services = [builder.build() for builder in self._builders]
        self._report_unused(
            {origin for service in services for origin in service.origins.documents}
        )
        order = {document: index for index, document in enumerate(self.documents)}
        services.sort(key=lambda service: order[service.main])
        self._findings.sort(key=lambda item: order[item[0]])
        findings = [(document.origin, finding) for document, finding in self._findings]
        return Conversion(tuple(services), tuple(findings))

    def _report_unconsumed(self, document: SourceDocument) -> None:
        if document.at() in self._consumed:
            return
        for leaf in walk_leaves(document.at(), document.raw):
            parents = (SourceField(document, leaf.path[:end]) for end in range(len(leaf.path) + 1))
            if not any(field in self._consumed for field in parents):
                self.unsupported(leaf, "is not supported; remove it")

    def _report_unused(self, used: Collection[Origin]) -> None:
        """Warn of documents without any effect that have no other warning or error.

        Infos do not count, because they are shown only with services.
        """
        reported = {
            document
            for document, finding in self._findings
            if finding.severity is not Severity.INFO
        }
        for document in self.documents:
            if document.origin not in used and document not in reported:
                self.warning(
                    DOCUMENT_UNUSED,
                    document.at(),
                    "has no effect on any service of this input; ignored",
                )


class ServiceBuilder:
    """Builds one service.

    Args:
        report: The report of the conversion.
        main: The document that becomes the service.
    """

    def __init__(self, report: ConversionReport, main: SourceDocument) -> None:
        self.report = report
        self.main = main
        self._manifest: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {},
            "spec": {"roles": []},
        }
        self._origins: dict[Location, FieldOrigin] = {}
        self._sources: set[Origin] = set()
        report.consume(main.at("apiVersion"), main.at("kind"))

    @property
    def roles(self) -> list[dict[str, Any]]:
        """The roles so far."""
        roles: list[dict[str, Any]] = self._manifest["spec"]["roles"]
        return roles

    def add_role(
        self, field: SourceField, name: str | None = None, component_type: str | None = None
    ) -> Location:
        """Add a role that a field becomes; return the role's path in our manifest."""
        self.roles.append({})
        target: Location = ("spec", "roles", len(self.roles) - 1)
        self.set_origin(target, field)
        for key, value in (("name", name), ("componentType", component_type)):
            if value is not None:
                self.default((*target, key), value, field)
        return target

    def copy(self, target: Location, value: Any, field: SourceField) -> None:
        """Set a field of our manifest to the value of a source field."""
        self._set(target, value)
        self.set_origin(target, field, copied=True)
        self.report.consume(field)

    def copy_fields(self, target: Location, source_field: SourceField, *keys: str) -> None:
        """Copy the nested fields that are set."""
        for key in keys:
            field = source_field / key
            if field.value is not None:
                self.copy((*target, key), field.value, field)

    def derive(
        self, target: Location, value: Any, field: SourceField, *fields: SourceField
    ) -> None:
        """Set a field of our manifest to a value that follows from other fields.

        Args:
            target: The field of our manifest.
            value: The value.
            field: The field that findings about the value name.
            fields: Other fields that the value follows from.
        """
        self._set(target, value)
        self.set_origin(target, field)
        self.report.consume(field, *fields)

    def default(self, target: Location, value: Any, field: SourceField) -> None:
        """Set a field of our manifest to a value that no source field has.

        Args:
            target: The field of our manifest.
            value: The value.
            field: The field that findings about the value name; it is not consumed.
        """
        self._set(target, value)
        self.set_origin(target, field)

    def set_origin(self, target: Location, field: SourceField, *, copied: bool = False) -> None:
        """Set the source field that findings about a field of our manifest name."""
        self._origins[_strip_spec(target)] = FieldOrigin(field, copied)

    def add_source(self, document: SourceDocument) -> None:
        """Record that the service depends on a document, even if others override its values."""
        self._sources.add(document.origin)

    def get(self, target: Location) -> Any:
        """Return the value of a field of our manifest, or None if it is not set."""
        value: Any = self._manifest
        for part in target:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def remove(self, target: Location) -> SourceField:
        """Remove a field of our manifest and parents that are then empty; return its origin."""
        parents: list[Any] = [self._manifest]
        for part in target[:-1]:
            # Nested values may belong to the source document, which must not change.
            parents[-1][part] = copy.copy(parents[-1][part])
            parents.append(parents[-1][part])
        del parents[-1][target[-1]]
        for parent, part in zip(reversed(parents[:-1]), reversed(target[:-1]), strict=True):
            if not parent[part]:
                del parent[part]
        return self._find_origin(target)

    def _find_origin(self, target: Location) -> SourceField:
        """Return the source field of a field of our manifest."""
        closest = find_closest(self._origins, _strip_spec(target))
        return self.main.at() if closest is None else closest[0].extend(closest[1])

    def build(self) -> ConvertedService:
        """Return the service with the fields set so far."""
        origins = Origins(self.main.origin, dict(self._origins), frozenset(self._sources))
        return ConvertedService(self.main, self._manifest, origins)

    def _set(self, target: Location, value: Any) -> None:
        parent: Any = self._manifest
        for part, following in itertools.pairwise(target):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(part, int):
                while len(parent) <= part:
                    parent.append({})
                parent = parent[part]
            else:
                parent = parent.setdefault(part, empty)
        last = target[-1]
        if isinstance(last, int):
            while len(parent) <= last:
                parent.append(None)
        parent[last] = value


def _strip_spec(target: Location) -> Location:
    """Return a location in our manifest without `spec`, as findings name it."""
    return target[1:] if target[:1] == ("spec",) and len(target) > 1 else target
