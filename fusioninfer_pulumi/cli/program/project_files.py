"""Reads a project: `Pulumi.yaml`, and a stack's configuration for `pulumi.Config`.

As in Pulumi, values in `Pulumi.<stack>.yaml` override defaults in `Pulumi.yaml`, keys without a
namespace belong to the project, scalars keep their spelling, and structures become JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fusioninfer_pulumi.cli.program.recording import (
    PROJECT_FILE_INVALID,
    SECRET,
    STACK_NOT_CHOSEN,
    UNKNOWN_WITHOUT_PULUMI,
)
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, error, warning
from fusioninfer_pulumi.loading.yaml_text import YamlTextError, parse_yaml

PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml")
#: Name of the stack if the project has none.
_DEFAULT_STACK = "dev"


class Project(NamedTuple):
    """A Pulumi project with a program in Python or YAML, and the configuration of one stack.

    Attributes:
        root: The folder with `Pulumi.yaml`.
        name: The project's name, also the namespace of its config keys.
        program: The file to run.
        runtime: `python` or `yaml`.
        content: The YAML program, empty for Python.
        declarations: The `config` block of `Pulumi.yaml`.
        stack: The stack's short name.
        config: All config values as text, by full key, `project:key`.
        encrypted: The values with ciphertexts, by full key.
        findings: Warnings about the choice of the stack, and about values that only Pulumi can
            read.
    """

    root: Path
    name: str
    program: Path
    runtime: str
    content: dict[str, Any]
    declarations: dict[str, Any]
    stack: str
    config: dict[str, str]
    encrypted: dict[str, Any]
    findings: tuple[Finding, ...]


class _YamlFile(NamedTuple):
    """A YAML file with one mapping.

    Attributes:
        name: The file's name.
        content: The mapping.
        spelled: The same with all scalars as text, exactly as spelled: for Pulumi, `1.10` is not
            `1.1`.
    """

    name: str
    content: dict[str, Any]
    spelled: dict[str, Any]


def load_project(folder: Path, stack: str | None) -> Project:
    """Read the project in a folder, with a stack: by default the only one, otherwise `dev`.

    Raises InvalidServiceError if it has no program to run, the stack does not exist, or a file is
    invalid.
    """
    path = next((folder / name for name in PROJECT_FILES if (folder / name).is_file()), None)
    if path is None:
        raise _make_error("no Pulumi.yaml in this directory")
    file = _read_file(path)
    name, runtime = file.content.get("name"), file.content.get("runtime")
    if not isinstance(name, str) or not name:
        raise _make_error(f"{path.name}: name is missing")
    runtime = runtime.get("name") if isinstance(runtime, dict) else runtime
    if runtime not in ("python", "yaml"):
        raise _make_error(
            f"{path.name}: runtime is {runtime or 'missing'}, but only Python and YAML programs "
            "are supported; run `pulumi preview`, or write the service as a manifest or a YAML "
            "program"
        )
    root = folder.resolve()
    program = _find_program(root, file, runtime)
    stacks = root / str(file.content.get("stackConfigDir") or ".")
    stack, stack_path, findings = _choose_stack(stacks, stack)
    stack_file = _read_file(stack_path) if stack_path else _YamlFile("", {}, {})
    entries = tuple(_list_config(stack_file, name))
    encrypted = {key: value for key, value, _ in entries if _mask_encrypted(value) != value}
    return Project(
        root=root,
        name=name,
        program=program,
        runtime=runtime,
        content=_read_file(program).content if runtime == "yaml" else {},
        declarations=file.content.get("config") or {},
        stack=stack,
        config={
            **dict(_list_defaults(file, name)),
            **{key: _to_text(_mask_encrypted(value), spelled) for key, value, spelled in entries},
        },
        encrypted=encrypted,
        findings=(*findings, *_list_unread(stack_file, encrypted)),
    )


def _make_error(text: str) -> InvalidServiceError:
    return InvalidServiceError([error(PROJECT_FILE_INVALID, (), text)])


def _read_file(path: Path) -> _YamlFile:
    try:
        text = path.read_text(encoding="utf-8")
        contents = list(parse_yaml(text)) or [{}]
    except UnicodeDecodeError:
        raise _make_error(f"{path.name}: not UTF-8 text") from None
    except (OSError, YamlTextError) as problem:
        raise _make_error(f"{path.name}: {problem}") from None
    if len(contents) > 1 or not isinstance(contents[0], dict):
        raise _make_error(f"{path.name}: must be one YAML mapping")
    spelled = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # builds strings only
    return _YamlFile(path.name, contents[0], spelled or {})


def _find_program(root: Path, file: _YamlFile, runtime: str) -> Path:
    program = Path(str(file.content.get("main") or "."))
    if (root / program).is_dir():
        program /= "Main.yaml" if runtime == "yaml" else "__main__.py"
        if runtime == "yaml" and not (root / program).is_file():
            program = Path(file.name)
    if not (root / program).is_file():
        raise _make_error(f"{file.name}: {program} does not exist")
    return (root / program).resolve()


def _choose_stack(folder: Path, stack: str | None) -> tuple[str, Path | None, list[Finding]]:
    """Return the name of the stack, its config file if it has one, and warnings."""
    stacks = {
        path.stem.removeprefix("Pulumi."): path for path in sorted(folder.glob("Pulumi.*.y*ml"))
    }
    names = ", ".join(sorted(stacks)) or "none"
    if stack is not None:
        name = stack.rpartition("/")[2]  # without organisation and project
        if name not in stacks:
            raise _make_error(f"no stack {name}: Pulumi.{name}.yaml is missing (stacks: {names})")
        return name, stacks[name], []
    if len(stacks) == 1:
        return *next(iter(stacks.items())), []
    findings = []
    if stacks:
        choice = f"using {_DEFAULT_STACK}" if _DEFAULT_STACK in stacks else "running without config"
        text = f"no stack selected, {choice} (stacks: {names}); select one with --stack"
        findings = [warning(STACK_NOT_CHOSEN, (), text)]
    return _DEFAULT_STACK, stacks.get(_DEFAULT_STACK), findings


def _list_config(file: _YamlFile, project: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the full key of each entry of `config`, its value, and the value as spelled."""
    config, spelled = (part.get("config") or {} for part in (file.content, file.spelled))
    if not isinstance(config, dict):
        raise _make_error(f"{file.name}: config must be a mapping")
    for key, value in config.items():
        full_key = key if ":" in str(key) else f"{project}:{key}"
        yield full_key, value, spelled.get(str(key))


