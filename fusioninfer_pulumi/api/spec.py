"""The fields of a service: its metadata, and what it consists of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.autoscaling import PrefillDecodeRatioArgs
from fusioninfer_pulumi.api.availability import DisruptionBudgetArgs
from fusioninfer_pulumi.api.engine import EngineArgs, Registry
from fusioninfer_pulumi.api.field_types import (
    AnnotationMap,
    Count,
    LabelMapOrOutput,
    Name,
    Namespace,
)
from fusioninfer_pulumi.api.inventory import ServicePlacementArgs
from fusioninfer_pulumi.api.model import ModelArgs
from fusioninfer_pulumi.api.monitoring import MonitoringArgs, TracingArgs
from fusioninfer_pulumi.api.role import RoleArgs
from fusioninfer_pulumi.api.rollout import Layout, RolloutArgs, WaitArgs
from fusioninfer_pulumi.api.scheduling import SchedulingStrategyArgs
from fusioninfer_pulumi.api.spec_model import SpecModel, default


class ServiceMetadata(SpecModel):
    """The service's own metadata: put on its objects, never on its pods."""

    name: Name | None = None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Namespace = "default"
    """Namespace of every object; may be an Output."""

    labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of every object; values may be Outputs."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of every object; values may be Outputs."""


class ServiceSpec(SpecModel):
    """Roles of the service, and settings for all of them."""

    roles: list[RoleArgs] = Field(min_length=1, max_length=1000)
    """The service's roles, at least one of which serves."""

    groups: Count | None = None
    """Copies of the whole topology (serving groups), each with its own gang and its own pairing of
    prefill with decode; names then carry the group, also of a single one. 0 parks the service. By
    default there are no groups, and a role's `replicas` are those of the service."""

    model: ModelArgs | None = None
    """The model that all roles serve: where its files come from, its name, adapters and cache; by
    default the pod templates say it."""

    engine: EngineArgs | None = None
    """The engine of roles whose container the library writes: those without a template, or with
    one that names no image. By default vLLM, in the release that `plan` shows."""

    image_registry: Registry | None = None
    """Registry, and a path in it, that mirrors the images that the library chooses: engines, the
    endpoint picker, the sidecar of decode pods, and the model's fetcher. It replaces the registry
    in their names: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default each project's own registry."""

    scheduling_strategy: SchedulingStrategyArgs = default(SchedulingStrategyArgs)
    """Scheduler, queue, priority and gang."""

    layout: Annotated[Layout, Field(strict=False)] = Layout.PER_REPLICA
    """`PerReplica`: one LeaderWorkerSet for each replica. `PerRole`: one for each role, with its
    own rolling update and a scale subresource; a live service cannot change it. By default
    `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs = default(ServicePlacementArgs)
    """How the roles are placed on node pools in relation to each other; read by `place` and
    `--inventory` only."""

    rollout: RolloutArgs = default(RolloutArgs)
    """How pod templates change: pace, order, halt."""

    wait: WaitArgs = default(WaitArgs)
    """Condition for which an update waits before it returns."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """A PodDisruptionBudget for each serving role that has none of its own; none by default."""

    monitoring: MonitoringArgs | None = None
    """Monitors of the Prometheus operator for engines and picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | None = None
    """Bounds for the replicas of prefill for each replica of decode; none by default. Replicas
    beyond them are refused."""

    tracing: TracingArgs | None = None
    """OpenTelemetry traces of picker and engines; none by default."""

    pod_labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of the pods of all roles, such as a cost centre; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""
