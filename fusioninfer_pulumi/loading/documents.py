"""The documents of an input: validated here, or converted by the importer of their kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fusioninfer_pulumi.api.service import API_VERSION, KIND
from fusioninfer_pulumi.extras import IMPORTED_GROUPS, install_command
from fusioninfer_pulumi.findings import Finding, Origin, Rule, error, show, warning
from fusioninfer_pulumi.loading.importer import Importer, find_importer, importers
from fusioninfer_pulumi.loading.model_config import with_model_config
from fusioninfer_pulumi.loading.source_document import Origins, SourceDocument
from fusioninfer_pulumi.loading.validate import NO_SERVICE, WRONG_KIND, Document, validate_document
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, WRONG_TYPE

IMPORTER_MISSING = Rule("importer-missing")


@dataclass(frozen=True)
class LoadedDocument:
    """One document of an input, or the documents that together make a service.

    Attributes:
        origin: Its file, and the position in it.
        document: The validated service, with our locations; None if it is not a service.
        manifest: The service as an InferenceService manifest, None if it is not a service.
        remarks: Findings of the conversion from another system's manifest, each after the origin
            of its document.
        translate: Moves a finding of ours to the document that the user wrote.
    """

    origin: Origin
    document: Document | None = None
    manifest: Mapping[str, Any] | None = None
    remarks: tuple[tuple[Origin, Finding], ...] = ()
    translate: Callable[[Finding], tuple[Origin, Finding]] | None = None

    def locate(self, finding: Finding) -> tuple[Origin, Finding]:
        """The document that a finding about the service is about, and the finding in its paths."""
        return (self.origin, finding) if self.translate is None else self.translate(finding)

    @property
    def findings(self) -> tuple[tuple[Origin, Finding], ...]:
        """All findings of loading, without those of a plan."""
        document_findings = self.document.findings if self.document is not None else ()
        return (*self.remarks, *map(self.locate, document_findings))


def split_list(
    file: str, number: int, raw: Any
) -> tuple[list[tuple[Origin, Any]], LoadedDocument | None]:
    """Return a document of a file with its origin, or the items of a `List` that replace it.

    The list itself is returned if it is invalid.
    """
    origin = Origin(file, number)
    if not isinstance(raw, Mapping) or raw.get("kind") != "List":
        return [(origin, raw)], None
    entries = raw.get("items")
    items = [
        (Origin(file, number, index), item)
        for index, item in enumerate(entries if isinstance(entries, list) else ())
    ]
    problems = tuple(_list_findings(raw))
    return items, LoadedDocument(origin, Document(None, problems)) if problems else None


def _list_findings(raw: Mapping[str, Any]) -> Iterator[Finding]:
    if raw.get("apiVersion") != "v1":
        yield error(
            WRONG_KIND,
            ("apiVersion",),
            f"must be v1 for kind List, got {show(raw.get('apiVersion'))}",
        )
    items = raw.get("items")
    if not isinstance(items, list):
        yield error(WRONG_TYPE, ("items",), f"must be a list, got {show(items)}")
    elif not items:
        yield error(FIELD_REQUIRED, ("items",), "is empty: no manifest in it")


def load_documents(
    documents: Sequence[tuple[Origin, Any]],
    *,
    allow_lossy: bool = False,
    in_folders: Collection[Origin] = frozenset(),
) -> list[LoadedDocument]:
    """Load the documents of one input, each after its origin; they may refer to each other.

    Returns the services in the order of their documents, and the documents that are not services.
    With `allow_lossy` a field that cannot be converted is a warning instead of an error.
    `in_folders` are the documents from folders: other objects among them are ignored, with a
    warning.
    """
    owners = _add_referenced(documents, [_find_owner(raw) for _, raw in documents])
    order = {origin: position for position, (origin, _) in enumerate(documents)}
    has_service = any(owners) or any(_is_inference_service(raw) for _, raw in documents)
    read = [
        _load_document(
            origin, raw, lossy=has_service and allow_lossy, in_folder=origin in in_folders
        )
        for (origin, raw), owner in zip(documents, owners, strict=True)
        if owner is None
    ]
    for importer, mine in _by_importer(documents, owners):
        read += _converted(importer, mine, allow_lossy=allow_lossy)
    return sorted(read, key=lambda document: order[document.origin])


def _find_owner(raw: Any) -> Importer | None:
    return find_importer(raw) if _is_of_other_system(raw) else None


def _is_of_other_system(raw: Any) -> bool:
    """Return whether an importer may convert a document; importers are loaded only then."""
    return (
        isinstance(raw, Mapping)
        and not _is_inference_service(raw)
        and raw.get("apiVersion") != API_VERSION
    )


def _by_importer(
    documents: Sequence[tuple[Origin, Any]], owners: Sequence[Importer | None]
) -> Iterator[tuple[Importer, list[SourceDocument]]]:
    """Each importer that has documents, with them."""
    for importer in importers() if any(owners) else ():
        mine = [
            SourceDocument(origin, raw)
            for (origin, raw), owner in zip(documents, owners, strict=True)
            if owner is importer
        ]
        if mine:
            yield importer, mine


def _add_referenced(
    documents: Sequence[tuple[Origin, Any]], owners: Sequence[Importer | None]
) -> list[Importer | None]:
    """Give objects that an importer's documents name or select to that importer.

    These may name further objects, as a ServiceAccount names Secrets.
    """
    importers_of_names: dict[Any, Importer] = {}
    conversions = list(_by_importer(documents, owners))
    for importer, mine in conversions:
        importers_of_names.update(dict.fromkeys(importer.named(mine), importer))

    def user(origin: Origin, raw: Any) -> Importer | None:
        if not conversions or not _is_other_object(raw):
            return None
        naming = importers_of_names.get(_key(origin, raw))
        selecting = (importer for importer, mine in conversions if importer.selects(mine, raw))
        return naming or next(selecting, None)

    extended = [
        user(*document) if owner is None else owner
        for document, owner in zip(documents, owners, strict=True)
    ]
    return extended if extended == list(owners) else _add_referenced(documents, extended)


def _key(origin: Origin, raw: Any) -> tuple[Any, ...]:
    document = SourceDocument(origin, raw)
    return (raw["apiVersion"], raw["kind"], document.namespace, document.name)


def is_loaded_kind(raw: Any) -> bool:
    """Whether a document is of a kind that is loaded, not any other object."""
    return _is_inference_service(raw) or _find_owner(raw) is not None or _lacks_importer(raw)


def _converted(
    importer: Importer, mine: Sequence[SourceDocument], *, allow_lossy: bool
) -> list[LoadedDocument]:
    conversion = importer.convert(mine, allow_lossy=allow_lossy)
    left = list(conversion.findings)
    read = []
    for service in conversion.services:
        documents = service.origins.documents
        read.append(
            LoadedDocument(
                service.main.origin,
                validate_document(service.manifest),
                service.manifest,
                tuple(located for located in left if located[0] in documents),
                partial(_locate, importer, service.origins),
            )
        )
        left = [located for located in left if located[0] not in documents]
    for document in mine:
        remarks = tuple(located for located in left if located[0] == document.origin)
        if remarks:
            read.append(LoadedDocument(document.origin, remarks=remarks))
    return read


def _locate(importer: Importer, origins: Origins, finding: Finding) -> tuple[Origin, Finding]:
    """Move a finding about a converted service to the user's document, in its system's terms."""
    origin, moved = origins.locate(finding)
    words = importer.words.get(finding.rule)
    return origin, moved if words is None else replace(moved, message=words, converted=())


def _load_document(origin: Origin, raw: Any, *, lossy: bool, in_folder: bool) -> LoadedDocument:
    if _lacks_importer(raw):
        text = "is read by an importer that is not installed"
        message = f"{show(raw['apiVersion'])} {text}: {install_command('importers')}"
        finding = error(IMPORTER_MISSING, ("apiVersion",), message)
        return LoadedDocument(origin, Document(None, (finding,)))
    hint = _unsupported_version(raw)
    platform = find_importer(raw, platform=True) if _is_of_other_system(raw) else None
    if _is_other_object(raw) and (lossy or (in_folder and (hint is None or platform))):
        why = "is not an InferenceService and is ignored; apply it separately"
        if platform is not None:
            why = f"is of {platform.name}'s platform and has no effect on a service; ignored"
        return LoadedDocument(
            origin, remarks=((origin, warning(NO_SERVICE, ("kind",), f"{raw['kind']} {why}")),)
        )
    is_other = _is_other_object(raw) and raw["kind"] != "List" and raw["apiVersion"] != API_VERSION
    if hint is None and is_other:
        systems = ", ".join(importer.name for importer in importers())
        message = (
            f"{raw['kind']} ({raw['apiVersion']}) is not an InferenceService or one of the kinds "
            f"of {systems}; remove it and apply it separately, or ignore it with --allow-lossy"
        )
        hint = error(WRONG_KIND, ("kind",), message)
    if hint is not None:
        return LoadedDocument(origin, Document(None, (hint,)))
    return LoadedDocument(origin, with_model_config(validate_document(raw), origin.file), raw)


def _lacks_importer(raw: Any) -> bool:
    """Whether the importer of a document is in a package that is not installed."""
    group = _group(raw.get("apiVersion")) if isinstance(raw, Mapping) else ""
    return group in IMPORTED_GROUPS and all(
        group not in importer.groups for importer in importers()
    )


def _is_inference_service(raw: Any) -> bool:
    if not isinstance(raw, Mapping) or raw.get("kind") != KIND:
        return False
    # KServe has an older kind of the same name.
    return _group(raw.get("apiVersion")) not in IMPORTED_GROUPS


def _group(version: Any) -> str:
    return version.partition("/")[0] if isinstance(version, str) else ""


def _is_other_object(raw: Any) -> bool:
    return (
        isinstance(raw, Mapping)
        and not _is_inference_service(raw)
        and all(isinstance(raw.get(key), str) for key in ("apiVersion", "kind"))
        and isinstance(raw.get("metadata"), Mapping)
    )


def _unsupported_version(raw: Any) -> Finding | None:
    """The error of a document whose kind or apiVersion alone is one of an importer's."""
    if not isinstance(raw, Mapping) or _is_inference_service(raw):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    for importer in importers():
        if isinstance(kind, str) and kind in importer.kinds:
            wanted = " or ".join(importer.kinds[kind])
            if version is None:
                return error(FIELD_REQUIRED, ("apiVersion",), f"is required, must be {wanted}")
            return error(WRONG_KIND, ("apiVersion",), f"must be {wanted}, got {show(version)}")
    return None
