"""The fields of a service: its metadata, and what it consists of."""

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
    """Copies of the whole topology (serving groups). Each has its own gang and pairs its own
    prefill and decode pods. Object names then contain the group's index, even if there is only one
    group. 0 scales the service to zero. By default there are no groups, and a role's `replicas` are
    those of the service."""

    model: ModelArgs | None = None
    """The model that all roles serve: its source, name, adapters and cache. By default the pod
    templates define it."""

    engine: EngineArgs | None = None
    """The engine of roles whose container the library generates: roles without a template, or whose
    template has no image. Default: vLLM, in the release that `plan` prints."""

    edition: Annotated[Edition, Field(strict=False)] | None = None
    """Edition of the library's defaults, which the service keeps when the library is upgraded:
    release and arguments of generated engines, images of the endpoint picker and the sidecar.
    Default: the newest, `2026.11`."""

    image_registry: Registry | None = None
    """Registry, with an optional path, that mirrors the images chosen by the library: engines, the
    endpoint picker, the sidecar of decode pods, and the model fetcher. It replaces the registry in
    the image name: with `registry.example.com/mirror`, `ghcr.io/llm-d/x` becomes
    `registry.example.com/mirror/llm-d/x`. By default images come from each project's registry."""

    scheduling_strategy: SchedulingStrategyArgs = default(SchedulingStrategyArgs)
    """Scheduler, queue, priority and gang."""

    layout: Annotated[Layout, Field(strict=False)] = Layout.PER_REPLICA
    """`PerReplica`: one LeaderWorkerSet per replica. `PerRole`: one LeaderWorkerSet per role, with
    its own rolling update and a scale subresource. Cannot be changed on a live service. Default:
    `PerRole` if a role has `autoscaling`, else `PerReplica`."""

    placement: ServicePlacementArgs = default(ServicePlacementArgs)
    """Placement of the roles on node pools relative to each other; used only by `place` and
    `--inventory`."""

    rollout: RolloutArgs = default(RolloutArgs)
    """How pod template changes are rolled out: batch size, order, timeout."""

    wait: WaitArgs = default(WaitArgs)
    """The condition an update waits for before it returns."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """PodDisruptionBudget for each serving role that does not set its own; none by default."""

    monitoring: MonitoringArgs | None = None
    """Prometheus operator monitors for the engines and the endpoint picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | None = None
    """Allowed number of prefill replicas per decode replica; unlimited by default. Replica counts
    outside of the bounds are rejected."""

    tracing: TracingArgs | None = None
    """OpenTelemetry traces of the endpoint picker and the engines; none by default."""

    pod_labels: LabelMapOrOutput = Field(default_factory=dict)
    """Labels of the pods of all roles, such as a cost center; values may be Outputs. A change
    restarts the pods."""

    pod_annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of the pods of all roles; values may be Outputs. A change restarts the pods."""

    UNIQUE = ("roles",)
