"""The InferenceService as users write it in Python and YAML."""

from collections.abc import Mapping
from typing import Any, Literal

from typing_extensions import Unpack

from fusioninfer_pulumi.api.field_types import Name
from fusioninfer_pulumi.api.spec import ServiceMetadata, ServiceSpec
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.generated import dicts

API_VERSION: str
KIND: str

class InferenceServiceArgs(ServiceSpec, ServiceMetadata):
    """A model served on Kubernetes: the arguments of the `InferenceService` component.

    The component also accepts a mapping, in snake_case or camelCase, flat as here or with
    `metadata` and `spec` as in a manifest.

    Raises:
        InvalidServiceError: The input is invalid; the error has every finding.
    """

    def __init__(self, **fields: Unpack[dicts.InferenceServiceArgsDict]) -> None: ...

class ManifestMetadata(ServiceMetadata):
    """Metadata of a manifest; the name is required."""

    name: Name
    "Kubernetes name of the service."

class InferenceServiceManifest(SpecModel):
    """An InferenceService as a Kubernetes-style document."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    "API version of FusionInfer's InferenceService."
    kind: Literal["InferenceService"]
    "The kind, always `InferenceService`."
    metadata: ManifestMetadata
    "Name, namespace, labels and annotations of the service."
    spec: ServiceSpec
    "The service's roles, and settings that apply to all of them."

def flatten(document: Mapping[str, Any]) -> dict[str, Any]: ...
