"""Reads the file that `model.config` names, when its manifest is loaded."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.findings import Finding, Rule, error
from fusioninfer_pulumi.loading.validate import Document

MODEL_CONFIG_UNREADABLE = Rule("model-config-unreadable")
#: Configs of models have some kilobytes; those that list quantized modules, some hundred.
_MOST_BYTES = 4 * 2**20


class ModelConfigError(Exception):
    """The file is not a model config; the message has the reason."""


def read_model_config(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Read a model's config.

    Args:
        name: Path of the file.
        folder: Folder in or below which it has to be: that of a manifest, which may be anybody's.
            None for any file, relative to the working directory.

    Raises:
        ModelConfigError: It is not a regular file, too large, or not a JSON object.
    """
    content = _content(name, folder)
    try:
        config = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as problem:
        raise ModelConfigError(f"{name} is not JSON: {problem}") from None
    if not isinstance(config, dict):
        raise ModelConfigError(f"{name} is not a JSON object")
    return config


def _content(name: str, folder: Path | None) -> bytes:
    path = Path(name)
    if folder is not None:
        if path.is_absolute():
            raise ModelConfigError(f"must be a path from the folder of the manifest, got {name}")
        path = folder / path
    try:
        real = path.resolve(strict=True)
        if folder is not None and not real.is_relative_to(folder.resolve()):
            raise ModelConfigError(f"{name} is not below the folder of the manifest")
        # A pipe without a writer would wait for one.
        descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ModelConfigError(f"{name} is not a regular file")
            content = file.read(_MOST_BYTES + 1)
    except (OSError, RuntimeError) as problem:  # RuntimeError: a link that leads to itself
        reason = getattr(problem, "strerror", None) or problem
        raise ModelConfigError(f"{name} cannot be read: {reason}") from None
    except ValueError:
        raise ModelConfigError(f"{name!r} is not a path") from None
    if len(content) > _MOST_BYTES:
        raise ModelConfigError(f"{name} is larger than {_MOST_BYTES // 2**20} MiB")
    return content


def with_model_config(document: Document, file: str) -> Document:
    """Return a document with the content of the file that its `model.config` names.

    `file` is the path of its manifest; any other name if it is not in a file.
    """
    model = None if document.args is None else document.args.model
    name = None if model is None else model.config
    if document.args is None or model is None or not isinstance(name, str):
        return document
    try:
        config = read_model_config(name, Path(file).parent)
    except ModelConfigError as problem:
        return replace(
            document, args=None, findings=(*document.findings, model_config_finding(problem))
        )
    changed = model.model_copy(update={"config": config})
    return replace(document, args=document.args.model_copy(update={"model": changed}))


def model_config_finding(problem: ModelConfigError) -> Finding:
    """Return the finding about a file that cannot be read."""
    return error(MODEL_CONFIG_UNREADABLE, ("model", "config"), str(problem))
