"""Modelplane's ModelDeployment, field by field as its definitions publish it (modelplane.ai).

Three shapes of one kind and version: `ReleasedSpec` (0.2 and later), `EarlySpec` (0.1), and
`ProposedSpec`, the disaggregation proposal's `workers`, `prefill` and `routing`. What stands beside
them is in `companions`.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.importers.model import ImportedModel
from fusioninfer_pulumi.importers.objects import ObjectMetadata

Text = Annotated[str, Field(min_length=1)]
Replicas = Annotated[int, Field(ge=1, le=10)]
Positive = Annotated[int, Field(ge=1)]


class Mode(str, enum.Enum):
    """Whether one engine computes prompts and answers, or two share the work."""

    UNIFIED = "Unified"
    PREFILL_DECODE = "PrefillDecode"


class Phase(str, enum.Enum):
    """Which part of the work an engine does."""

    PREFILL = "Prefill"
    DECODE = "Decode"


class MemberRole(str, enum.Enum):
    """What a member is in its engine."""

    STANDALONE = "Standalone"
    LEADER = "Leader"
    WORKER = "Worker"


class Selector(ImportedModel):
    """One condition on a device."""

    cel: Text


class Device(ImportedModel):
    """A request for devices of one node."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[Selector], Field(min_length=1, max_length=8)]


class NodeSelector(ImportedModel):
    """The devices that each pod needs of its node."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=16)]


class MatchLabels(ImportedModel):
    """Labels of clusters."""

    match_labels: dict[str, str] | None = None


class ModelCacheRef(ImportedModel):
    """A ModelCache of the same namespace."""

    name: Text


class Template(ImportedModel):
    """A pod template of one container, named engine; checked by our own rules."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any]


class Serving(ImportedModel):
    """How requests reach the engines."""

    mode: Annotated[Mode, Field(strict=False)]


class WorkerSettings(ImportedModel):
    """Settings of a Worker member."""

    nodes: Annotated[int, Field(ge=1, le=63)]


class Member(ImportedModel):
    """Pods of one kind in an engine."""

    role: Annotated[MemberRole, Field(strict=False)] = MemberRole.STANDALONE
    node_selector: NodeSelector | None = None
    worker: WorkerSettings | None = None
    template: Template


class Engine(ImportedModel):
    """One serving unit: a pod, or a leader and its workers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    copies: Annotated[int, Field(ge=1, le=64)] | None = None
    phase: Annotated[Phase, Field(strict=False)] | None = None
    members: Annotated[list[Member], Field(min_length=1, max_length=2)]


class Replica(ImportedModel):
    """One complete instance of the deployment."""

    cluster_selector: MatchLabels | None = None
    model_cache_ref: ModelCacheRef | None = None
    serving: Serving | None = None
    tolerations: list[dict[str, Any]] | None = None
    engines: Annotated[list[Engine], Field(min_length=1, max_length=8)]


class ReplicaMetadata(ImportedModel):
    """Metadata of the instances."""

    labels: dict[str, Any] | None = None


class ReplicaTemplate(ImportedModel):
    """What the instances are made from."""

    metadata: ReplicaMetadata | None = None
    spec: Replica


class ReleasedSpec(ImportedModel):
    """The spec since 0.2."""

    replicas: Replicas
    template: ReplicaTemplate


class EarlySpec(Replica):
    """The spec of 0.1: the instance stands in the spec itself."""

    replicas: Replicas


class Topology(ImportedModel):
    """Accelerators of a pod, and pods of a replica."""

    tensor: Positive
    pipeline: Positive | None = None


class Workers(ImportedModel):
    """Pods of one role."""

    count: Positive | None = None
    topology: Topology
    template: Template


class Prefill(ImportedModel):
    """The prefill role."""

    workers: Workers
    node_selector: NodeSelector | None = None


class PickerTemplate(ImportedModel):
    """The endpoint picker's pods."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Routing(ImportedModel):
    """The endpoint picker."""

    template: PickerTemplate | None = None


class ProposedSpec(ImportedModel):
    """The spec of the disaggregation proposal."""

    replicas: Replicas | None = None
    model: dict[str, Any] | None = None
    cluster_selector: MatchLabels | None = None
    node_selector: NodeSelector | None = None
    model_cache_ref: ModelCacheRef | None = None
    workers: Workers
    prefill: Prefill | None = None
    routing: Routing | None = None


class _Deployment(ImportedModel):
    api_version: str
    kind: str
    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)
    status: dict[str, Any] | None = None


class ReleasedDeployment(_Deployment):
    """A ModelDeployment since 0.2."""

    spec: ReleasedSpec


class EarlyDeployment(_Deployment):
    """A ModelDeployment of 0.1."""

    spec: EarlySpec


class ProposedDeployment(_Deployment):
    """A ModelDeployment of the proposal."""

    spec: ProposedSpec


class CacheSource(str, enum.Enum):
    """Where a cached model comes from."""

    HUGGING_FACE = "HuggingFace"


class AuthSecret(ImportedModel):
    """A token for Hugging Face, in a Secret of the same namespace."""

    name: Text
    key: str = "HF_TOKEN"


class HuggingFace(ImportedModel):
    """A repository of Hugging Face."""

    repo: Text
    revision: str | None = None
    auth_secret: AuthSecret | None = None
    size_gib: Annotated[int, Field(ge=1, le=100_000, alias="sizeGiB")]


class ModelCacheSpec(ImportedModel):
    """A model that is staged in clusters."""

    source: Annotated[CacheSource, Field(strict=False)]
    hugging_face: HuggingFace | None = None
    cluster_selector: MatchLabels | None = None


class ModelCache(ImportedModel):
    """A ModelCache."""

    api_version: str
    kind: str
    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)
    spec: ModelCacheSpec
    status: dict[str, Any] | None = None


class EndpointSelector(ImportedModel):
    """Labels of ModelEndpoints."""

    match_labels: dict[str, str]


class Endpoint(ImportedModel):
    """Endpoints that get a share of the requests."""

    weight: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    selector: EndpointSelector


class ModelServiceSpec(ImportedModel):
    """Endpoints behind one address."""

    endpoints: Annotated[list[Endpoint], Field(min_length=1)]


class ModelService(ImportedModel):
    """A ModelService."""

    api_version: str
    kind: str
    metadata: ObjectMetadata = Field(default_factory=ObjectMetadata)
    spec: ModelServiceSpec
    status: dict[str, Any] | None = None
