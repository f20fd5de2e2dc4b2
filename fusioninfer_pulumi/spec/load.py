"""Reads InferenceService manifests: the one reader of the library and of the command line."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.findings import InvalidServiceError, error, errors
from fusioninfer_pulumi.spec.document import Document, examine
from fusioninfer_pulumi.spec.service import InferenceServiceArgs
from fusioninfer_pulumi.spec.yaml_text import MAX_BYTES, TOO_LARGE, UnreadableError, documents


def load(source: str | os.PathLike[str] | Mapping[str, Any]) -> list[InferenceServiceArgs]:
    """Reads the services of a manifest file, or of a manifest that is a mapping already.

    Args:
        source: Path of a YAML or JSON file of one or several documents, or one document. A
            string is always a path, never YAML text: see `loads`.

    Returns:
        The services, in the order of the documents.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        InvalidServiceError: Some document was refused; all problems are listed.
    """
    if isinstance(source, Mapping):
        return _accepted([examine(source, "")])
    file = Path(source)
    return _accepted(read_text(_text(file), str(file)))


def loads(text: str) -> list[InferenceServiceArgs]:
    """Reads the services of a manifest text.

    Args:
        text: YAML or JSON, one or several documents.

    Returns:
        The services, in the order of the documents.

    Raises:
        InvalidServiceError: Some document was refused; all problems are listed.
    """
    return _accepted(read_text(text, ""))


def read_text(text: str, label: str) -> list[Document]:
    """Reads a text document by document, without raising for what is wrong with it.

    Args:
        text: YAML or JSON.
        label: Name of the input in messages.

    Returns:
        At least one document: an input without any is refused as empty.
    """
    read: list[Document] = []
    try:
        for number, raw in enumerate(documents(text), start=1):
            read.append(examine(raw, label if number == 1 else f"{label}#{number}"))
    except UnreadableError as problem:
        read.append(Document(label, None, (error("", str(problem)),)))
    if not read:
        read.append(Document(label, None, (error("", "is empty: no InferenceService in it"),)))
    return read


def _text(file: Path) -> str:
    if "\0" in str(file):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    with file.open("rb") as stream:
        # Never more than that: the path may be a device that does not end.
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidServiceError([error("", TOO_LARGE)], str(file))
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidServiceError([error("", "not YAML: not UTF-8 text")], str(file)) from None


def _accepted(read: list[Document]) -> list[InferenceServiceArgs]:
    refused = [document for document in read if errors(document.findings)]
    if refused:
        found = [finding for document in refused for finding in document.findings]
        title = refused[0].label if len({document.label for document in refused}) == 1 else ""
        raise InvalidServiceError(found, title)
    return [document.args for document in read if document.args is not None]
