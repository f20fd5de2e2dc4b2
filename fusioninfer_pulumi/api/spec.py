"""The fields of a service: its metadata and its spec."""

from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.autoscaling import PrefillDecodeRatioArgs
from fusioninfer_pulumi.api.availability import DisruptionBudgetArgs
from fusioninfer_pulumi.api.engine import Edition, EngineArgs, Registry
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
    """Metadata of the service: set on its objects, never on its pods."""

    name: Name | None = None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Namespace = "default"
    """Namespace of every object; may be an Output."""

    labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of every object; values may be Outputs."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of every object; values may be Outputs."""


class ServiceSpec(SpecModel):
    """The service's roles, and settings that apply to all of them."""

    roles: list[RoleArgs] = Field(min_length=1, max_length=1000)
    """Roles of the service; at least one must serve the model."""

    groups: Count | None = None
    """Number of serving groups: copies of all roles, each with its own gang and its own pairs of
    prefill and decode pods. A role's `replicas` then count per group, and object names contain the
    group's index, even for one group. Default: no groups. 0 scales the service to zero."""

    model: ModelArgs | None = None
    """The served model: its source, name, adapters and cache. By default the pod templates define
    it."""

    engine: EngineArgs | None = None
    """The engine of generated containers; vLLM by default."""

    edition: Annotated[Edition, Field(strict=False)] | None = None
    """Pins the library's defaults, so that upgrades of the library keep them: releases and
    arguments of generated engines, images of the endpoint picker and the sidecar. Default: the
    newest edition, `2026.11`."""

    image_registry: Registry | None = None
    """Registry, with an optional path, that mirrors the images chosen by the library: engines, the
    endpoint picker, the sidecar of decode pods, and the model fetcher. It replaces the registry in
    the image name: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default images come from each project's registry."""

    scheduling_strategy: SchedulingStrategyArgs = default(SchedulingStrategyArgs)
    """Scheduler, queue, priority and gang."""

    # If `layout` is not set, `derive_service_shape` chooses PerRole for autoscaling.
    layout: Annotated[Layout, Field(strict=False)] = Layout.PER_REPLICA
    """`PerReplica`: one LeaderWorkerSet per replica. `PerRole`: one LeaderWorkerSet per role, which
    orders the role's updates and has a scale subresource. Cannot be changed on a live service.
    Default: `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs = default(ServicePlacementArgs)
    """Attribute or label, such as the zone, that the node pools of all roles must share; used only
    by the command `place` and the option `--inventory`."""

    rollout: RolloutArgs = default(RolloutArgs)
    """How pod template changes are rolled out: batch size, order, timeout."""

    wait: WaitArgs = default(WaitArgs)
    """The condition an update waits for before it returns."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """PodDisruptionBudget for each serving role that does not set its own; none by default."""

    monitoring: MonitoringArgs | None = None
    """Prometheus operator monitors for the engines and the endpoint picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | None = None
    """Minimum and maximum number of prefill replicas per decode replica; no limits by default."""

    tracing: TracingArgs | None = None
    """OpenTelemetry traces of the endpoint picker and the engines; none by default."""

    pod_labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of the pods of all roles, such as a cost center; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""

    UNIQUE = (("roles", "name"),)
