"""Loads documents: validates InferenceServices, and passes other kinds to importers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.service import API_VERSION, KIND, InferenceServiceArgs
from fusioninfer_pulumi.extras import IMPORTED_API_GROUPS, install_command
from fusioninfer_pulumi.findings import (
    Finding,
    Origin,
    Rule,
    error,
    filter_errors,
    quote_value,
    warning,
)
from fusioninfer_pulumi.loading.importer import Importer, Origins, SourceDocument, importers
from fusioninfer_pulumi.loading.model_config import (
    ModelConfigError,
    load_model_config,
    model_config_finding,
)
from fusioninfer_pulumi.loading.validate import NO_SERVICE, WRONG_KIND, Validated, validate_document
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rules.common import FIELD_REQUIRED, WRONG_TYPE

IMPORTER_MISSING = Rule("importer-missing")


class LoadedDocument(NamedTuple):
    """A document of an input, or several documents that an importer merged into one service.

    Attributes:
        origin: File of the document, and its position in the file.
        loading_findings: Findings of loading, each with the origin of its document.
        args: The service. None if it is invalid, if the document is not a service, or if a Pulumi
            program created the service, which then has only a plan.
        manifest: The InferenceService manifest, even an invalid one. None if the document is not a
            service, or if a Pulumi program created the service.
        translate: Moves a finding about the service to its source document; None if the service
            was not converted.
        plan: The plan of the service, or None before planning.
    """

    origin: Origin
    loading_findings: tuple[tuple[Origin, Finding], ...] = ()
    args: InferenceServiceArgs | None = None
    manifest: Mapping[str, Any] | None = None
    translate: Callable[[Finding], tuple[Origin, Finding]] | None = None
    plan: ServicePlan | None = None

    @property
    def findings(self) -> tuple[tuple[Origin, Finding], ...]:
        """All findings of loading and of the plan, at the fields of the source document."""
        plan_findings = () if self.plan is None else self.plan.findings
        return (*self.loading_findings, *self._locate(plan_findings))

    @property
    def has_errors(self) -> bool:
        """Whether any of the findings is an error."""
        return bool(filter_errors(finding for _, finding in self.findings))

    def with_result(self, validated: Validated) -> LoadedDocument:
        """Return a copy with the result of validation."""
        args, findings = validated
        loading_findings = (*self.loading_findings, *self._locate(findings))
        return self._replace(args=args, loading_findings=loading_findings)

    def with_findings(self, *findings: Finding) -> LoadedDocument:
        """Return a copy of a planned document with additional findings about its service."""
        assert self.plan is not None, "the caller has checked it"
        plan = replace(self.plan, findings=(*self.plan.findings, *findings))
        return self._replace(plan=plan)

    def filter_findings(self, is_kept: Callable[[Finding], bool]) -> LoadedDocument:
        """Return a copy with only the findings for which `is_kept` is true."""
        plan = self.plan
        if plan is not None:
            plan = replace(plan, findings=tuple(filter(is_kept, plan.findings)))
        kept = tuple(
            (origin, finding) for origin, finding in self.loading_findings if is_kept(finding)
        )
        return self._replace(loading_findings=kept, plan=plan)

    def _locate(self, findings: Iterable[Finding]) -> Iterable[tuple[Origin, Finding]]:
        if self.translate is None:
            return ((self.origin, finding) for finding in findings)
        return map(self.translate, findings)


def make_document_without_service(origin: Origin, finding: Finding) -> LoadedDocument:
    """Return the result for a document that has a finding but no service."""
    return LoadedDocument(origin, ((origin, finding),))


def split_list(
    file: str, number: int, raw: Any
) -> tuple[list[tuple[Origin, Any]], list[LoadedDocument]]:
    """Return the items of a `List` and its errors; a document of another kind is the only item."""
    origin = Origin(file, number)
    if not isinstance(raw, Mapping) or raw.get("kind") != "List":
        return [(origin, raw)], []
    items = raw.get("items")
    if not isinstance(items, list):
        finding = error(WRONG_TYPE, ("items",), f"must be a list, got {quote_value(items)}")
        return [], [make_document_without_service(origin, finding)]
    if not items:
        finding = error(FIELD_REQUIRED, ("items",), "must not be empty")
        return [], [make_document_without_service(origin, finding)]
    return [(Origin(file, number, index), item) for index, item in enumerate(items)], []


def load_documents(
    documents: Sequence[tuple[Origin, Any]],
    *,
    allow_lossy: bool = False,
    in_directories: Collection[Origin] = frozenset(),
) -> list[LoadedDocument]:
    """Load the documents of one input, which may refer to each other.

    Returns the services, and the documents that have findings but no service, in input order.

    Args:
        documents: The documents with their origins.
        allow_lossy: Whether to ignore, with a warning, fields that cannot be converted, and
            objects of other kinds in an input that has a service.
        in_directories: Origins of documents that were found in directories, where objects that
            neither this library nor an importer loads are always ignored.
    """
    assigned = _assign_referenced(documents, [_find_importer(raw) for _, raw in documents])
    order = {origin: position for position, (origin, _) in enumerate(documents)}
    has_service = any(assigned) or any(_is_inference_service(raw) for _, raw in documents)
    loaded = [
        _load_document(
            origin,
            raw,
            ignore_others=has_service and allow_lossy,
            in_directory=origin in in_directories,
        )
        for (origin, raw), importer in zip(documents, assigned, strict=True)
        if importer is None
    ]
    for importer, importer_documents in _group_by_importer(documents, assigned):
        loaded += _convert(importer, importer_documents, allow_lossy=allow_lossy)
    return sorted(loaded, key=lambda document: order[document.origin])


def _find_importer(raw: Any) -> Importer | None:
    """Return the importer that converts a document's kind and API version, or None."""
    # Loading the importers takes time, and an InferenceService needs none.
    if not isinstance(raw, Mapping) or _is_inference_service(raw):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if not isinstance(kind, str) or version == API_VERSION:
        return None
    for importer in importers():
        if version in importer.kinds.get(kind, ()):
            return importer
    return None


