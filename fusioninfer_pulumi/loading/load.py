"""Loads files, texts and mappings, for the library and the command line."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from fusioninfer_pulumi.api.inventory import INVENTORY_KIND, InventoryArgs, NodePoolArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import InvalidServiceError, Severity, error
from fusioninfer_pulumi.loading.documents import LoadedDocument, load_documents, split_list
from fusioninfer_pulumi.loading.file_set import (
    NO_MANIFESTS,
    Text,
    load_texts,
    manifest_files,
    parse,
)
from fusioninfer_pulumi.loading.validate import (
    EMPTY_INPUT,
    UNREADABLE_FILE,
    WRONG_KIND,
    validate_inventory,
)
from fusioninfer_pulumi.loading.yaml_text import MAX_BYTES, TOO_LARGE, UnreadableError, documents
from fusioninfer_pulumi.rules.common import INPUT_TOO_LARGE


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | Sequence[str | os.PathLike[str]],
    *,
    allow_lossy: bool = False,
) -> list[InferenceServiceArgs]:
    """Read the services of manifest files, or of an already parsed manifest.

    Besides InferenceServices it accepts Kthena's ModelServings, Modelplane's ModelDeployments and
    KServe's LLMInferenceServices, together with related objects in the same input:
    docs/systems.md.

    Args:
        source: Path of a YAML or JSON file of one or several documents, or of a folder, whose
            files (`*.yaml`, `*.yml`, `*.json`; not those of folders in it) are read together; or
            several such paths, which are also read together; or one document. A string is always a
            path, never YAML text: see `loads`. Other objects in a folder, such as a Namespace, are
            ignored with a `UserWarning`.
        allow_lossy: Ignores fields that cannot be converted from another system's manifest, with a
            `UserWarning` for each such field, instead of rejecting it.

    Returns:
        The services, in the order of the documents.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        InvalidServiceError: A document is invalid; every problem is listed.
    """
    if isinstance(source, Mapping):
        items, wrong = split_list("", 1, source)
        rejected = [] if wrong is None else [wrong]
        return _accepted([*load_documents(items, allow_lossy=allow_lossy), *rejected])
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    texts = [text for path in paths for text in _texts(Path(path))]
    return _accepted(load_texts([parse(text) for text in texts], allow_lossy=allow_lossy))


def loads(text: str, *, allow_lossy: bool = False) -> list[InferenceServiceArgs]:
    """Read the services of a manifest text.

    Args:
        text: YAML or JSON, one or several documents.
        allow_lossy: As for `load`.

    Returns:
        The services, in the order of the documents.

    Raises:
        InvalidServiceError: A document is invalid; every problem is listed.
    """
    return _accepted(load_texts([parse(Text("", text))], allow_lossy=allow_lossy))


def _texts(path: Path) -> list[Text]:
    if "\0" in str(path) or not path.is_dir():
        return [Text(str(path), file_text(path))]
    files = manifest_files(path)
    if not files:
        raise InvalidServiceError([error(EMPTY_INPUT, (), NO_MANIFESTS)], str(path))
    return [Text(str(file), file_text(file), str(path)) for file in files]


def file_text(file: str | os.PathLike[str]) -> str:
    """Return the text of a file of bounded size.

    Raises:
        OSError: It cannot be read.
        InvalidServiceError: It is too large, or not UTF-8.
    """
    if file == "" or "\0" in str(file):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    with Path(file).open("rb") as stream:
        return read_text(stream, str(file))


def read_text(stream: IO[bytes], title: str = "") -> str:
    """Return the text of a stream of bounded size; for errors see `file_text`."""
    # The read is limited: the path may be a device that does not end.
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidServiceError([error(INPUT_TOO_LARGE, (), TOO_LARGE)], title)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = "not YAML: not UTF-8 text"
        raise InvalidServiceError([error(UNREADABLE_FILE, (), message)], title) from None


def _accepted(read: list[LoadedDocument]) -> list[InferenceServiceArgs]:
    all_findings = [located for read_document in read for located in read_document.findings]
    rejected = {origin for origin, finding in all_findings if finding.severity is Severity.ERROR}
    if rejected:
        shown = [located for located in all_findings if located[0] in rejected]
        sources = [str(origin) for origin, _ in shown]
        raise InvalidServiceError([finding for _, finding in shown], sources)
    for origin, finding in all_findings:
        if finding.severity is Severity.WARNING:
            name = str(origin)
            warnings.warn(f"{name}: {finding}" if name else str(finding), stacklevel=3)
    return [
        document.document.args
        for document in read
        if document.document is not None and document.document.args is not None
    ]


Inventory = (
    str | os.PathLike[str] | InventoryArgs | Mapping[str, Any] | Sequence[NodePoolArgs | Any]
)


def load_inventory(source: Inventory) -> InventoryArgs:
    """Read the node pools of a cluster.

    Args:
        source: Path of a YAML or JSON file with one `NodePoolInventory`, or its fields
            (`pools` and `poolLabel`) alone, or a list of pools alone; or any of the three as
            plain data; or what was read already.

    Returns:
        The inventory.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        InvalidServiceError: The inventory is invalid; every problem is listed.
    """
    if isinstance(source, InventoryArgs):
        return source
    raw, title = source, ""
    if isinstance(source, (str, os.PathLike)):
        title = str(source)
        raw = _only_document(file_text(Path(source)), title)
    read, problems = validate_inventory(raw)
    if read is None:
        raise InvalidServiceError(problems, title)
    return read


def _only_document(text: str, title: str) -> Any:
    try:
        read = list(documents(text))
    except UnreadableError as problem:
        raise InvalidServiceError([error(problem.rule, (), str(problem))], title) from None
    if len(read) != 1:
        contents = f"contains {len(read)} documents" if read else "is empty"
        raise InvalidServiceError(
            [error(WRONG_KIND, (), f"{contents}, wanted one {INVENTORY_KIND}")], title
        )
    return read[0]
