"""Modelplane's ModelDeployment, field by field as its definitions publish it (modelplane.ai).

Three shapes of one kind and version: `ReleasedSpec` (0.2 and later), `EarlySpec` (0.1), and
`ProposedSpec`, the disaggregation proposal's `workers`, `prefill` and `routing`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from fusioninfer_importers.model import ImportedModel
from fusioninfer_importers.objects import ImportedObject, ObjectMetadata

Text = Annotated[str, Field(min_length=1)]
Replicas = Annotated[int, Field(ge=1, le=10)]
Positive = Annotated[int, Field(ge=1)]
Mode = Literal["Unified", "PrefillDecode"]
Phase = Literal["Prefill", "Decode"]
MemberRole = Literal["Standalone", "Leader", "Worker"]
CacheSource = Literal["HuggingFace"]


class Selector(ImportedModel):
    cel: Text


class Device(ImportedModel):
    """A request for devices of one node."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[Selector], Field(min_length=1, max_length=8)]


class NodeSelector(ImportedModel):
    """Devices that each pod needs on its node."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=16)]


class MatchLabels(ImportedModel):
    """Labels of clusters."""

    match_labels: dict[str, str] | None = None


class ModelCacheRef(ImportedModel):
    name: Text


class Template(ImportedModel):
    """A pod template with one container, named engine. Our own rules check its fields."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any]


class Serving(ImportedModel):
    mode: Mode


class WorkerSettings(ImportedModel):
    nodes: Annotated[int, Field(ge=1, le=63)]


class Member(ImportedModel):
    """Pods of one kind in an engine."""

    role: MemberRole = "Standalone"
    node_selector: NodeSelector | None = None
    worker: WorkerSettings | None = None
    template: Template


class Engine(ImportedModel):
    """One serving unit: a pod, or a leader and its workers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    copies: Annotated[int, Field(ge=1, le=64)] | None = None
    phase: Phase | None = None
    members: Annotated[list[Member], Field(min_length=1, max_length=2)]


class Replica(ImportedModel):
    """One replica of the deployment: all engines that together serve the model."""

    cluster_selector: MatchLabels | None = None
    model_cache_ref: ModelCacheRef | None = None
    serving: Serving | None = None
    tolerations: list[dict[str, Any]] | None = None
    engines: Annotated[list[Engine], Field(min_length=1, max_length=8)]


class ReplicaMetadata(ImportedModel):
    labels: dict[str, Any] | None = None


class ReplicaTemplate(ImportedModel):
    metadata: ReplicaMetadata | None = None
    spec: Replica


class ReleasedSpec(ImportedModel):
    """The spec since 0.2."""

    replicas: Replicas
    template: ReplicaTemplate


class EarlySpec(Replica):
    """The spec of 0.1, which contains the fields of a replica itself."""

    replicas: Replicas


class Topology(ImportedModel):
    """Accelerators of a pod, and pods of a replica."""

    tensor: Positive
    pipeline: Positive | None = None


class Workers(ImportedModel):
    count: Positive | None = None
    topology: Topology
    template: Template


class Prefill(ImportedModel):
    workers: Workers
    node_selector: NodeSelector | None = None


class PickerTemplate(ImportedModel):
    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Routing(ImportedModel):
    """The endpoint picker."""

    template: PickerTemplate | None = None


class ProposedSpec(ImportedModel):
    replicas: Replicas | None = None
    model: dict[str, Any] | None = None
    cluster_selector: MatchLabels | None = None
    node_selector: NodeSelector | None = None
    model_cache_ref: ModelCacheRef | None = None
    workers: Workers
    prefill: Prefill | None = None
    routing: Routing | None = None


class ModelplaneObject(ImportedObject):
    """A custom resource, whose metadata may be missing."""

    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)


class ReleasedDeployment(ModelplaneObject):
    """A ModelDeployment since 0.2."""

    spec: ReleasedSpec


class EarlyDeployment(ModelplaneObject):
    """A ModelDeployment of 0.1."""

    spec: EarlySpec


class ProposedDeployment(ModelplaneObject):
    spec: ProposedSpec


class AuthSecret(ImportedModel):
    """A token for Hugging Face, in a Secret of the same namespace."""

    name: Text
    key: str = "HF_TOKEN"


class HuggingFace(ImportedModel):
    repo: Text
    revision: str | None = None
    auth_secret: AuthSecret | None = None
    size_gib: Annotated[int, Field(ge=1, le=100_000, alias="sizeGiB")]


class ModelCacheSpec(ImportedModel):
    source: CacheSource
    hugging_face: HuggingFace | None = None
    cluster_selector: MatchLabels | None = None


class ModelCache(ModelplaneObject):
    spec: ModelCacheSpec


class EndpointSelector(ImportedModel):
    match_labels: dict[str, str]


class Endpoint(ImportedModel):
    """Endpoints that get a share of the requests."""

    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    selector: EndpointSelector


class ModelServiceSpec(ImportedModel):
    endpoints: Annotated[list[Endpoint], Field(min_length=1)]


class ModelService(ModelplaneObject):
    spec: ModelServiceSpec