def _group_by_importer(
    documents: Sequence[tuple[Origin, Any]], assigned: Sequence[Importer | None]
) -> Iterator[tuple[Importer, list[SourceDocument]]]:
    for importer in importers() if any(assigned) else ():
        group = [
            SourceDocument(origin, raw)
            for (origin, raw), document_importer in zip(documents, assigned, strict=True)
            if document_importer is importer
        ]
        if group:
            yield importer, group


def _assign_referenced(
    documents: Sequence[tuple[Origin, Any]], assigned: Sequence[Importer | None]
) -> list[Importer | None]:
    """Assign to each importer the objects that its documents name or select.

    Repeats until nothing changes, because an added object, such as a ServiceAccount, may name
    other objects.
    """
    others = [
        SourceDocument(origin, raw)
        for (origin, raw), importer in zip(documents, assigned, strict=True)
        if importer is None and _is_other_object(raw)
    ]
    importer_by_object: dict[Origin, Importer] = {}
    for importer, group in _group_by_importer(documents, assigned):
        for document in importer.find_referenced(group, others):
            importer_by_object[document.origin] = importer
    extended = [
        importer or importer_by_object.get(origin)
        for (origin, _), importer in zip(documents, assigned, strict=True)
    ]
    return extended if extended == list(assigned) else _assign_referenced(documents, extended)


def is_loaded_kind(raw: Any) -> bool:
    """Return whether a document belongs to this library or to an importer, even a missing one."""
    return _is_inference_service(raw) or _find_importer(raw) is not None or _lacks_importer(raw)


def _convert(
    importer: Importer, documents: Sequence[SourceDocument], *, allow_lossy: bool
) -> list[LoadedDocument]:
    conversion = importer.convert(documents, allow_lossy=allow_lossy)
    findings = list(conversion.findings)
    loaded = []
    for service in conversion.services:
        origins = service.origins.documents
        document = LoadedDocument(
            service.main.origin,
            tuple((origin, finding) for origin, finding in findings if origin in origins),
            manifest=service.manifest,
            translate=partial(_translate, importer, service.origins),
        )
        loaded.append(document.with_result(validate_document(service.manifest)))
        findings = [(origin, finding) for origin, finding in findings if origin not in origins]
    # The remaining findings are about documents that belong to no service.
    for source in documents:
        located = tuple(
            (origin, finding) for origin, finding in findings if origin == source.origin
        )
        if located:
            loaded.append(LoadedDocument(source.origin, located))
    return loaded


