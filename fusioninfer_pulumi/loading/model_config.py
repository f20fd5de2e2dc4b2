"""Reads a model's `config.json` from the path in `model.config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.findings import Finding, Rule, error

MODEL_CONFIG_UNREADABLE = Rule("model-config-unreadable")
#: Real configs have a few kilobytes, or a few hundred if they list quantized modules.
_MAX_BYTES = 4 * 2**20


class ModelConfigError(Exception):
    """The file cannot be read or is not a model config; the message has the reason."""


def read_model_config(name: str, directory: Path | None = None) -> dict[str, Any]:
    """Read a model's config.

    Args:
        name: Path of the file, relative to `directory`.
        directory: The manifest's directory. The file must be in or below it, because the manifest
            may be untrusted. None allows any path; relative ones start at the working directory.

    Raises:
        ModelConfigError: The file is not a readable regular file, is too large, or is not a JSON
            object.
    """
    content = _read_content(name, directory)
    try:
        config = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ModelConfigError(f"{name} is not JSON: {exc}") from None
    if not isinstance(config, dict):
        raise ModelConfigError(f"{name} is not a JSON object")
    return config


def _read_content(name: str, directory: Path | None) -> bytes:
    try:
        # An absolute `name` replaces the directory.
        path = ((directory or Path()) / name).resolve(strict=True)
        if directory is not None and not path.is_relative_to(directory.resolve()):
            raise ModelConfigError(f"{name} is outside the manifest's directory")
        # Reading a pipe would block until it has a writer.
        if not path.is_file():
            raise ModelConfigError(f"{name} is not a regular file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    # ValueError: a null character. RuntimeError: a loop of symbolic links.
    except (OSError, ValueError, RuntimeError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise ModelConfigError(f"{name} cannot be read: {reason}") from None
    if len(content) > _MAX_BYTES:
        raise ModelConfigError(f"{name} is larger than {_MAX_BYTES // 2**20} MiB")
    return content


def load_model_config(args: InferenceServiceArgs, file: str) -> InferenceServiceArgs:
    """Return the service with the path in `model.config` replaced by the content of its file.

    The path is relative to the directory of the manifest `file`.

    Raises:
        ModelConfigError: As for `read_model_config`.
    """
    model = args.model
    if model is None or not isinstance(model.config, str):
        return args
    config = read_model_config(model.config, Path(file).parent)
    return args.model_copy(update={"model": model.model_copy(update={"config": config})})


def model_config_finding(problem: ModelConfigError) -> Finding:
    """Return a finding for a ModelConfigError."""
    return error(MODEL_CONFIG_UNREADABLE, ("model", "config"), str(problem))
