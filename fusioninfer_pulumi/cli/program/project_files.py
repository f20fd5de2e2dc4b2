"""Reads a project: `Pulumi.yaml`, and a stack's configuration for `pulumi.Config`.

As in Pulumi, values in `Pulumi.<stack>.yaml` override defaults in `Pulumi.yaml`, keys without a
namespace belong to the project, scalars keep their spelling, and structures become JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fusioninfer_pulumi.cli.program.recording import (
    PROJECT_FILE_INVALID,
    SECRET,
    STACK_NOT_CHOSEN,
    UNKNOWN_WITHOUT_PULUMI,
    ProgramError,
)
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.loading.yaml_text import YamlTextError, parse_yaml

_FILES = ("Pulumi.yaml", "Pulumi.yml")
#: Name of the stack if the project has none.
_DEFAULT_STACK = "dev"
#: A `config` entry of `Pulumi.yaml` with only these keys declares a value; others are the value.
_DECLARATION_KEYS = {"type", "default", "value", "description", "secret", "items"}


class Project(NamedTuple):
    """A Pulumi project with a program in Python or YAML.

    Attributes:
        root: The folder with `Pulumi.yaml`.
        name: The project's name, also the namespace of its config keys.
        program: The file to run.
        runtime: `python` or `yaml`.
        content: The YAML program, empty for Python.
        stacks: The folder with the stacks' config files.
        config: The `config` block with parsed YAML values.
        spelled_config: The same with all scalars as text, exactly as spelled.
    """

    root: Path
    name: str
    program: Path
    runtime: str
    content: dict[str, Any]
    stacks: Path
    config: dict[str, Any]
    spelled_config: dict[str, Any]


class StackConfig(NamedTuple):
    """The configuration of one stack.

    Attributes:
        stack: The stack's short name.
        values: All values as text, by full key, `project:key`.
        findings: Warnings about values that only Pulumi can read.
        encrypted: The ciphertexts by full key.
    """

    stack: str
    values: dict[str, str]
    findings: tuple[Finding, ...]
    encrypted: Mapping[str, str]


def load_project(folder: Path) -> Project:
    """Read the project in a folder; raises ProgramError if it has no program to run."""
    path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    if path is None:
        raise _make_error("no Pulumi.yaml in this directory")
    content, spelled = _read_mapping(path)
    name, runtime = content.get("name"), content.get("runtime")
    if not isinstance(name, str) or not name:
        raise _make_error(f"{path.name}: name is missing")
    runtime = runtime.get("name") if isinstance(runtime, dict) else runtime
    if runtime not in ("python", "yaml"):
        raise _make_error(
            f"{path.name}: runtime is {runtime or 'missing'}, but only Python and YAML programs "
            "are supported; run `pulumi preview`, or write the service as a manifest or a YAML "
            "program"
        )
    root, config = folder.resolve(), _read_config(path, content)
    program = Path(str(content.get("main") or "."))
    if (root / program).is_dir():
        program /= "Main.yaml" if runtime == "yaml" else "__main__.py"
        if runtime == "yaml" and not (root / program).is_file():
            program = Path(path.name)
    if not (root / program).is_file():
        raise _make_error(f"{path.name}: {program} does not exist")
    program = (root / program).resolve()
    return Project(
        root=root,
        name=name,
        program=program,
        runtime=runtime,
        content=_read_mapping(program)[0] if runtime == "yaml" else {},
        stacks=root / str(content.get("stackConfigDir") or "."),
        config=config,
        spelled_config=spelled.get("config") or {},
    )


def _make_error(text: str) -> ProgramError:
    return ProgramError(error(PROJECT_FILE_INVALID, (), text))


def _read_config(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    config = content.get("config") or {}
    if not isinstance(config, dict):
        raise _make_error(f"{path.name}: config must be a mapping")
    return config


def read_stack_config(project: Project, stack: str | None) -> StackConfig:
    """Read the configuration of a stack, by default of the only stack, otherwise of `dev`.

    Raises ProgramError if the stack does not exist, its file is invalid or a value is missing.
    """
    name, path, findings = _choose_stack(project, stack)
    values: dict[str, str] = {}
    encrypted: dict[str, str] = {}
    if path is not None:
        content, spelled = _read_mapping(path)
        if content.get("environment"):
            text = f"{path.name}: environment is ignored, because only Pulumi can open it"
            findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
        for key, value in _read_config(path, content).items():
            full_key = _add_namespace(project.name, str(key))
            masked = _mask_encrypted(value)
            values[full_key] = _to_text(masked, (spelled.get("config") or {}).get(str(key)))
            if masked != value:
                encrypted[full_key] = json.dumps(value, sort_keys=True, default=str)
                text = f"{path.name}: config {full_key} is encrypted; {SECRET} is used instead"
                findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
    _add_defaults(project, name, values)
    return StackConfig(name, values, tuple(findings), encrypted)


def _read_mapping(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the mapping in a YAML file: parsed, and with all scalars as text, exactly as spelled.

    Pulumi uses the spelling of config values: `1.10` is not `1.1`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        contents = list(parse_yaml(text))
    except UnicodeDecodeError:
        raise _make_error(f"{path.name}: not UTF-8 text") from None
    except (OSError, YamlTextError) as problem:
        raise _make_error(f"{path.name}: {problem}") from None
    if not contents:
        return {}, {}
    if len(contents) > 1 or not isinstance(contents[0], dict):
        raise _make_error(f"{path.name}: must be one YAML mapping")
    spelled = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # builds strings only
    return contents[0], spelled


def _choose_stack(project: Project, stack: str | None) -> tuple[str, Path | None, list[Finding]]:
    stacks: dict[str, Path] = {}
    for suffix in ("yml", "yaml"):
        for path in sorted(project.stacks.glob(f"Pulumi.*.{suffix}")):
            stacks[path.name[len("Pulumi.") : -len(suffix) - 1]] = path
    names = ", ".join(sorted(stacks)) or "none"
    if stack is not None:
        short_name = stack.rpartition("/")[2]  # without organisation and project
        if short_name not in stacks:
            text = f"no stack {short_name}: Pulumi.{short_name}.yaml is missing (stacks: {names})"
            raise _make_error(text)
        return short_name, stacks[short_name], []
    if len(stacks) == 1:
        return *next(iter(stacks.items())), []
    findings = []
    if stacks:
        choice = f"using {_DEFAULT_STACK}" if _DEFAULT_STACK in stacks else "running without config"
        text = f"no stack selected, {choice} (stacks: {names}); select one with --stack"
        findings = [warning(STACK_NOT_CHOSEN, (), text)]
    return _DEFAULT_STACK, stacks.get(_DEFAULT_STACK), findings


def _add_defaults(project: Project, stack: str, values: dict[str, str]) -> None:
    missing = []
    for key, entry in project.config.items():
        full_key = _add_namespace(project.name, str(key))
        if full_key in values:
            continue
        text = project.spelled_config.get(str(key))
        if isinstance(entry, dict) and entry and set(entry) <= _DECLARATION_KEYS:
            field = next((name for name in ("default", "value") if name in entry), None)
            if field is not None:
                values[full_key] = _to_text(entry[field], text.get(field) if text else None)
            elif full_key.startswith(f"{project.name}:"):
                missing.append(str(key))
        elif entry is not None:
            values[full_key] = _to_text(entry, text)
    if missing:
        names = ", ".join(sorted(missing))
        raise _make_error(f"stack '{stack}' is missing configuration values: {names}")


def _add_namespace(project: str, key: str) -> str:
    return key if ":" in key else f"{project}:{key}"


def _to_text(value: Any, spelled: Any) -> str:
    if value is None:
        return ""
    if isinstance(spelled, str) and not isinstance(value, (dict, list)):
        return spelled
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _mask_encrypted(value: Any) -> Any:
    """Replace each `secure: ciphertext` by a mask, because only the stack's key can decrypt it."""
    if isinstance(value, dict):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            return SECRET
        return {key: _mask_encrypted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mask_encrypted(item) for item in value]
    return value