def _translate(importer: Importer, origins: Origins, finding: Finding) -> tuple[Origin, Finding]:
    """Move a finding to the source document; the importer may replace its message."""
    origin, moved = origins.locate(finding)
    message = importer.words.get(finding.rule)
    if message is not None:
        moved = replace(moved, message=message, converted=())
    return origin, moved


def _load_document(
    origin: Origin, raw: Any, *, ignore_others: bool, in_directory: bool
) -> LoadedDocument:
    """Load a document that no importer converts: a service, or an object to ignore or reject."""
    if _lacks_importer(raw):
        version, command = quote_value(raw["apiVersion"]), install_command("importers")
        message = f"{version} needs an importer that is not installed; run {command}"
        return make_document_without_service(
            origin, error(IMPORTER_MISSING, ("apiVersion",), message)
        )
    wrong_version = _find_wrong_version(raw)
    is_other = _is_other_object(raw)
    # A kind that an importer loads, but in another version, is ignored only by `--allow-lossy`.
    if is_other and (ignore_others or (in_directory and wrong_version is None)):
        message = f"{raw['kind']} is not an InferenceService and is ignored; apply it separately"
        return make_document_without_service(origin, warning(NO_SERVICE, ("kind",), message))
    if wrong_version is not None:
        return make_document_without_service(origin, wrong_version)
    # `validate_document` rejects a nested List and unknown kinds of our own API.
    if is_other and raw["kind"] != "List" and raw["apiVersion"] != API_VERSION:
        systems = ", ".join(importer.name for importer in importers())
        message = (
            f"{raw['kind']} ({raw['apiVersion']}) is not an InferenceService or one of the kinds "
            f"of {systems}; remove it and apply it separately, or ignore it with --allow-lossy"
        )
        return make_document_without_service(origin, error(WRONG_KIND, ("kind",), message))
    args, findings = validate_document(raw)
    try:
        args = None if args is None else load_model_config(args, origin.file)
    except ModelConfigError as exc:
        args, findings = None, [model_config_finding(exc)]
    return LoadedDocument(origin, manifest=raw).with_result((args, findings))


def _lacks_importer(raw: Any) -> bool:
    """Return whether fusioninfer-importers would convert a document, but is not installed."""
    group = _get_group(raw.get("apiVersion")) if isinstance(raw, Mapping) else ""
    return group in IMPORTED_API_GROUPS and all(
        group not in importer.groups for importer in importers()
    )


def _is_inference_service(raw: Any) -> bool:
    if not isinstance(raw, Mapping) or raw.get("kind") != KIND:
        return False
    # KServe has an older kind of the same name.
    return _get_group(raw.get("apiVersion")) not in IMPORTED_API_GROUPS


def _get_group(version: Any) -> str:
    return version.partition("/")[0] if isinstance(version, str) else ""


def _is_other_object(raw: Any) -> bool:
    """Return whether a document is a Kubernetes object that is not an InferenceService."""
    return (
        isinstance(raw, Mapping)
        and not _is_inference_service(raw)
        and all(isinstance(raw.get(key), str) for key in ("apiVersion", "kind"))
        and isinstance(raw.get("metadata"), Mapping)
    )


def _find_wrong_version(raw: Any) -> Finding | None:
    """Return an error if importers convert a document's kind, but none has taken the document.

    Then its apiVersion is one that they do not convert.
    """
    if not isinstance(raw, Mapping) or _is_inference_service(raw):
        return None
    kind, version = raw.get("kind"), raw.get("apiVersion")
    for importer in importers():
        if isinstance(kind, str) and kind in importer.kinds:
            allowed = " or ".join(importer.kinds[kind])
            return error(
                WRONG_KIND, ("apiVersion",), f"must be {allowed}, got {quote_value(version)}"
            )
    return None
