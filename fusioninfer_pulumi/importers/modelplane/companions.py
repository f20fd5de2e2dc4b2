"""What stands beside a ModelDeployment, field by field as its definitions publish it."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.importers.metadata import ObjectMetadata
from fusioninfer_pulumi.importers.model import DialectModel
from fusioninfer_pulumi.importers.modelplane.models import MatchLabels, Text


class CacheSource(str, enum.Enum):
    """Where a cached model comes from."""

    HUGGING_FACE = "HuggingFace"


class AuthSecret(DialectModel):
    """A token for Hugging Face, in a Secret of the same namespace."""

    name: Text
    key: str = "HF_TOKEN"


class HuggingFace(DialectModel):
    """A repository of Hugging Face."""

    repo: Text
    revision: str | None = None
    auth_secret: AuthSecret | None = None
    size_gib: Annotated[int, Field(ge=1, le=100_000, alias="sizeGiB")]


class ModelCacheSpec(DialectModel):
    """A model that is staged in clusters."""

    source: Annotated[CacheSource, Field(strict=False)]
    hugging_face: HuggingFace | None = None
    cluster_selector: MatchLabels | None = None


class ModelCache(DialectModel):
    """A ModelCache."""

    api_version: str
    kind: str
    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)
    spec: ModelCacheSpec
    status: dict[str, Any] | None = None


class EndpointSelector(DialectModel):
    """Labels of ModelEndpoints."""

    match_labels: dict[str, str]


class Endpoint(DialectModel):
    """Endpoints that get a share of the requests."""

    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    selector: EndpointSelector


class ModelServiceSpec(DialectModel):
    """Endpoints behind one address."""

    endpoints: Annotated[list[Endpoint], Field(min_length=1)]


class ModelService(DialectModel):
    """A ModelService."""

    api_version: str
    kind: str
    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)
    spec: ModelServiceSpec
    status: dict[str, Any] | None = None
