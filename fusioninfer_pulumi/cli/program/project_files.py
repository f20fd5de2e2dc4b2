"""Reads a project: `Pulumi.yaml`, and a stack's configuration for `pulumi.Config`.

As in Pulumi, values in `Pulumi.<stack>.yaml` override defaults in `Pulumi.yaml`, keys without a
namespace belong to the project, scalars keep their spelling, and structures become JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fusioninfer_pulumi.cli.program.recording import SECRET
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Rule, error, warning
from fusioninfer_pulumi.loading.yaml_text import parse_yaml

PROJECT_FILE_INVALID = Rule("project-file-invalid")
STACK_NOT_CHOSEN = Rule("stack-not-chosen")
UNKNOWN_WITHOUT_PULUMI = Rule("unknown-without-pulumi")

PROJECT_FILES = ("Pulumi.yaml", "Pulumi.yml")
#: Name of the stack if none is chosen and the project does not have exactly one.
_DEFAULT_STACK = "dev"


class _YamlFile(NamedTuple):
    """The mapping in a YAML file: `1.10` is the number 1.1 in `content`, "1.10" in `spelled`."""

    content: dict[str, Any]
    spelled: dict[str, Any]


class Project(NamedTuple):
    """A Pulumi project with a program in Python or YAML, and the configuration of one stack.

    Attributes:
        root: The directory with `Pulumi.yaml`.
        content: The content of `Pulumi.yaml`, which also contains a program in YAML.
        program: The file to run.
        runtime: `python` or `yaml`.
        stack: The stack's short name.
        config: All config values as text, by full key, `project:key`.
        encrypted: The config values with ciphertexts, by full key.
        findings: Warnings about which stack was chosen, and about values that only Pulumi can read.
    """

    root: Path
    content: dict[str, Any]
    program: Path
    runtime: str
    stack: str
    config: dict[str, str]
    encrypted: dict[str, Any]
    findings: list[Finding]


def load_project(directory: Path, stack: str | None) -> Project:
    """Read a project and a stack from a directory that has one of `PROJECT_FILES`.

    If `stack` is None, it is the only stack, or `dev` if there are several.

    Raises InvalidServiceError if the project has no program to run, the stack does not exist, or a
    file is invalid.
    """
    root = directory.resolve()
    path = next(root / name for name in PROJECT_FILES if (root / name).is_file())
    project_file = _read_file(path)
    content = project_file.content
    name = content.get("name")
    if not isinstance(name, str) or not name:
        raise _make_error(f"{path.name}: name is missing")
    runtime = content.get("runtime")
    if isinstance(runtime, dict):
        runtime = runtime.get("name")
    if runtime not in ("python", "yaml"):
        raise _make_error(
            f"{path.name}: runtime is {runtime or 'missing'}, but only Python and YAML programs "
            "are supported; run `pulumi preview`, or write the service as a manifest or a YAML "
            "program"
        )
    if runtime == "yaml" and "main" in content:
        raise _make_error(f"{path.name}: main of a YAML program needs the Pulumi engine")
    main = Path(path.name if runtime == "yaml" else str(content.get("main") or "."))
    if (root / main).is_dir():
        main = main / "__main__.py"
    if not (root / main).is_file():
        raise _make_error(f"{path.name}: {main} does not exist")
    stack_directory = root / str(content.get("stackConfigDir") or ".")
    stack, stack_path, findings = _choose_stack(stack_directory, stack)
    stack_file = _YamlFile({}, {}) if stack_path is None else _read_file(stack_path)
    if stack_file.content.get("environment"):
        text = f"Pulumi.{stack}.yaml: environment is ignored, because only Pulumi can open it"
        findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
    config = dict(_list_defaults(project_file, name))
    encrypted = {}
    for key, value, spelled in _list_config(stack_file, name):
        # Mask ciphertexts at any depth: parsing JSON calls the hook for each nested mapping. JSON
        # also turns keys into text, so the values are compared as JSON below.
        masked = json.loads(json.dumps(value), object_hook=_mask_ciphertext)
        config[key] = _to_text(masked, spelled)
        if json.dumps(masked) != json.dumps(value):
            encrypted[key] = value
            text = f"Pulumi.{stack}.yaml: config {key} is encrypted; {SECRET} is used instead"
            findings.append(warning(UNKNOWN_WITHOUT_PULUMI, (), text))
    program = (root / main).resolve()
    return Project(root, content, program, runtime, stack, config, encrypted, findings)


def _make_error(text: str) -> InvalidServiceError:
    return InvalidServiceError([error(PROJECT_FILE_INVALID, (), text)])


def _read_file(path: Path) -> _YamlFile:
    try:
        text = path.read_text(encoding="utf-8")
        contents = list(parse_yaml(text)) or [{}]
    except (OSError, ValueError) as exc:  # not UTF-8, or not YAML
        raise _make_error(f"{path.name}: {exc}") from None
    content = contents[0]
    if len(contents) > 1 or not isinstance(content, dict):
        raise _make_error(f"{path.name}: must be one YAML mapping")
    for section in ("config", "resources", "variables", "outputs"):
        if not isinstance(content.get(section) or {}, dict):
            raise _make_error(f"{path.name}: {section} must be a mapping")
    spelled = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  # builds strings only
    return _YamlFile(content, spelled or {})


def _choose_stack(directory: Path, stack: str | None) -> tuple[str, Path | None, list[Finding]]:
    """Return the name of the stack, its config file if it has one, and warnings."""
    stacks = {
        path.stem.removeprefix("Pulumi."): path for path in sorted(directory.glob("Pulumi.*.y*ml"))
    }
    names = ", ".join(sorted(stacks)) or "none"
    if stack is not None:
        name = stack.rpartition("/")[2]  # without organization and project
        if name not in stacks:
            raise _make_error(f"no stack {name}: Pulumi.{name}.yaml is missing (stacks: {names})")
        return name, stacks[name], []
    if len(stacks) == 1:
        ((name, path),) = stacks.items()
        return name, path, []
    choice = f"using {_DEFAULT_STACK}" if _DEFAULT_STACK in stacks else "running without config"
    text = f"no stack selected, {choice} (stacks: {names}); select one with --stack"
    findings = [warning(STACK_NOT_CHOSEN, (), text)] if stacks else []
    return _DEFAULT_STACK, stacks.get(_DEFAULT_STACK), findings


def _list_config(file: _YamlFile, project: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the full key of each entry of `config`, its value, and the value as spelled."""
    for key, value in (file.content.get("config") or {}).items():
        full_key = key if ":" in str(key) else f"{project}:{key}"
        yield full_key, value, file.spelled["config"].get(str(key))


def _list_defaults(file: _YamlFile, project: str) -> Iterator[tuple[str, str]]:
    """Yield the config values of `Pulumi.yaml`; a mapping may declare only a type, no value."""
    for key, value, spelled in _list_config(file, project):
        if not isinstance(value, dict):
            yield key, _to_text(value, spelled)
        elif field := next((name for name in ("default", "value") if name in value), None):
            yield key, _to_text(value[field], spelled[field])


def _to_text(value: Any, spelled: Any) -> str:
    if isinstance(spelled, str):  # a scalar
        return spelled
    # The value is a mapping or list, or the text that masks a ciphertext.
    return value if isinstance(value, str) else json.dumps(value)


def _mask_ciphertext(mapping: dict[str, Any]) -> Any:
    """Replace `secure: ciphertext` by a mask, because only the stack's key can decrypt it."""
    return SECRET if mapping.keys() == {"secure"} else mapping
