"""Loads services and inventories from files, texts and mappings."""

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
    ParsedText,
    list_manifest_files,
    load_texts,
    parse,
)
from fusioninfer_pulumi.loading.validate import (
    EMPTY_INPUT,
    UNREADABLE_FILE,
    WRONG_KIND,
    validate_inventory,
)
from fusioninfer_pulumi.loading.yaml_text import MAX_BYTES, TOO_LARGE, YamlTextError, parse_yaml
from fusioninfer_pulumi.rules.common import INPUT_TOO_LARGE


def load(
    source: str | os.PathLike[str] | Mapping[str, Any] | Sequence[str | os.PathLike[str]],
    *,
    allow_lossy: bool = False,
) -> list[InferenceServiceArgs]:
    """Read the services of manifest files, or of an already parsed manifest.

    With the package `fusioninfer-importers` it also converts Kthena's ModelServings, Modelplane's
    ModelDeployments and KServe's LLMInferenceServices, together with related objects in the same
    input (docs/systems.md).

    Args:
        source: Path of a YAML or JSON file with one or several documents; path of a directory,
            whose files (`*.yaml`, `*.yml`, `*.json`, without subdirectories) are read together;
            several such paths, which are read together; or one parsed document. A string is always
            a path; for YAML text use `loads`. Other objects in a directory, such as a Namespace,
            are ignored with a `UserWarning`.
        allow_lossy: Whether to ignore, with a `UserWarning`, what is otherwise rejected: fields of
            another system's manifest that cannot be converted, and other objects next to a service.

    Returns:
        The services, in the order of the documents.

    Raises:
        FileNotFoundError: The file does not exist.
        OSError: The file cannot be read.
        InvalidServiceError: A document is invalid; the error lists all problems.
    """
    if isinstance(source, Mapping):
        items, invalid = split_list("", 1, source)
        return _get_services([*load_documents(items, allow_lossy=allow_lossy), *invalid])
    paths = [source] if isinstance(source, (str, os.PathLike)) else source
    texts = [text for path in paths for text in _read_texts(Path(path))]
    return _get_services(load_texts(texts, allow_lossy=allow_lossy))


def loads(text: str, *, allow_lossy: bool = False) -> list[InferenceServiceArgs]:
    """Read the services of a manifest text.

    Args:
        text: YAML or JSON with one or several documents.
        allow_lossy: See `load`.

    Returns:
        The services, in the order of the documents.

    Raises:
        InvalidServiceError: A document is invalid; the error lists all problems.
    """
    return _get_services(load_texts([parse("", text)], allow_lossy=allow_lossy))


def _read_texts(path: Path) -> list[ParsedText]:
    if "\0" in str(path) or not path.is_dir():
        return [parse(str(path), file_text(path))]
    files = list_manifest_files(path)
    if not files:
        raise InvalidServiceError([error(EMPTY_INPUT, (), NO_MANIFESTS)], str(path))
    return [parse(str(file), file_text(file), str(path)) for file in files]


def file_text(file: str | os.PathLike[str]) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file cannot be read.
        InvalidServiceError: The file is larger than `MAX_BYTES`, or not UTF-8.
    """
    if file == "" or "\0" in str(file):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    with Path(file).open("rb") as stream:
        return read_stream(stream, str(file))


def read_stream(stream: IO[bytes], title: str = "") -> str:
    """Return the text of a stream; raise the errors of `file_text`, with `title` as the file."""
    # The size is limited, because the path may be an endless device.
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidServiceError([error(INPUT_TOO_LARGE, (), TOO_LARGE)], title)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        message = "the file is not UTF-8 text; convert it to UTF-8"
        raise InvalidServiceError([error(UNREADABLE_FILE, (), message)], title) from None


def _get_services(documents: list[LoadedDocument]) -> list[InferenceServiceArgs]:
    """Return the services; raise if there are errors, else issue the warnings."""
    all_findings = [located for document in documents for located in document.findings]
    invalid = {origin for origin, finding in all_findings if finding.severity is Severity.ERROR}
    if invalid:
        reported = [(origin, finding) for origin, finding in all_findings if origin in invalid]
        titles = [str(origin) for origin, _ in reported]
        raise InvalidServiceError([finding for _, finding in reported], titles)
    for origin, finding in all_findings:
        if finding.severity is Severity.WARNING:
            name = str(origin)
            warnings.warn(f"{name}: {finding}" if name else str(finding), stacklevel=3)
    return [document.args for document in documents if document.args is not None]


#: The sources that `load_inventory` accepts.
InventorySource = (
    str | os.PathLike[str] | InventoryArgs | Mapping[str, Any] | Sequence[NodePoolArgs | Any]
)


def load_inventory(source: InventorySource) -> InventoryArgs:
    """Read the node pools of a cluster.

    Args:
        source: Path of a YAML or JSON file with one `NodePoolInventory`, with only its fields
            (`pools` and `poolLabel`), or with a list of pools; any of these as plain data; or an
            inventory that was already loaded.

    Returns:
        The inventory.

    Raises:
        FileNotFoundError: The file does not exist.
        OSError: The file cannot be read.
        InvalidServiceError: The inventory is invalid; the error lists all problems.
    """
    if isinstance(source, InventoryArgs):
        return source
    raw, title = source, ""
    if isinstance(source, (str, os.PathLike)):
        title = str(source)
        raw = _parse_one_document(file_text(Path(source)), title)
    inventory, findings = validate_inventory(raw)
    if inventory is None:
        raise InvalidServiceError(findings, title)
    return inventory


def _parse_one_document(text: str, title: str) -> Any:
    try:
        contents = list(parse_yaml(text))
    except YamlTextError as exc:
        raise InvalidServiceError([error(exc.rule, (), str(exc))], title) from None
    if len(contents) != 1:
        actual = f"contains {len(contents)} documents" if contents else "is empty"
        message = f"{actual}, expected one {INVENTORY_KIND}"
        raise InvalidServiceError([error(WRONG_KIND, (), message)], title)
    return contents[0]
