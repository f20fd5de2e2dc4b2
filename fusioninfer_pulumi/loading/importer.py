"""Interface of importers, which are in companion packages, and the documents they convert."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from fusioninfer_pulumi.extras import load_plugins
from fusioninfer_pulumi.findings import Finding, Location, Origin, find_closest
from fusioninfer_pulumi.kube.pulumi_outputs import is_output


@dataclass(frozen=True, eq=False)
class SourceDocument:
    """One document of the input.

    Attributes:
        origin: File of the document, and its position in the file.
        raw: The parsed document.
    """

    origin: Origin
    raw: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Kind of the document."""
        return str(self.raw["kind"])

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of the document, or empty if it has none."""
        metadata = self.raw.get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}

    @property
    def name(self) -> Any:
        """Name of the document, or None if it is neither a string nor an Output."""
        return _get_name(self.metadata.get("name"))

    @property
    def namespace(self) -> Any:
        """Namespace of the document, or `default` if it is neither a string nor an Output."""
        return _get_name(self.metadata.get("namespace")) or "default"

    def at(self, *path: str | int) -> SourceField:
        """Return the field at a path from the document's root."""
        return SourceField(self, path)


class SourceField(NamedTuple):
    """A field of a document: `document.at("spec") / "roles" / 0`.

    Attributes:
        document: The document.
        path: Keys and list indexes from its root.
    """

    document: SourceDocument
    path: Location

    def __truediv__(self, part: str | int) -> SourceField:
        return SourceField(self.document, (*self.path, part))

    @property
    def location(self) -> Location:
        """Location of the field in findings, without a leading `spec`."""
        is_below_spec = len(self.path) > 1 and self.path[0] == "spec"
        path = self.path[1:] if is_below_spec else self.path
        # Keys of YAML may also be null or floats.
        return tuple(part if isinstance(part, (str, int)) else str(part) for part in path)

    @property
    def value(self) -> Any:
        """Value of the field, or None if it is not set."""
        value: Any = self.document.raw
        for part in self.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        return value


def _get_name(value: Any) -> Any:
    """Return a name or namespace, or None if it is neither a string nor an Output."""
    return value if isinstance(value, str) or is_output(value) else None


class FieldOrigin(NamedTuple):
    """The field of the source from which a field of the service was converted.

    Attributes:
        field: The field of the source.
        copied: Whether the service's field is a copy of this field, with all its subfields.
    """

    field: SourceField
    copied: bool

    def extend(self, subfield: Location) -> SourceField:
        """Return the source of a subfield: the same subfield if `copied`, otherwise `field`."""
        path = (*self.field.path, *subfield) if self.copied else self.field.path
        return SourceField(self.field.document, path)


class Origins(NamedTuple):
    """Maps the fields of a converted service to the fields of its source documents.

    Attributes:
        main: The document that became the service.
        fields: The source of each field of the service, keyed by the location of the service's
            field in findings.
        sources: Other documents that the service depends on.
    """

    main: Origin
    fields: Mapping[Location, FieldOrigin]
    sources: frozenset[Origin] = frozenset()

    @property
    def documents(self) -> frozenset[Origin]:
        """All documents from which the service was converted."""
        fields = (origin.field.document.origin for origin in self.fields.values())
        return frozenset({self.main, *self.sources, *fields})

    def locate(self, finding: Finding) -> tuple[Origin, Finding]:
        """Move a finding about the service to its source document.

        Returns:
            The document, and the finding at the document's field. If the service's field has no
            source, the finding is at the source of the field's closest parent, or else at the root
            of `main`. In both cases `finding.converted` is the service's field.
        """
        location = finding.location
        closest = find_closest(self.fields, location)
        if closest is None:
            return self.main, replace(finding, location=(), converted=location)
        field_origin, rest = closest
        field = field_origin.extend(rest)
        converted = location if rest and not field_origin.copied else ()
        moved = replace(finding, location=field.location, converted=converted)
        return field.document.origin, moved


class ConvertedService(NamedTuple):
    """A service that was converted from documents of another system.

    Attributes:
        main: The document that became the service.
        manifest: The InferenceService manifest, not yet validated.
        origins: Maps the manifest's fields to fields of the source documents.
    """

    main: SourceDocument
    manifest: Mapping[str, Any]
    origins: Origins


class Conversion(NamedTuple):
    """The result of converting documents.

    Attributes:
        services: The services in the order of their documents.
        findings: Findings at fields of the documents, each with the origin of its document.
    """

    services: tuple[ConvertedService, ...]
    findings: tuple[tuple[Origin, Finding], ...]


class Importer(NamedTuple):
    """Converts the manifests of one system.

    Attributes:
        name: Name of the system in messages.
        module: Module with `convert(documents, allow_lossy=...) -> Conversion`; imported only if an
            input has documents of these kinds.
        services: Kinds that become a service, each with its supported API versions.
        companions: Kinds that configure a service of the same input, with their API versions.
        words: Messages in the system's terms, keyed by rule id. They replace the messages of
            findings about converted services.
    """

    name: str
    module: str
    services: Mapping[str, tuple[str, ...]]
    companions: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    words: Mapping[str, str] = MappingProxyType({})

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """All kinds that the importer converts, each with its API versions."""
        return {**self.services, **self.companions}

    @property
    def groups(self) -> frozenset[str]:
        """The API groups of the importer's kinds."""
        versions = itertools.chain(*self.kinds.values())
        return frozenset(version.partition("/")[0] for version in versions)

    def convert(self, documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
        """Convert the documents of one input."""
        conversion: Conversion = self._converter.convert(documents, allow_lossy=allow_lossy)
        return conversion

    def find_referenced(
        self, documents: Sequence[SourceDocument], others: Sequence[SourceDocument]
    ) -> Sequence[SourceDocument]:
        """Return other objects, such as ConfigMaps, that `documents` name or select.

        These objects are also passed to `convert`. Calls the module's `find_referenced`, if it has
        one.
        """
        find = getattr(self._converter, "find_referenced", None)
        return () if find is None else find(documents, others)

    @property
    def _converter(self) -> Any:
        return importlib.import_module(self.module)


@cache
def importers() -> tuple[Importer, ...]:
    """Return the installed importers, sorted by the names of their entry points."""
    return tuple(load_plugins("fusioninfer.importers"))
