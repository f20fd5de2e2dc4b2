"""The JSON Schema of the manifest, for editors that complete and check it."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from importlib import resources
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from fusioninfer_pulumi.api.service import InferenceServiceManifest

#: Where the package holds the schema.
PACKAGED = "schema/inference-service.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic derives from field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A field's name is its title."""
        del schema
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Describes a model's fields by their docstrings.

        pydantic's own `use_attribute_docstrings` reads and parses the source of every model at
        each start of the program.
        """
        built = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        for name, text in _docstrings(model).items():
            alias = model.model_fields[name].alias or name
            built["properties"][alias].setdefault("description", text)
        return built


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The string below each field of a model and of its bases."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base is BaseModel:
            continue
        (definition,) = ast.parse(inspect.getsource(base)).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in itertools.pairwise(definition.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(words))),
                ):
                    found[name] = inspect.cleandoc(words)
    return found


def manifest_schema() -> dict[str, Any]:
    """Generates the schema from the models.

    Returns:
        A JSON Schema (draft 2020-12) of an InferenceService manifest.
    """
    schema = InferenceServiceManifest.model_json_schema(by_alias=True, schema_generator=_Untitled)
    schema["title"] = "InferenceService (fusioninfer.io/v1alpha1)"
    return {"$schema": _DIALECT, **schema}


def schema_text() -> str:
    """The schema as the package holds it."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def packaged_schema() -> str:
    """The text of the schema in the installed package."""
    return resources.files("fusioninfer_pulumi").joinpath(PACKAGED).read_text(encoding="utf-8")
