"""Generates code from the models of `api`: type stubs and TypedDicts for checkers and editors.

A model's field has the type of the validated value, but its constructor accepts more: strings for
enums, numbers for quantities, mappings for models, Outputs for values that are only copied into
objects. `dicts.py` has these types as TypedDicts, derived from the models' JSON Schema. The stubs
are the modules of `api` without code; constructors have the fields of the TypedDicts. The wheel has
each stub next to its module.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from json_schema import class_docstring, field_docstrings, fields_schema
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import fusioninfer_pulumi
from fusioninfer_pulumi import api
from fusioninfer_pulumi.api.field_types import OUTPUT_MARK
from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_rules import ROUTER_FIELDS
from fusioninfer_pulumi.api.spec_model import DOCSTRINGS
from fusioninfer_pulumi.generated import DIRECTORY
from fusioninfer_pulumi.presets.model_service import ROLE_FIELDS

PACKAGE = DIRECTORY.parent
STUBS = DIRECTORY / "stubs"

_IMPORT_DICTS = "from fusioninfer_pulumi.generated import dicts"
#: Fields of the service that are parameters of `model_service`.
_PARAMETERS = ("model", "roles", "engine")
ROOTS = (InferenceServiceArgs, InventoryArgs)
MODELS = {name: model for name, model in api.public_types().items() if name.endswith("Args")}

_HEAD = '''"""Typed mappings that the models' constructors accept; written by `make regenerate`.

Only type checkers and editors read them. Programs may import the names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Required, TypedDict

if TYPE_CHECKING:
    from pulumi import Input
    from pulumi_kubernetes.core.v1 import PodTemplateSpecArgs, PodTemplateSpecArgsDict

