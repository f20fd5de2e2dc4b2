"""Modelplane's ModelDeployment, field by field as its definitions publish it (modelplane.ai).

Three shapes of one kind and version: `ReleasedSpec` (0.2 and later), `EarlySpec` (0.1), and
`ProposedSpec`, the disaggregation proposal's `workers`, `prefill` and `routing`. What stands beside
them is in `companions`.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.importers.metadata import ObjectMetadata
from fusioninfer_pulumi.importers.model import DialectModel

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


class Selector(DialectModel):
    """One condition on a device."""

    cel: Text


class Device(DialectModel):
    """A request for devices of one node."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    count: Annotated[int, Field(ge=1, le=64)] = 1
    selectors: Annotated[list[Selector], Field(min_length=1, max_length=8)]


class NodeSelector(DialectModel):
    """The devices that each pod needs of its node."""

    devices: Annotated[list[Device], Field(min_length=1, max_length=16)]


class MatchLabels(DialectModel):
    """Labels of clusters."""

    match_labels: dict[str, str] | None = None


class ModelCacheRef(DialectModel):
    """A ModelCache of the same namespace."""

    name: Text


class Template(DialectModel):
    """A pod template of one container, named engine; checked by our own rules."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any]


class Serving(DialectModel):
    """How requests reach the engines."""

    mode: Annotated[Mode, Field(strict=False)]


class WorkerSettings(DialectModel):
    """Settings of a Worker member."""

    nodes: Annotated[int, Field(ge=1, le=63)]


class Member(DialectModel):
    """Pods of one kind in an engine."""

    role: Annotated[MemberRole, Field(strict=False)] = MemberRole.STANDALONE
    node_selector: NodeSelector | None = None
    worker: WorkerSettings | None = None
    template: Template


class Engine(DialectModel):
    """One serving unit: a pod, or a leader and its workers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    copies: Annotated[int, Field(ge=1, le=64)] | None = None
    phase: Annotated[Phase, Field(strict=False)] | None = None
    members: Annotated[list[Member], Field(min_length=1, max_length=2)]


class Replica(DialectModel):
    """One complete instance of the deployment."""

    cluster_selector: MatchLabels | None = None
    model_cache_ref: ModelCacheRef | None = None
    serving: Serving | None = None
    tolerations: list[dict[str, Any]] | None = None
    engines: Annotated[list[Engine], Field(min_length=1, max_length=8)]


class ReplicaMetadata(DialectModel):
    """Metadata of the instances."""

    labels: dict[str, Any] | None = None


class ReplicaTemplate(DialectModel):
    """What the instances are made from."""

    metadata: ReplicaMetadata | None = None
    spec: Replica


class ReleasedSpec(DialectModel):
    """The spec since 0.2."""

    replicas: Replicas
    template: ReplicaTemplate


class EarlySpec(Replica):
    """The spec of 0.1: the instance stands in the spec itself."""

    replicas: Replicas


class Topology(DialectModel):
    """Accelerators of a pod, and pods of a replica."""

    tensor: Positive
    pipeline: Positive | None = None


class Workers(DialectModel):
    """Pods of one role."""

    count: Positive | None = None
    topology: Topology
    template: Template


class Prefill(DialectModel):
    """The prefill role."""

    workers: Workers
    node_selector: NodeSelector | None = None


class PickerTemplate(DialectModel):
    """The endpoint picker's pods."""

    metadata: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None


class Routing(DialectModel):
    """The endpoint picker."""

    template: PickerTemplate | None = None


class ProposedSpec(DialectModel):
    """The spec of the disaggregation proposal."""

    replicas: Replicas | None = None
    model: dict[str, Any] | None = None
    cluster_selector: MatchLabels | None = None
    node_selector: NodeSelector | None = None
    model_cache_ref: ModelCacheRef | None = None
    workers: Workers
    prefill: Prefill | None = None
    routing: Routing | None = None


class _Deployment(DialectModel):
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
