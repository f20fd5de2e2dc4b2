"""The InferenceService as users write it in Python and YAML."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import model_validator

from fusioninfer_pulumi.api.field_types import Name
from fusioninfer_pulumi.api.service_rules import service_findings
from fusioninfer_pulumi.api.spec import ServiceMetadata, ServiceSpec
from fusioninfer_pulumi.api.spec_model import SpecModel
from fusioninfer_pulumi.api.validation_errors import raise_findings, rule_error
from fusioninfer_pulumi.findings import filter_errors
from fusioninfer_pulumi.rules.common import DUPLICATE_KEY

API_VERSION = "fusioninfer.io/v1alpha1"
KIND = "InferenceService"


class InferenceServiceArgs(ServiceSpec, ServiceMetadata):
    """A model served on Kubernetes: the arguments of the `InferenceService` component.

    The component also accepts a mapping, in snake_case or camelCase, flat as here or with
    `metadata` and `spec` as in a manifest.

    Raises:
        InvalidServiceError: The input is invalid; the error has every finding.
    """

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: Any) -> Any:
        return flatten(data) if isinstance(data, Mapping) and "spec" in data else data

    @model_validator(mode="after")
    def _check_rules(self) -> "InferenceServiceArgs":
        raise_findings(type(self).__name__, filter_errors(service_findings(self, self)))
        return self


class ManifestMetadata(ServiceMetadata):
    """Metadata of a manifest; the name is required."""

    name: Name
    """Kubernetes name of the service."""


class InferenceServiceManifest(SpecModel):
    """An InferenceService as a Kubernetes-style document."""

    api_version: Literal["fusioninfer.io/v1alpha1"]
    """API version of FusionInfer's InferenceService."""

    kind: Literal["InferenceService"]
    """The kind, always `InferenceService`."""

    metadata: ManifestMetadata
    """Name, namespace, labels and annotations of the service."""

    spec: ServiceSpec
    """The service's roles, and settings that apply to all of them."""


def flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fields of `metadata` and `spec` into one mapping, without apiVersion and kind.

    Unknown keys and unknown values of apiVersion and kind stay, so that validation reports them.
    """
    other_fields = {
        key: value
        for key, value in document.items()
        if key not in ("metadata", "spec") and (key, value) not in _TYPE_FIELDS
    }
    metadata, spec = document.get("metadata") or {}, document["spec"] or {}
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        return dict(document)
    duplicates = sorted(set(metadata) & set(spec))
    if duplicates:
        raise rule_error(DUPLICATE_KEY, f"{duplicates[0]} is set in both metadata and spec")
    return {**other_fields, **metadata, **spec}


_TYPE_FIELDS = (("apiVersion", API_VERSION), ("kind", KIND))
