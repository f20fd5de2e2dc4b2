"""Services as manifests, from their arguments."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.api.service import API_VERSION, KIND, InferenceServiceArgs
from fusioninfer_pulumi.api.spec import ServiceMetadata


def written(args: InferenceServiceArgs) -> dict[str, Any]:
    """The manifest of a service, with the fields that somebody has set."""
    fields: dict[str, Any] = args.model_dump(mode="json", by_alias=True, exclude_unset=True)
    names = {field.alias or name for name, field in ServiceMetadata.model_fields.items()}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {key: value for key, value in fields.items() if key in names},
        "spec": {key: value for key, value in fields.items() if key not in names},
    }
