"""Kthena's AutoscalingPolicy and AutoscalingPolicyBinding, of its releases 0.1 to 1.0.

To 0.4 a binding names the target of a policy; from 1.0 on a policy has its target itself.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import Field

from fusioninfer_pulumi.importers.kthena.models import Count
from fusioninfer_pulumi.importers.metadata import ObjectMetadata
from fusioninfer_pulumi.importers.model import Amount, DialectModel

Bound = Annotated[int, Field(ge=0, le=1_000_000)]


class SelectPolicy(str, enum.Enum):
    """Which of two limits counts."""

    OR = "Or"  #: the looser one
    AND = "And"  #: the stricter one


class Metric(DialectModel):
    """A metric and what an instance may have of it."""

    name: str | None = None
    # To 0.4.
    metric_name: str | None = None
    target_value: Amount

    @property
    def key(self) -> str:
        """Its name, under which its source stands."""
        return self.name or self.metric_name or ""


class StablePolicy(DialectModel):
    """How fast the number of instances changes."""

    instances: Count | None = None
    percent: Count | None = None
    period: str | None = None
    select_policy: Annotated[SelectPolicy, Field(strict=False)] | None = None
    stabilization_window: str | None = None


class PanicPolicy(DialectModel):
    """How fast it grows in a rush."""

    percent: Count | None = None
    period: str | None = None
    panic_threshold_percent: Count | None = None
    panic_mode_hold: str | None = None


class ScaleUp(DialectModel):
    """How it grows."""

    stable_policy: StablePolicy | None = None
    panic_policy: PanicPolicy | None = None


class Behavior(DialectModel):
    """How it grows and shrinks."""

    scale_up: ScaleUp | None = None
    scale_down: StablePolicy | None = None


class LabelSelector(DialectModel):
    """Which pods a metric is read from."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = None


class PodSource(DialectModel):
    """A metric that pods serve."""

    name: str | None = None
    uri: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    label_selector: LabelSelector | None = None


class PrometheusSource(DialectModel):
    """A metric that a Prometheus answers."""

    server_url: Annotated[str, Field(alias="serverURL", min_length=1)]
    query: Annotated[str, Field(min_length=1)]
    auth: dict[str, Any] | None = None


class MetricSource(DialectModel):
    """Where a metric comes from."""

    type: str | None = None
    pod: PodSource | None = None
    prometheus: PrometheusSource | None = None


class TargetRef(DialectModel):
    """The object that is scaled; fields of an ObjectReference that nobody reads are refused."""

    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    namespace: str | None = None


class SubTarget(DialectModel):
    """A part of it."""

    kind: str | None = None
    name: str | None = None


class Target(DialectModel):
    """What is scaled, and by which metrics."""

    target_ref: TargetRef
    sub_targets: SubTarget | None = None
    metric_sources: dict[str, MetricSource] | None = None
    # To 0.4.
    metric_endpoint: PodSource | None = None


class HomogeneousTarget(DialectModel):
    """One ModelServing, or a role of it."""

    target: Target
    min_replicas: Bound
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)]


class RoleScaling(DialectModel):
    """The bounds and metrics of one role."""

    min_replicas: Bound
    max_replicas: Annotated[int, Field(ge=1, le=1_000_000)]
    metrics: list[Metric] | None = None
    metric_sources: dict[str, MetricSource] | None = None


class Ratio(DialectModel):
    """Bounds of the replicas of one role for each of another."""

    numerator_role: str
    denominator_role: str
    min_ratio: Amount
    max_ratio: Amount


class DisaggregatedTarget(DialectModel):
    """Roles of one ModelServing."""

    target_ref: TargetRef
    roles: Annotated[dict[str, RoleScaling], Field(min_length=1, max_length=2)]
    ratio_constraint: Ratio | None = None


class PolicySpec(DialectModel):
    """The spec of an AutoscalingPolicy."""

    tolerance_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    metrics: list[Metric] | None = None
    behavior: Behavior | None = None
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None
    disaggregated_target: DisaggregatedTarget | None = None


class PolicyRef(DialectModel):
    """A policy of the same namespace."""

    name: str


class BindingSpec(DialectModel):
    """The spec of an AutoscalingPolicyBinding."""

    policy_ref: PolicyRef
    homogeneous_target: HomogeneousTarget | None = None
    heterogeneous_target: dict[str, Any] | None = None


class AutoscalingPolicy(DialectModel):
    """An AutoscalingPolicy."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: PolicySpec
    status: dict[str, Any] | None = None


class AutoscalingPolicyBinding(DialectModel):
    """An AutoscalingPolicyBinding."""

    api_version: str
    kind: str
    metadata: ObjectMetadata
    spec: BindingSpec
    status: dict[str, Any] | None = None
