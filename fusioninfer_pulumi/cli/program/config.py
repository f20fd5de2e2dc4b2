"""A stack's configuration as the program will read it through `pulumi.Config`.

Follows the CLI: values of `Pulumi.<stack>.yaml`, then defaults of `Pulumi.yaml`; keys without a
namespace belong to the project, scalars are taken as they are spelled, structures become JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.cli.program.project import Project, read_mapping
from fusioninfer_pulumi.cli.program.records import SECRET, ProgramError

#: Stack whose name a program sees when the project has no stack.
DEFAULT_STACK = "dev"
#: Keys of a declaration in `Pulumi.yaml`; a mapping with any other key is a value.
_DECLARATION = {"type", "default", "value", "description", "secret", "items"}


@dataclass(frozen=True)
class StackConfig:
    """The configuration of one stack.

    Attributes:
        stack: The stack's short name.
        values: Text of every value by its full key, `project:key`.
        secret_keys: The keys whose values are secret.
        warnings: What could not be read without the engine.
        encrypted: Of each key with an encrypted value what the file holds.
    """

    stack: str
    values: dict[str, str]
    secret_keys: tuple[str, ...]
    warnings: tuple[str, ...]
    encrypted: Mapping[str, str]


def stack_config(project: Project, stack: str | None) -> StackConfig:
    """Reads the configuration of a stack.

    Args:
        project: The project.
        stack: The stack's name; without one, the only stack there is, else `dev`.

    Raises:
        ProgramError: The stack does not exist, its file cannot be used, or a value is missing.
    """
    name, path, warnings = _choose(project, stack)
    values: dict[str, str] = {}
    encrypted: dict[str, str] = {}
    if path is not None:
        content, spelled = read_mapping(path)
        block = content.get("config") or {}
        if not isinstance(block, dict):
            raise ProgramError(f"{path.name}: config must be a mapping")
        if content.get("environment"):
            warnings.append(f"{path.name}: environment: only Pulumi can open it; left out")
        for key, value in block.items():
            full = _full_key(project.name, str(key))
            shown, hidden = _without_encrypted(value)
            values[full] = _text(shown, (spelled.get("config") or {}).get(str(key)))
            if hidden:
                encrypted[full] = json.dumps(value, sort_keys=True, default=str)
                warnings.append(
                    f"{path.name}: config {full} is encrypted; {SECRET} stands in for it"
                )
    _add_defaults(project, name, values)
    return StackConfig(name, values, tuple(encrypted), tuple(warnings), encrypted)


def _choose(project: Project, stack: str | None) -> tuple[str, Path | None, list[str]]:
    found = _stack_files(project)
    if stack is not None:
        short = stack.rpartition("/")[2]  # organisation/project/stack names the same file
        if short not in found:
            names = ", ".join(sorted(found)) or "none"
            raise ProgramError(
                f"no stack {short}: Pulumi.{short}.yaml is missing (stacks: {names})"
            )
        return short, found[short], []
    if len(found) == 1:
        name, path = next(iter(found.items()))
        return name, path, []
    if found and DEFAULT_STACK not in found:
        names = ", ".join(sorted(found))
        return DEFAULT_STACK, None, [f"no stack chosen, run without stack config (stacks: {names})"]
    return DEFAULT_STACK, found.get(DEFAULT_STACK), []


def _stack_files(project: Project) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for suffix in ("yml", "yaml"):
        for path in sorted(project.stacks.glob(f"Pulumi.*.{suffix}")):
            found[path.name[len("Pulumi.") : -len(suffix) - 1]] = path
    return found


def _add_defaults(project: Project, stack: str, values: dict[str, str]) -> None:
    missing = []
    _, spelled = read_mapping(project.root / project.file)
    texts = spelled.get("config") if project.config else {}
    for key, declared in project.config.items():
        full = _full_key(project.name, str(key))
        if full in values:
            continue
        text = (texts or {}).get(str(key))
        if isinstance(declared, dict) and declared and set(declared) <= _DECLARATION:
            field = next((name for name in ("default", "value") if name in declared), None)
            if field is not None:
                values[full] = _text(declared[field], text.get(field) if text else None)
            elif full.startswith(f"{project.name}:"):
                missing.append(str(key))
        elif declared is not None:
            values[full] = _text(declared, text)
    if missing:
        kind = "value" if len(missing) == 1 else "values"
        names = ", ".join(f"'{key}'" for key in sorted(missing))
        raise ProgramError(f"stack '{stack}' is missing configuration {kind} {names}")


def _full_key(project: str, key: str) -> str:
    namespace, colon, name = key.partition(":")
    if not colon:
        return f"{project}:{key}"
    # `project:config:key` is how the first versions of the CLI wrote keys.
    return f"{namespace}:{name.removeprefix('config:')}"


def _text(value: Any, spelled: Any) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value, default=str)
    if value is None:
        return ""
    if isinstance(spelled, str):
        return spelled
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _without_encrypted(value: Any) -> tuple[Any, bool]:
    """Replaces `secure: ciphertext` inside a value; only the stack's key could open it."""
    if isinstance(value, dict):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            return SECRET, True
        pairs = {key: _without_encrypted(item) for key, item in value.items()}
        return {key: item for key, (item, _) in pairs.items()}, any(
            found for _, found in pairs.values()
        )
    if isinstance(value, list):
        items = [_without_encrypted(item) for item in value]
        return [item for item, _ in items], any(found for _, found in items)
    return value, False