def _list_defaults(file: _YamlFile, project: str) -> Iterator[tuple[str, str]]:
    """Yield the config values of `Pulumi.yaml`; a mapping declares a value, or only its type."""
    for key, value, spelled in _list_config(file, project):
        if not isinstance(value, dict):
            yield key, _to_text(value, spelled)
        elif field := next((name for name in ("default", "value") if name in value), None):
            yield key, _to_text(value[field], spelled[field])


def _list_unread(file: _YamlFile, encrypted: Iterable[str]) -> Iterator[Finding]:
    """Yield warnings about parts of a stack's file that only Pulumi can read."""
    if file.content.get("environment"):
        text = f"{file.name}: environment is ignored, because only Pulumi can open it"
        yield warning(UNKNOWN_WITHOUT_PULUMI, (), text)
    for key in encrypted:
        text = f"{file.name}: config {key} is encrypted; {SECRET} is used instead"
        yield warning(UNKNOWN_WITHOUT_PULUMI, (), text)


def _to_text(value: Any, spelled: Any) -> str:
    text = spelled if isinstance(spelled, str) else value
    return text if isinstance(text, str) else json.dumps(text)


def _mask_encrypted(value: Any) -> Any:
    """Replace each `secure: ciphertext` by a mask, because only the stack's key can decrypt it."""
    if isinstance(value, dict):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            return SECRET
        return {key: _mask_encrypted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_encrypted(item) for item in value]
    return value
