"""Importers, which convert manifests of other systems. They are in separate packages."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from fusioninfer_pulumi.extras import plugins
from fusioninfer_pulumi.findings import Finding, Origin
from fusioninfer_pulumi.loading.source_document import Origins, SourceDocument

#: Group of the entry points of importers.
GROUP = "fusioninfer.importers"
#: API version, kind, namespace and name of an object.
ObjectKey = tuple[Any, Any, Any, Any]


class ConvertedService(NamedTuple):
    """A service that was converted from documents of another system.

    Attributes:
        main: The document that became the service.
        manifest: The InferenceService manifest, not yet validated.
        origins: Where the manifest's fields come from.
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
    """A system whose manifests can be converted.

    Attributes:
        name: Name of the system in messages.
        module: Module with `convert(documents, allow_lossy=...) -> Conversion`; imported only if an
            input has documents of these kinds.
        services: Kinds that become a service, each with its supported API versions.
        companions: Kinds that configure a service of the same input.
        platform: Kinds that configure the cluster, not a service.
        words: By rule, a message in the system's terms that replaces the message of a finding about
            a converted service.
    """

    name: str
    module: str
    services: Mapping[str, tuple[str, ...]]
    companions: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    platform: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    words: Mapping[str, str] = MappingProxyType({})

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """All kinds that it converts, each with its API versions."""
        return {**self.services, **self.companions}

    @property
    def groups(self) -> frozenset[str]:
        """The API groups of its kinds."""
        versions = itertools.chain(*self.kinds.values(), *self.platform.values())
        return frozenset(version.partition("/")[0] for version in versions)

    def convert(self, documents: Sequence[SourceDocument], *, allow_lossy: bool) -> Conversion:
        """Convert the documents of one input."""
        conversion: Conversion = self._converter.convert(documents, allow_lossy=allow_lossy)
        return conversion

    def named(self, documents: Sequence[SourceDocument]) -> frozenset[ObjectKey]:
        """Return other objects that the documents name and it converts, such as ConfigMaps.

        Calls the module's optional function `named(documents)`.
        """
        named = getattr(self._converter, "named", None)
        return frozenset() if named is None else named(documents)

    def selects(self, documents: Sequence[SourceDocument], raw: Mapping[str, Any]) -> bool:
        """Return whether the documents select another object by labels, and it converts that.

        Calls the module's optional function `selects(documents, raw)`.
        """
        selects = getattr(self._converter, "selects", None)
        return selects is not None and bool(selects(documents, raw))

    @property
    def _converter(self) -> Any:
        return importlib.import_module(self.module)


@cache
def importers() -> tuple[Importer, ...]:
    """Return the installed importers, sorted by the names of their entry points."""
    return tuple(importer for _, importer in plugins(GROUP))


def find_importer(raw: Any, *, platform: bool = False) -> Importer | None:
    """Return the importer of a document's kind, or with `platform` of a platform kind."""
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    if not isinstance(kind, str):
        return None
    version = raw.get("apiVersion")
    for importer in importers():
        kinds = importer.platform if platform else importer.kinds
        if version in kinds.get(kind, ()):
            return importer
    return None
