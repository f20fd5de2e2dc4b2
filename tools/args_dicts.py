"""Writes `fusioninfer_pulumi/generated/dicts.py`: the types of what the models' constructors take.

A model's field has the type of the validated value; this file has the types of what may be written
for it: words for enums, numbers for quantities, mappings for models, Outputs where they are passed
on. It follows from the models' JSON Schema, so that it cannot say anything else.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import fusioninfer_pulumi.api as models
from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.schema import fields_schema
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.types import OUTPUT_MARK
from fusioninfer_pulumi.presets.model_service import ROLE_FIELDS

TARGET = Path(__file__).resolve().parent.parent / "fusioninfer_pulumi" / "generated" / "dicts.py"

#: Fields of the service that are parameters of `model_service`.
_OWN = ("model", "roles", "engine")
ROOTS = (InferenceServiceArgs, InventoryArgs)

_HEAD = '''"""What the models' constructors take, as typed mappings: written by `make regenerate`.

Read only by type checkers and editors, but for the names, which programs may import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from pulumi import Input
    from pulumi_kubernetes.core.v1 import PodTemplateSpecArgs, PodTemplateSpecArgsDict

    from fusioninfer_pulumi.api import (
{imports}
    )
'''
_TEMPLATE = "PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any]"
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def text() -> str:
    """The file as it should be."""
    schemas = fields_schema(*ROOTS)
    used = set(schemas) - {model.__name__ for model in ROOTS}
    imports = "\n".join(f"        {name}," for name in sorted(used))
    classes = [
        _class(getattr(models, name), schema, schemas)
        for name, schema in schemas.items()
        if "properties" in schema
    ]
    classes.append(_model_service(schemas))
    written = "\n\n".join([_HEAD.format(imports=imports), *classes])
    for command in (["check", "--select=I", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET), "-"],
            input=written,
            capture_output=True,
            text=True,
            check=True,
        )
        written = done.stdout
    return written


def _model_service(schemas: dict[str, Any]) -> str:
    """The fields that `model_service` takes beside its own parameters."""
    lines = [
        "class ModelServiceDict(TypedDict, total=False):",
        '    """Further fields of `model_service`, of the service and its roles."""',
    ]
    service = [name for name in InferenceServiceArgs.model_fields if name not in _OWN]
    for model, names in ((models.RoleArgs, ROLE_FIELDS), (InferenceServiceArgs, service)):
        properties = schemas[model.__name__]["properties"]
        for name in names:
            model_schema = properties[model.model_fields[name].alias or name]
            lines += [
                "",
                f"    {name}: {_type(model_schema, schemas)}",
                *_docstring(model_schema["description"]),
            ]
    return "\n".join(lines) + "\n"


def _class(model: type[BaseModel], schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"class {model.__name__}Dict(TypedDict, total=False):"]
    lines += _docstring(schema["description"].partition("\n\nRaises:")[0])
    for name, field in model.model_fields.items():
        property_schema = schema["properties"][field.alias or name]
        written = _type(property_schema, schemas)
        if field.is_required():
            written = f"Required[{written}]"
        lines += ["", f"    {name}: {written}"]
        lines += _docstring(property_schema["description"])
    return "\n".join(lines) + "\n"


def _type(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The type of what may be written for a field."""
    return " | ".join(dict.fromkeys(_types(schema, schemas)))


def _types(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    if schema.get(OUTPUT_MARK):
        known = {key: value for key, value in schema.items() if key != OUTPUT_MARK}
        return [f"Input[{_type(known, schemas)}]"]
    if "anyOf" in schema:
        return [
            choice_type for choice in schema["anyOf"] for choice_type in _types(choice, schemas)
        ]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if "properties" in schemas[name]:
            return [name, f"{name}Dict"]
        return [name, *_types(schemas[name], schemas)]
    if "enum" in schema:
        return [f"Literal[{', '.join(_literal(literal) for literal in schema['enum'])}]"]
    if isinstance(schema.get("type"), list):
        return [_PLAIN[json_type] for json_type in schema["type"]]
    match schema.get("type"):
        case "array":
            return [f"Sequence[{_type(schema['items'], schemas)}]"]
        case "object" if "properties" in schema:
            return _TEMPLATE.split(" | ")
        case "object":
            inner = schema.get("additionalProperties")
            inner_type = _type(inner, schemas) if isinstance(inner, dict) else "Any"
            return [f"Mapping[str, {inner_type}]"]
        case None:
            return ["Any"]
        case kind:
            return [_PLAIN[kind]]


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _docstring(words: str) -> list[str]:
    lines = [f"    {line}".rstrip() for line in words.split("\n")]
    lines[0] = f'    """{words.partition(chr(10))[0]}'
    lines[-1] += '"""'
    return lines
