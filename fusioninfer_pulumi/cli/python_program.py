"""Generates Pulumi programs in Python."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusioninfer_pulumi import api
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.spec_model import SpecModel

_PACKAGE = "fusioninfer_pulumi"
_COMPONENT = "InferenceService"
_WIDTH = 100
_STEP = "    "


def python_program(services: Sequence[InferenceServiceArgs]) -> str:
    """The text of a program that declares these services.

    Each is a component whose logical name is the service's; with its namespace in front where
    another service has the same name.
    """
    names = [str(service.name) for service in services]
    used = {_COMPONENT}
    statements = []
    for args, name in zip(services, names, strict=True):
        logical = name if names.count(name) == 1 else f"{args.namespace}-{name}"
        fields = _fields(args, {"name"} if logical == name else set())
        declared = [("", _text(logical)), ("", _call(type(args), fields, used, _STEP))]
        statements.append(_joined(f"{_COMPONENT}(", declared, ")", ""))
    # Constants come before classes, as import sorters put them.
    names = sorted(used, key=lambda name: (not name.isupper(), name))
    imported = "".join(f"{_STEP}{name},\n" for name in names)
    header = f'"""Services that fusioninfer-pulumi converted."""\n\nfrom {_PACKAGE} import (\n'
    return f"{header}{imported})\n\n" + "\n".join(f"{statement}\n" for statement in statements)


def _fields(
    model: SpecModel, leave_out: set[str] | frozenset[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    for name in type(model).model_fields:
        if name in model.model_fields_set and name not in leave_out:
            yield name, getattr(model, name)


def _call(
    kind: type[SpecModel],
    fields: Iterator[tuple[str, Any]],
    used: set[str],
    indent: str,
    lead: int = 0,
) -> str:
    used.add(kind.__name__)
    below = indent + _STEP
    parts = [(f"{name}=", _value(value, used, below, len(name) + 1)) for name, value in fields]
    return _joined(f"{kind.__name__}(", parts, ")", indent, lead)


def _value(value: Any, used: set[str], indent: str, lead: int = 0) -> str:
    """An expression for a value behind a key of `lead` characters; further lines are indented."""
    below = indent + _STEP
    if isinstance(value, enum.Enum):
        if not _is_public(type(value)):
            return _text(value.value)
        used.add(type(value).__name__)
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, SpecModel):
        if _is_public(type(value)):
            return _call(type(value), _fields(value), used, indent, lead)
        aliases = {name: field.alias for name, field in type(value).model_fields.items()}
        named = {aliases[name] or name: item for name, item in _fields(value)}
        return _value(named, used, indent, lead)
    if isinstance(value, Mapping):
        keys = [f"{_text(key)}: " for key in value]
        items = [
            (key, _value(item, used, below, len(key)))
            for key, item in zip(keys, value.values(), strict=True)
        ]
        return _joined("{", items, "}", indent, lead)
    if isinstance(value, (list, tuple)):
        entries = [("", _value(item, used, below)) for item in value]
        return _joined("[", entries, "]", indent, lead)
    return _text(value, below) if isinstance(value, str) else repr(value)


def _is_public(kind: type[Any]) -> bool:
    return getattr(api, kind.__name__, None) is kind


def _joined(
    start: str, parts: Sequence[tuple[str, str]], end: str, indent: str, lead: int = 0
) -> str:
    """A bracket with its parts: on one line where they fit."""
    texts = [f"{key}{value}" for key, value in parts]
    line = f"{start}{', '.join(texts)}{end}"
    if "\n" not in line and len(indent) + lead + len(line) < _WIDTH:
        return line
    below = indent + _STEP
    return f"{start}\n" + "".join(f"{below}{text},\n" for text in texts) + f"{indent}{end}"


def _text(value: Any, indent: str = "") -> str:
    """A string literal; for several lines, one literal for each."""
    lines = value.splitlines(keepends=True) if isinstance(value, str) else []
    if len(lines) < 2 or not indent:  # one line is a literal
        return _literal(value)
    inside = "".join(f"{indent}{_literal(line)}\n" for line in lines)
    return f"(\n{inside}{indent.removesuffix(_STEP)})"


def _literal(value: Any) -> str:
    """A literal in double quotes where it needs no escapes."""
    text = repr(value)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text