{imports}
'''
_TEMPLATE = "PodTemplateSpecArgs | PodTemplateSpecArgsDict | Mapping[str, Any]"
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def files() -> dict[Path, str]:
    """Return the expected text of every file."""
    stubs = {
        STUBS / "__init__.pyi": _build_root_stub(),
        STUBS / "api" / "__init__.pyi": _build_api_stub(),
    }
    for module in sorted({model.__module__ for model in api.public_types().values()}):
        source = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
        stubs[STUBS / source.relative_to(PACKAGE).with_suffix(".pyi")] = _build_module_stub(source)
    docstrings = {name: documentation(model) for name, model in MODELS.items()}
    return {
        DIRECTORY / "dicts.py": _build_dicts(),
        DIRECTORY / DOCSTRINGS: json.dumps(docstrings, indent=2, ensure_ascii=False) + "\n",
        **{path: _format(text, path) for path, text in stubs.items()},
    }


def write() -> None:
    """Write the files, and remove stubs of modules that no longer exist."""
    result = files()
    for path in set(STUBS.rglob("*.pyi")) - set(result):
        path.unlink()
    for path, text in result.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _format(text: str, path: Path) -> str:
    """Return the text, formatted and with sorted imports; stubs lose their unused imports."""
    rules = "I" if path.name in ("dicts.py", "__init__.pyi") else "I,F401"
    for command in (["check", f"--select={rules}", "--fix", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


def _build_root_stub() -> str:
    lines = ['"""Written by `make regenerate`."""', "from fusioninfer_pulumi.api import *"]
    for name in fusioninfer_pulumi.__all__:
        if name not in api.public_types():
            module = fusioninfer_pulumi.module_of(name)
            lines.append(f"from fusioninfer_pulumi.{module} import {name} as {name}")
    return "\n".join([*lines, "__version__: str"]) + "\n"


def _build_api_stub() -> str:
    lines = [f"from {kind.__module__} import {n} as {n}" for n, kind in api.public_types().items()]
    return "\n".join(['"""Written by `make regenerate`."""', *lines]) + "\n"


def _build_module_stub(source: Path) -> str:
    tree = _Declarations().visit(ast.parse(source.read_text(encoding="utf-8")))
    added = ast.parse(f"from typing_extensions import Unpack\n{_IMPORT_DICTS}")
    # After the docstring.
    tree.body[1:1] = added.body
    return ast.unparse(tree)


class _Declarations(ast.NodeTransformer):
    """Keeps the public declarations of a module, without code and values, except enum values."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:  # as visit_If
        """Remove imports from `__future__`, which must come first and change nothing in a stub."""
        return None if node.module == "__future__" else node

    def visit_If(self, node: ast.If) -> None:  # the name is that of the base class
        """Remove `if TYPE_CHECKING:`, whose imports no declaration needs."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:  # as above
        """Replace `Annotated[kind, ...]` by its type."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            assert isinstance(node.slice, ast.Tuple)
            return self.visit(node.slice.elts[0])
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:  # as above
        """Remove the body, private functions, and checks (`*_findings`)."""
        if node.name.startswith("_") or node.name.endswith("findings"):
            return None
        node.body = [ast.Expr(ast.Constant(...))]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:  # as above
        """Keep type aliases; keep constants of plain types as declarations."""
        if isinstance(node.value, ast.Subscript):
            return self.generic_visit(node)
        name = ast.unparse(node.targets[0])
        if not isinstance(node.value, ast.Constant) or name.startswith("_"):
            return None
        return ast.parse(f"{name}: {type(node.value.value).__name__}").body[0]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:  # as above
        """Remove the default: the TypedDict says which fields the constructor requires."""
        node.value = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # as above
        """Add the constructor of a model; keep the values of an enum."""
        if any(ast.unparse(base) == "enum.Enum" for base in node.bases):
            functions = [item for item in node.body if isinstance(item, ast.FunctionDef)]
            for function in functions:
                self.visit(function)
            return node
        self.generic_visit(node)
        if node.name in MODELS:
            signature = f"def __init__(self, **fields: Unpack[dicts.{node.name}Dict]) -> None: ..."
            node.body[1:1] = ast.parse(signature).body
        return node


def _build_dicts() -> str:
    schemas = fields_schema(*ROOTS)
    signature = sorted(set(schemas) - {model.__name__ for model in ROOTS})
    modules = {name: kind.__module__ for name, kind in api.public_types().items()}
    imports = "\n".join(f"    from {modules[name]} import {name}" for name in signature)
    classes = [
        _build_class(MODELS[name], schema, schemas)
        for name, schema in schemas.items()
        if "properties" in schema
    ]
    classes += [_build_router(schemas), _build_model_service(schemas)]
    return _format("\n\n".join([_HEAD.format(imports=imports), *classes]), DIRECTORY / "dicts.py")


def _build_model_service(schemas: dict[str, Any]) -> str:
    """Return the TypedDict of the fields that `model_service` accepts as keyword arguments."""
    service = [name for name in InferenceServiceArgs.model_fields if name not in _PARAMETERS]
    fields = ((MODELS["RoleArgs"], ROLE_FIELDS), (InferenceServiceArgs, service))
    words = "Further fields of `model_service`, of the service and its roles."
    return _select_names("ModelServiceDict", words, fields, schemas)


def _build_router(schemas: dict[str, Any]) -> str:
    """Return the TypedDict for the argument `router` of `model_service`."""
    names = ("name", *ROUTER_FIELDS, "pod_labels", "pod_annotations")
    fields = ((MODELS["RoleArgs"], names),)
    return _select_names("RouterDict", "The router of `model_service`.", fields, schemas)


def _select_names(
    title: str,
    words: str,
    fields: Iterable[tuple[type[BaseModel], Sequence[str]]],
    schemas: dict[str, Any],
) -> str:
    """Return a TypedDict with the named fields of models."""
    lines = [f"class {title}(TypedDict, total=False):", f'    """{words}"""']
    for model, names in fields:
        properties = schemas[model.__name__]["properties"]
        for name in names:
            model_schema = properties[model.model_fields[name].alias or name]
            lines += [
                "",
                f"    {name}: {_render_type(model_schema, schemas)}",
                *_build_docstring(model_schema["description"]),
            ]
    return "\n".join(lines) + "\n"


def _build_class(model: type[BaseModel], schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    lines = [f"class {model.__name__}Dict(TypedDict, total=False):"]
    lines += _build_docstring(schema["description"].partition("\n\nRaises:")[0])
    for name, field in model.model_fields.items():
        property_schema = schema["properties"][field.alias or name]
        result = _render_type(property_schema, schemas)
        if field.is_required():
            result = f"Required[{result}]"
        lines += ["", f"    {name}: {result}"]
        lines += _build_docstring(property_schema["description"])
    return "\n".join(lines) + "\n"


def _render_type(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return the type of a field's values."""
    return " | ".join(dict.fromkeys(_render_types(schema, schemas)))


def _render_types(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    if schema.get(OUTPUT_MARK):
        known = {key: value for key, value in schema.items() if key != OUTPUT_MARK}
        return [f"Input[{_render_type(known, schemas)}]"]
    if "anyOf" in schema:
        return [
            choice_type
            for choice in schema["anyOf"]
            for choice_type in _render_types(choice, schemas)
        ]
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if "properties" in schemas[name]:
            return [name, f"{name}Dict"]
        return [name, *_render_types(schemas[name], schemas)]
    if "enum" in schema:
        return [f"Literal[{', '.join(_render_literal(literal) for literal in schema['enum'])}]"]
    if isinstance(schema.get("type"), list):
        return [_PLAIN[json_type] for json_type in schema["type"]]
    match schema.get("type"):
        case "array":
            return [f"Sequence[{_render_type(schema['items'], schemas)}]"]
        case "object" if "properties" in schema:
            return _TEMPLATE.split(" | ")
        case "object":
            inner = schema.get("additionalProperties")
            inner_type = _render_type(inner, schemas) if isinstance(inner, dict) else "Any"
            return [f"Mapping[str, {inner_type}]"]
        case None:
            return ["Any"]
        case kind:
            return [_PLAIN[kind]]


def _render_literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _build_docstring(words: str) -> list[str]:
    lines = [f"    {line}".rstrip() for line in words.split("\n")]
    lines[0] = f'    """{words.partition(chr(10))[0]}'
    lines[-1] += '"""'
    return lines


def documentation(model: type[BaseModel]) -> str:
    """Return the model's docstring with one entry for each field."""
    words = field_docstrings(model)
    entries = ["", "", "Args:"]
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        optional = "" if default in (None, PydanticUndefined) else f" (default {default!r})"
        first, *rest = words.get(name, "").split("\n")
        entries += [f"    {name}{optional}: {first}", *(f"        {line}" for line in rest)]
    summary, mark, raised = class_docstring(model).partition("\n\nRaises:")
    return summary + "\n".join(entries) + mark + raised
