"""Generates the JSON Schema of the manifest, for completion and validation in editors."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import json
import sys
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from fusioninfer_pulumi.api.field_types import OUTPUT_MARK
from fusioninfer_pulumi.api.service import InferenceServiceManifest

#: Key of a class's own docstring; other keys are names of its fields.
_CLASS = ""
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    """Omits the titles that pydantic derives from field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False, because the title would only repeat the field's name."""
        del schema
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Set the descriptions of a model and its fields to their docstrings.

        With pydantic's `use_attribute_docstrings`, each start of a program would parse the sources
        of all models.
        """
        built = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        built["description"] = class_docstring(model)
        for name, text in field_docstrings(model).items():
            alias = model.model_fields[name].alias or name
            built["properties"][alias].setdefault("description", text)
        return built


def class_docstring(model: type[BaseModel]) -> str:
    """Return the docstring of a model from its source, because `__doc__` also lists the fields."""
    return _read_docstrings(model.__module__)[model.__name__][_CLASS]


def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the string below each field of a model and of its bases."""
    docstrings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docstrings |= attribute_docstrings(base)
    return docstrings


def attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the string below each attribute of a class."""
    docstrings = dict(_read_docstrings(kind.__module__).get(kind.__name__, {}))
    docstrings.pop(_CLASS, None)
    return docstrings


@functools.cache
def _read_docstrings(module: str) -> dict[str, dict[str, str]]:
    """Return each class's docstring and the string below each field, by class name."""
    classes: dict[str, dict[str, str]] = {}
    for definition in ast.parse(inspect.getsource(sys.modules[module])).body:
        if not isinstance(definition, ast.ClassDef):
            continue
        docstrings = classes[definition.name] = {_CLASS: ast.get_docstring(definition) or ""}
        for field, text in itertools.pairwise(definition.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    docstrings[name] = inspect.cleandoc(words)
    return classes


def fields_schema(*roots: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of each model and enum that can be reached from `roots`, by its name.

    Fields have their names in YAML; those that may be Outputs carry `OUTPUT_MARK`.
    """
    schemas: dict[str, Any] = {}
    for root in roots:
        schema = root.model_json_schema(by_alias=True, schema_generator=_Untitled)
        schemas |= schema.pop("$defs", {})
        schemas[root.__name__] = schema
    return dict(sorted(schemas.items()))


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a manifest, generated from the models."""
    schema = InferenceServiceManifest.model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema["title"] = "InferenceService (fusioninfer.io/v1alpha1)"
    return {"$schema": _DIALECT, **_remove_marks(schema)}


def _remove_marks(schema: Any) -> Any:
    """Return the schema without `OUTPUT_MARK`, because manifests cannot contain Outputs."""
    if isinstance(schema, dict):
        return {key: _remove_marks(item) for key, item in schema.items() if key != OUTPUT_MARK}
    return [_remove_marks(item) for item in schema] if isinstance(schema, list) else schema


def schema_text() -> str:
    """Return the text of `docs/inference-service.schema.json`."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"
