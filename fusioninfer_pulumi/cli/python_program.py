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
_INDENT = "    "


def python_program(services: Sequence[InferenceServiceArgs]) -> str:
    """Return a program that declares these services.

    The logical name of a component is the service's name, with its namespace as a prefix if
    several services have the same name.
    """
    names = [str(service.name) for service in services]
    imports = {_COMPONENT}
    statements = []
    for args, name in zip(services, names, strict=True):
        logical = name if names.count(name) == 1 else f"{args.namespace}-{name}"
        # The component uses its logical name for a service without a name.
        fields = _list_fields(args, excluded=("name",) if logical == name else ())
        call = _format_call(type(args), fields, imports, _INDENT)
        arguments = [_format_text(logical), call]
        statements.append(_format_bracket(f"{_COMPONENT}(", arguments, ")", ""))
    # The order of import sorters: names in capitals come first.
    imported = sorted(imports, key=lambda name: (not name.isupper(), name))
    import_lines = "".join(f"{_INDENT}{name},\n" for name in imported)
    header = f'"""Services that fusioninfer-pulumi converted."""\n\nfrom {_PACKAGE} import (\n'
    return f"{header}{import_lines})\n\n" + "\n".join(f"{statement}\n" for statement in statements)


def _list_fields(model: SpecModel, excluded: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    for name in type(model).model_fields:
        if name in model.model_fields_set and name not in excluded:
            yield name, getattr(model, name)


def _format_call(
    kind: type[SpecModel],
    fields: Iterator[tuple[str, Any]],
    imports: set[str],
    indent: str,
    key_width: int = 0,
) -> str:
    """Return the constructor call of a model, and add the names that it uses to `imports`."""
    imports.add(kind.__name__)
    inner = indent + _INDENT
    parts = [
        f"{name}={_format_value(value, imports, inner, len(name) + 1)}" for name, value in fields
    ]
    return _format_bracket(f"{kind.__name__}(", parts, ")", indent, key_width)


def _format_value(value: Any, imports: set[str], indent: str, key_width: int = 0) -> str:
    """Return an expression for a value that follows a key of `key_width` characters."""
    inner = indent + _INDENT
    if isinstance(value, enum.Enum):
        if not _is_public(type(value)):
            return _format_text(value.value)
        imports.add(type(value).__name__)
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, SpecModel):
        if _is_public(type(value)):
            return _format_call(type(value), _list_fields(value), imports, indent, key_width)
        # The program cannot import the class, so it contains a dict with the manifest's keys.
        aliases = {name: field.alias for name, field in type(value).model_fields.items()}
        by_alias = {aliases[name] or name: item for name, item in _list_fields(value)}
        return _format_value(by_alias, imports, indent, key_width)
    if isinstance(value, Mapping):
        keys = [f"{_format_text(key)}: " for key in value]
        items = [
            f"{key}{_format_value(item, imports, inner, len(key))}"
            for key, item in zip(keys, value.values(), strict=True)
        ]
        return _format_bracket("{", items, "}", indent, key_width)
    if isinstance(value, (list, tuple)):
        entries = [_format_value(item, imports, inner) for item in value]
        return _format_bracket("[", entries, "]", indent, key_width)
    return _format_text(value, inner) if isinstance(value, str) else repr(value)


def _is_public(kind: type[Any]) -> bool:
    return getattr(api, kind.__name__, None) is kind


def _format_bracket(
    start: str, parts: Sequence[str], end: str, indent: str, key_width: int = 0
) -> str:
    """Return a bracket on one line if its parts fit, otherwise with one part on each line."""
    line = f"{start}{', '.join(parts)}{end}"
    if "\n" not in line and len(indent) + key_width + len(line) < _WIDTH:
        return line
    inner = indent + _INDENT
    return f"{start}\n" + "".join(f"{inner}{part},\n" for part in parts) + f"{indent}{end}"


def _format_text(value: Any, indent: str = "") -> str:
    """Return a literal; with an indent, a text of several lines becomes one literal per line."""
    lines = value.splitlines(keepends=True) if isinstance(value, str) else []
    if len(lines) < 2 or not indent:
        return _format_literal(value)
    inside = "".join(f"{indent}{_format_literal(line)}\n" for line in lines)
    return f"(\n{inside}{indent.removesuffix(_INDENT)})"


def _format_literal(value: Any) -> str:
    """Return a literal, in double quotes unless that needs escapes."""
    text = repr(value)
    return f'"{text[1:-1]}"' if text.startswith("'") and '"' not in text else text
