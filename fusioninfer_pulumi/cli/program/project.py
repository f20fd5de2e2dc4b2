"""Reads `Pulumi.yaml`: whether a folder is a project that can be run, and where its program is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.cli.program.records import ProgramError
from fusioninfer_pulumi.loading.yaml import UnreadableError, documents

_FILES = ("Pulumi.yaml", "Pulumi.yml")
#: Where a program starts when the entry point is a folder.
MAIN_MODULE = "__main__.py"


@dataclass(frozen=True)
class Project:
    """A Pulumi project with a Python program.

    Attributes:
        root: The folder that holds `Pulumi.yaml`.
        file: Name of that file.
        name: The project's name, which is also the namespace of its own config keys.
        program: The file that is run.
        stacks: The folder that holds the stacks' config files.
        config: The `config` block, with values of YAML types.
    """

    root: Path
    file: str
    name: str
    program: Path
    stacks: Path
    config: dict[str, Any]


def is_project(path: Path) -> bool:
    """Tells whether a path is a folder with a Pulumi project in it."""
    return _project_file(path) is not None


def load_project(folder: Path) -> Project:
    """Reads a project folder.

    Raises:
        ProgramError: The folder holds no Python program that could be run.
    """
    path = _project_file(folder)
    if path is None:
        raise ProgramError("no Pulumi.yaml in this directory")
    content, _ = read_mapping(path)
    name = content.get("name")
    if not isinstance(name, str) or not name:
        raise ProgramError(f"{path.name}: name is missing")
    _check_runtime(path.name, content.get("runtime"))
    config = content.get("config") or {}
    # Before `stackConfigDir` existed, a plain string under `config` named that folder.
    stacks = content.get("stackConfigDir") or (config if isinstance(config, str) else ".")
    if isinstance(config, str):
        config = {}
    if not isinstance(config, dict):
        raise ProgramError(f"{path.name}: config must be a mapping")
    root = folder.resolve()
    return Project(
        root=root,
        file=path.name,
        name=name,
        program=_program(path.name, root, content.get("main")),
        stacks=root / str(stacks),
        config=config,
    )


def read_mapping(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Reads a YAML file that must hold one mapping.

    Returns:
        The mapping, once with values of YAML types and once with every scalar as it is spelled:
        Pulumi takes a scalar config value verbatim, `1.10` is not `1.1`.

    Raises:
        ProgramError: The file cannot be used; the message names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = list(documents(text))
    except UnicodeDecodeError:
        raise ProgramError(f"{path.name}: not UTF-8 text") from None
    except OSError as problem:
        raise ProgramError(f"{path.name}: {problem.strerror}") from None
    except UnreadableError as problem:
        raise ProgramError(f"{path.name}: {problem}") from None
    if not found:
        return {}, {}
    if len(found) > 1 or not isinstance(found[0], dict):
        raise ProgramError(f"{path.name}: must be one YAML mapping")
    spelled = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # builds strings only
    return found[0], spelled


def _project_file(folder: Path) -> Path | None:
    return next((folder / name for name in _FILES if (folder / name).is_file()), None)


def _check_runtime(file: str, runtime: Any) -> None:
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name is None:
        raise ProgramError(f"{file}: runtime is missing")
    if name != "python":
        raise ProgramError(f"{file}: runtime is {name}; only python programs can be run in process")


def _program(file: str, root: Path, main: Any) -> Path:
    if main is not None and not isinstance(main, str):
        raise ProgramError(f"{file}: main must be a path")
    entry = root / (main or ".")
    if entry.is_dir():
        entry = entry / MAIN_MODULE
        if not entry.is_file():
            where = f"{main}" if main else "this directory"
            raise ProgramError(f"no {MAIN_MODULE} in {where}")
    elif not entry.is_file():
        raise ProgramError(f"{file}: main is {main}, which does not exist")
    return entry.resolve()
