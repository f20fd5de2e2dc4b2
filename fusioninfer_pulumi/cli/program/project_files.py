"""Reads a project: `Pulumi.yaml`, and a stack's configuration as `pulumi.Config` will read it.

As in Pulumi: values of `Pulumi.<stack>.yaml` override defaults of `Pulumi.yaml`, keys without a
namespace belong to the project, scalars keep their spelling, structures become JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fusioninfer_pulumi.cli.program.recording import (
    PROJECT_FILE_INVALID,
    SECRET,
    STACK_NOT_CHOSEN,
    UNKNOWN_WITHOUT_PULUMI,
    program_error,
)
from fusioninfer_pulumi.findings import Finding, warning
from fusioninfer_pulumi.loading.yaml_text import UnreadableError, documents

_FILES = ("Pulumi.yaml", "Pulumi.yml")
#: Where a program starts when the entry point is a folder.
_MAIN_MODULE = "__main__.py"
#: Stack whose name a program sees when the project has no stack.
_DEFAULT_STACK = "dev"
#: Keys of a declaration in `Pulumi.yaml`; a mapping with any other key is a value.
_DECLARATION = {"type", "default", "value", "description", "secret", "items"}


@dataclass(frozen=True)
class Project:
    """A Pulumi project with a program in Python or YAML.

    Attributes:
        root: The folder that holds `Pulumi.yaml`.
        name: The project's name, which is also the namespace of its own config keys.
        program: The file that is run.
        runtime: `python` or `yaml`.
        content: The YAML program, empty for Python.
        stacks: The folder that holds the stacks' config files.
        declared: The `config` block, with values of YAML types.
        spelled: The same with scalars as they are spelled.
    """

    root: Path
    name: str
    program: Path
    runtime: str
    content: dict[str, Any]
    stacks: Path
    declared: dict[str, Any]
    spelled: dict[str, Any]


@dataclass(frozen=True)
class StackConfig:
    """The configuration of one stack.

    Attributes:
        stack: The stack's short name.
        values: Text of every value by its full key, `project:key`.
        findings: Values that only the Pulumi engine can read.
        encrypted: The ciphertexts by key.
    """

    stack: str
    values: dict[str, str]
    findings: tuple[Finding, ...]
    encrypted: Mapping[str, str]


def load_project(folder: Path) -> Project:
    """The project in a folder; raises ProgramError if it holds no program to run."""
    path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if path is None:
        raise program_error(PROJECT_FILE_INVALID, "no Pulumi.yaml in this directory")
    content, spelled = _read_mapping(path)
    name = content.get("name")
    if not isinstance(name, str) or not name:
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: name is missing")
    runtime = _read_runtime(path.name, content.get("runtime"))
    config = content.get("config") or {}
    # Before `stackConfigDir` existed, a plain string under `config` named that folder.
    stacks = content.get("stackConfigDir") or (config if isinstance(config, str) else ".")
    if isinstance(config, str):
        config = {}
    if not isinstance(config, dict):
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: config must be a mapping")
    root = folder.resolve()
    program = _program(path, root, content.get("main"), runtime)
    return Project(
        root=root,
        name=name,
        program=program,
        runtime=runtime,
        content=_read_mapping(program)[0] if runtime == "yaml" else {},
        stacks=root / str(stacks),
        declared=config,
        spelled=spelled.get("config") or {} if config else {},
    )


def read_stack_config(project: Project, stack: str | None) -> StackConfig:
    """The configuration of a stack; without a name, of the only stack there is, else of `dev`.

    Raises ProgramError if the stack does not exist, its file cannot be used or a value is missing.
    """
    name, path, findings = _choose(project, stack)
    values: dict[str, str] = {}
    encrypted: dict[str, str] = {}
    if path is not None:
        content, spelled = _read_mapping(path)
        block = content.get("config") or {}
        if not isinstance(block, dict):
            raise program_error(PROJECT_FILE_INVALID, f"{path.name}: config must be a mapping")
        if content.get("environment"):
            text = f"{path.name}: environment is ignored, because only Pulumi can open it"
            findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
        for key, value in block.items():
            full = _full_key(project.name, str(key))
            shown = _without_encrypted(value)
            values[full] = _text(shown, (spelled.get("config") or {}).get(str(key)))
            if shown != value:
                encrypted[full] = json.dumps(value, sort_keys=True, default=str)
                text = f"{path.name}: config {full} is encrypted; {SECRET} is used instead"
                findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
    _add_defaults(project, name, values)
    return StackConfig(name, values, tuple(findings), encrypted)


def _read_mapping(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The mapping in a YAML file, and once more with every scalar as it is spelled.

    Pulumi takes a scalar config value verbatim: `1.10` is not `1.1`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        contents = list(documents(text))
    except UnicodeDecodeError:
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: not UTF-8 text") from None
    except OSError as problem:
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: {problem.strerror}") from None
    except UnreadableError as problem:
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: {problem}") from None
    if not contents:
        return {}, {}
    if len(contents) > 1 or not isinstance(contents[0], dict):
        raise program_error(PROJECT_FILE_INVALID, f"{path.name}: must be one YAML mapping")
    spelled = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # builds strings only
    return contents[0], spelled


def _read_runtime(file: str, runtime: Any) -> str:
    name = runtime.get("name") if isinstance(runtime, dict) else runtime
    if name is None:
        raise program_error(PROJECT_FILE_INVALID, f"{file}: runtime is missing")
    if name not in ("python", "yaml"):
        text = (
            f"{file}: runtime is {name}, but only Python and YAML programs can be read; run "
            "`pulumi preview`, or put the service into a manifest or a YAML program"
        )
        raise program_error(PROJECT_FILE_INVALID, text)
    return str(name)


def _program(file: Path, root: Path, main: Any, runtime: str) -> Path:
    if main is not None and not isinstance(main, str):
        raise program_error(PROJECT_FILE_INVALID, f"{file.name}: main must be a path")
    entry = root / (main or ".")
    if entry.is_dir():
        if runtime == "yaml":
            main_file = entry / "Main.yaml"
            return (main_file if main_file.is_file() else file).resolve()
        entry = entry / _MAIN_MODULE
        if not entry.is_file():
            raise program_error(
                PROJECT_FILE_INVALID, f"no {_MAIN_MODULE} in {main or 'this directory'}"
            )
    elif not entry.is_file():
        raise program_error(
            PROJECT_FILE_INVALID, f"{file.name}: main is {main}, which does not exist"
        )
    return entry.resolve()


def _choose(project: Project, stack: str | None) -> tuple[str, Path | None, list[Finding]]:
    stacks: dict[str, Path] = {}
    for suffix in ("yml", "yaml"):
        for path in sorted(project.stacks.glob(f"Pulumi.*.{suffix}")):
            stacks[path.name[len("Pulumi.") : -len(suffix) - 1]] = path
    names = ", ".join(sorted(stacks)) or "none"
    if stack is not None:
        short = stack.rpartition("/")[2]  # organisation/project/stack names the same file
        if short not in stacks:
            text = f"no stack {short}: Pulumi.{short}.yaml is missing (stacks: {names})"
            raise program_error(PROJECT_FILE_INVALID, text)
        return short, stacks[short], []
    if len(stacks) == 1:
        name, path = next(iter(stacks.items()))
        return name, path, []
    if not stacks:
        return _DEFAULT_STACK, None, []
    used = "running without config"
    if _DEFAULT_STACK in stacks:
        used = f"using {_DEFAULT_STACK}"
    text = f"no stack selected, {used} (stacks: {names}); select one with --stack"
    return _DEFAULT_STACK, stacks.get(_DEFAULT_STACK), [warning(STACK_NOT_CHOSEN, (), text)]


def _add_defaults(project: Project, stack: str, values: dict[str, str]) -> None:
    missing = []
    for key, declared in project.declared.items():
        full = _full_key(project.name, str(key))
        if full in values:
            continue
        text = project.spelled.get(str(key))
        if isinstance(declared, dict) and declared and set(declared) <= _DECLARATION:
            field = next((name for name in ("default", "value") if name in declared), None)
            if field is not None:
                values[full] = _text(declared[field], text.get(field) if text else None)
            elif full.startswith(f"{project.name}:"):
                missing.append(f"'{key}'")
        elif declared is not None:
            values[full] = _text(declared, text)
    if missing:
        kind = "value" if len(missing) == 1 else "values"
        names = ", ".join(sorted(missing))
        text = f"stack '{stack}' is missing configuration {kind} {names}"
        raise program_error(PROJECT_FILE_INVALID, text)


def _full_key(project: str, key: str) -> str:
    namespace, colon, name = key.partition(":")
    if not colon:
        return f"{project}:{key}"
    # `project:config:key` is how the first versions of the CLI wrote keys.
    return f"{namespace}:{name.removeprefix('config:')}"


def _text(value: Any, spelled: Any) -> str:
    if value is None:
        return ""
    if isinstance(spelled, str) and not isinstance(value, (dict, list)):
        return spelled
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _without_encrypted(value: Any) -> Any:
    """A value with a mask in place of each `secure: ciphertext`: only the stack's key opens it."""
    if isinstance(value, dict):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            return SECRET
        return {key: _without_encrypted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_encrypted(item) for item in value]
    return value
