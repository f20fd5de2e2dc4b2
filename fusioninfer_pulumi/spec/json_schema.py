"""The JSON Schema of the manifest, for editors that complete and check it."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from fusioninfer_pulumi.spec.service import InferenceServiceManifest

#: Where the package holds the schema.
PACKAGED = "schema/inference-service.schema.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Untitled(GenerateJsonSchema):
    """Leaves out the titles that pydantic makes of field names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A field's name is its title."""
        del schema
        return False


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
