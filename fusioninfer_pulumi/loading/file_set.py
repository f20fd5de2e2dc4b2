"""The texts of one input, which are loaded together: a file, several, or those of a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND
from fusioninfer_pulumi.findings import Location, Origin, Rule, Severity, error, info
from fusioninfer_pulumi.loading.documents import LoadedDocument, load_documents, split_list
from fusioninfer_pulumi.loading.validate import EMPTY_INPUT, NO_SERVICE, Document
from fusioninfer_pulumi.loading.yaml_text import UnreadableError, documents

NO_SERVICE_IN_FOLDER = Rule("no-service-in-folder")

#: Endings that `kubectl apply -f FOLDER` reads; neither reads folders below it.
SUFFIXES = (".yaml", ".yml", ".json")
#: The error of a folder without manifests.
NO_MANIFESTS = "no manifest (*.yaml, *.yml, *.json) in this directory"


class Text(NamedTuple):
    """One text.

    Attributes:
        file: Its name in messages.
        content: YAML or JSON, of one or several documents.
        folder: The folder that contains it, None for a file that the user named.
    """

    file: str
    content: str
    folder: str | None = None


class ParsedText(NamedTuple):
    """The documents of a text.

    Attributes:
        manifests: Origin and content of each document that may be a manifest.
        notes: Findings about the text as a whole, and about documents that are not manifests.
        documents: All documents, including those of other kinds; None if the text is not YAML.
    """

    text: Text
    manifests: tuple[tuple[Origin, Any], ...]
    notes: tuple[LoadedDocument, ...]
    documents: tuple[Any, ...] | None

    @property
    def identities(self) -> list[tuple[str, ...]]:
        """Kind, namespace and name of its manifests, which are unique in a set of files."""
        all_keys = []
        for _, raw in self.manifests:
            metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
            if isinstance(metadata, Mapping):
                keys = (raw.get("kind"), metadata.get("namespace"), metadata.get("name"))
                all_keys.append(tuple(map(str, keys)))
        return all_keys


def manifest_files(folder: Path) -> list[Path]:
    """Return the files of a folder that may contain manifests, sorted by name.

    Raises:
        OSError: The folder cannot be read.
    """
    entries = sorted(folder.iterdir())
    return [path for path in entries if path.suffix.lower() in SUFFIXES and path.is_file()]


def parse(text: Text) -> ParsedText:
    """Return the documents of a text; its problems become findings."""
    manifests: list[tuple[Origin, Any]] = []
    notes: list[LoadedDocument] = []
    try:
        for number, raw in enumerate(documents(text.content), start=1):
            items, wrong = split_list(text.file, number, raw)
            manifests += items
            notes += [] if wrong is None else [wrong]
    except UnreadableError as problem:
        rejected = rejected_input(text.file, problem.rule, str(problem))
        notes.append(
            replace(rejected, origin=Origin(text.file, line=problem.line if text.file else None))
        )
    everything = None if notes else tuple(raw for _, raw in manifests)
    if not manifests and not notes and text.folder is None:
        notes.append(rejected_input(text.file, EMPTY_INPUT, "is empty: no InferenceService in it"))
    if text.folder is not None and not notes and not any(_is_manifest(raw) for _, raw in manifests):
        # A folder may contain other files, such as the values of a chart.
        notes += [_ignored(origin, (), "contains no manifest") for origin, _ in manifests[:1]]
        manifests = []
    kept = []
    for origin, raw in manifests:
        is_mapping = text.folder is not None and isinstance(raw, Mapping)
        if is_mapping and raw.get("kind") == INVENTORY_KIND:
            notes.append(_ignored(origin, ("kind",), "is an inventory; pass it with --inventory"))
        else:
            kept.append((origin, raw))
    return ParsedText(text, tuple(kept), tuple(notes), everything)


def load_texts(parsed: Sequence[ParsedText], *, allow_lossy: bool = False) -> list[LoadedDocument]:
    """Load the documents of several texts as those of one input, which may refer to each other.

    Returns the services in the order of the documents, and the documents that are not services; for
    `allow_lossy` see `load`. A file that is passed twice is read once.
    """
    texts = list({text.text.file: text for text in parsed}.values())
    notes = [note for text in texts for note in text.notes]
    manifests = [document for text in texts for document in text.manifests]
    in_folders = {
        origin for text in texts if text.text.folder is not None for origin, _ in text.manifests
    }
    read = load_documents(manifests, allow_lossy=allow_lossy, in_folders=frozenset(in_folders))
    for folder in dict.fromkeys(text.text.folder for text in texts):
        if folder is not None:
            files = {text.text.file for text in texts if text.text.folder == folder}
            if not any(
                document.origin.file in files and _is_service(document)
                for document in (*read, *notes)
            ):
                notes.append(
                    rejected_input(folder, NO_SERVICE_IN_FOLDER, "contains no service manifest")
                )
    return [*read, *notes]


def rejected_input(file: str, rule: Rule, why: str) -> LoadedDocument:
    """Return an input that is rejected as a whole."""
    return LoadedDocument(Origin(file), Document(None, (error(rule, (), why),)))


def _is_service(read: LoadedDocument) -> bool:
    """Whether a document is a service, or has an error of one."""
    return read.document is not None or any(
        finding.severity is Severity.ERROR for _, finding in read.remarks
    )


def _ignored(origin: Origin, location: Location, why: str) -> LoadedDocument:
    finding = info(NO_SERVICE, location, f"ignored: {why}")
    return LoadedDocument(origin, remarks=((origin, finding),))


def _is_manifest(raw: Any) -> bool:
    if not isinstance(raw, Mapping):
        return False
    return "apiVersion" in raw or "kind" in raw or {"metadata", "spec"} <= set(raw)
