"""Parses manifest files, and loads them together, because documents may refer to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND
from fusioninfer_pulumi.findings import Origin, Rule, error, info
from fusioninfer_pulumi.loading.documents import (
    LoadedDocument,
    load_documents,
    make_document_without_service,
    split_list,
)
from fusioninfer_pulumi.loading.validate import EMPTY_INPUT, NO_SERVICE
from fusioninfer_pulumi.loading.yaml_text import YamlTextError, parse_yaml

NO_SERVICE_IN_FOLDER = Rule("no-service-in-folder")

#: Suffixes of the files that are read in a directory; subdirectories are not read, like in
#: `kubectl apply -f`.
SUFFIXES = (".yaml", ".yml", ".json")
NO_MANIFESTS = "no manifest (*.yaml, *.yml, *.json) in this directory"


class ParsedText(NamedTuple):
    """A text with manifests, and its documents.

    Attributes:
        file: Path of the file for messages, or empty for a text that is not a file.
        content: YAML or JSON with one or several documents.
        directory: The directory that the user passed, or None if the user passed the file itself.
        manifests: Origin and content of each document that may be a manifest.
        skipped: Results without a service: errors of the text and its Lists, ignored documents.
        documents: Content of all documents (of a List, its items); None if the text has errors.
    """

    file: str
    content: str
    directory: str | None
    manifests: tuple[tuple[Origin, Any], ...]
    skipped: tuple[LoadedDocument, ...]
    documents: tuple[Any, ...] | None

    @property
    def identities(self) -> list[tuple[str, ...]]:
        """Kind, namespace and name of each manifest with metadata; a missing one is "None"."""
        identities = []
        for _, raw in self.manifests:
            metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
            if isinstance(metadata, Mapping):
                keys = (raw.get("kind"), metadata.get("namespace"), metadata.get("name"))
                identities.append(tuple(map(str, keys)))
        return identities


def list_manifest_files(directory: Path) -> list[Path]:
    """Return the files of a directory that may contain manifests, sorted by name.

    Raises:
        OSError: The directory cannot be read.
    """
    entries = sorted(directory.iterdir())
    return [path for path in entries if path.suffix.lower() in SUFFIXES and path.is_file()]


def parse(file: str, content: str, directory: str | None = None) -> ParsedText:
    """Parse a text; its errors become findings in `skipped`."""
    manifests: list[tuple[Origin, Any]] = []
    skipped: list[LoadedDocument] = []
    try:
        for number, raw in enumerate(parse_yaml(content), start=1):
            items, invalid = split_list(file, number, raw)
            manifests += items
            skipped += invalid
    except YamlTextError as exc:
        line = exc.line if file else None
        finding = error(exc.rule, (), str(exc))
        skipped.append(make_document_without_service(Origin(file, line=line), finding))
    if skipped:
        return ParsedText(file, content, directory, tuple(manifests), tuple(skipped), None)
    documents = tuple(raw for _, raw in manifests)
    if directory is None and not documents:
        finding = error(EMPTY_INPUT, (), "is empty; expected an InferenceService")
        skipped = [make_document_without_service(Origin(file), finding)]
    elif directory is not None and not any(map(_is_manifest, documents)):
        # A directory may contain other files, such as the values of a chart or an inventory.
        finding = info(NO_SERVICE, (), "ignored: contains no service manifest")
        origins = [origin for origin, _ in manifests]
        skipped = [make_document_without_service(origin, finding) for origin in origins[:1]]
        manifests = []
    return ParsedText(file, content, directory, tuple(manifests), tuple(skipped), documents)


def load_texts(parsed: Sequence[ParsedText], *, allow_lossy: bool = False) -> list[LoadedDocument]:
    """Load the documents of several texts as one input, so that they may refer to each other.

    Returns all documents in order, then the skipped ones of all texts. `allow_lossy`: see `load`. A
    file that is passed more than once is loaded once.
    """
    texts = list({text.file: text for text in parsed}.values())
    skipped = [document for text in texts for document in text.skipped]
    manifests = [manifest for text in texts for manifest in text.manifests]
    in_directories = {
        origin for text in texts if text.directory is not None for origin, _ in text.manifests
    }
    loaded = load_documents(manifests, allow_lossy=allow_lossy, in_directories=in_directories)
    # A document with errors counts as a service, because the user may have meant one.
    files_with_services = {
        document.origin.file
        for document in (*loaded, *skipped)
        if document.args is not None or document.has_errors
    }
    for directory in dict.fromkeys(text.directory for text in texts):
        if directory is not None:
            paths = {text.file for text in texts if text.directory == directory}
            if paths.isdisjoint(files_with_services):
                finding = error(NO_SERVICE_IN_FOLDER, (), "contains no service manifest")
                skipped.append(make_document_without_service(Origin(directory), finding))
    return [*loaded, *skipped]


def _is_manifest(raw: Any) -> bool:
    if not isinstance(raw, Mapping) or raw.get("kind") == INVENTORY_KIND:
        return False
    return "apiVersion" in raw or "kind" in raw or {"metadata", "spec"} <= set(raw)
