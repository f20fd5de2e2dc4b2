"""A whole service as a user writes it, in Python and in YAML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from fusioninfer_pulumi.api.autoscaling import PrefillDecodeRatioArgs
from fusioninfer_pulumi.api.base import SpecModel, default
from fusioninfer_pulumi.api.disruption_budget import DisruptionBudgetArgs
from fusioninfer_pulumi.api.engine import EngineArgs, Registry
from fusioninfer_pulumi.api.messages import raise_findings, rule_error
from fusioninfer_pulumi.api.model import ModelArgs, model_findings
from fusioninfer_pulumi.api.monitoring import MonitoringArgs
from fusioninfer_pulumi.api.placement import ServicePlacementArgs
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, role_findings
from fusioninfer_pulumi.api.rollout import Layout, RolloutArgs, WaitArgs
from fusioninfer_pulumi.api.rules import NAME_NOT_FOUND
from fusioninfer_pulumi.api.scheduling import SchedulingStrategyArgs
from fusioninfer_pulumi.api.tracing import TracingArgs
from fusioninfer_pulumi.api.types import (
    MAX_COUNT,
    AnnotationMap,
    Count,
    Name,
    Namespace,
    PassedLabelMap,
)
from fusioninfer_pulumi.findings import Finding, error, errors
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_KEY,
    DUPLICATE_NAME,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    OUT_OF_RANGE,
    SET_BY_LIBRARY,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from fusioninfer_pulumi.generated import dicts


API_VERSION = "fusioninfer.io/v1alpha1"
KIND = "InferenceService"


class ServiceMetadata(SpecModel):
    """The service's own metadata: put on its objects, never on its pods."""

    name: Name | None = None
    """Kubernetes name of the service; by default the component's logical name."""

    namespace: Namespace = "default"
    """Namespace of every object; may be an Output."""

    labels: PassedLabelMap = Field(default_factory=dict)
    """Labels of every object; values may be Outputs."""

    annotations: AnnotationMap = Field(default_factory=dict)
    """Annotations of every object; values may be Outputs."""


class ServiceSpec(SpecModel):
    """What the service consists of."""

    roles: list[RoleArgs] = Field(min_length=1)
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
    """Registry, and a path in it, that mirrors the images that the library chooses for engines,
    such as `registry.example.com/mirror`; by default Docker Hub."""

    scheduling_strategy: SchedulingStrategyArgs = default(SchedulingStrategyArgs)
    """Scheduler, queue, priority and gang."""

    layout: Annotated[Layout, Field(strict=False)] = Layout.PER_REPLICA
    """`PerReplica` (default): one LeaderWorkerSet for each replica. `PerRole`: one for each role,
    with its own rolling update and a scale subresource; a live service cannot change it."""

    placement: ServicePlacementArgs = default(ServicePlacementArgs)
    """How the roles are placed on node pools in relation to each other; read by `place` and
    `--inventory` only."""

    rollout: RolloutArgs = default(RolloutArgs)
    """How pod templates change: pace, order, halt."""

    wait: WaitArgs = default(WaitArgs)
    """What an update waits for before it returns."""

    disruption_budget: DisruptionBudgetArgs | None = None
    """A PodDisruptionBudget for each serving role that has none of its own; none by default."""

    monitoring: MonitoringArgs | None = None
    """Monitors of the Prometheus operator for engines and picker; none by default."""

    prefill_decode_ratio: PrefillDecodeRatioArgs | None = None
    """Bounds for the replicas of prefill for each replica of decode; none by default. Replicas
    beyond them are refused."""

    tracing: TracingArgs | None = None
    """OpenTelemetry traces of picker and engines; none by default."""


class InferenceServiceArgs(ServiceSpec, ServiceMetadata):
    """A model served on Kubernetes: the arguments of the `InferenceService` component.

    A mapping of the same shape is accepted too, in snake_case or camelCase, flat as here or with
    `metadata` and `spec` as in a manifest.

    Raises:
        InvalidServiceError: The input cannot work; every problem is listed.
    """

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[dicts.InferenceServiceArgsDict]) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, data: Any) -> Any:
        return flat(data) if isinstance(data, Mapping) and "spec" in data else data

    @model_validator(mode="after")
    def _rules(self) -> InferenceServiceArgs:
        raise_findings(type(self).__name__, errors(service_findings(self)))
        return self


class ManifestMetadata(ServiceMetadata):
    """Metadata of a manifest, where the name is not optional."""

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
    """What the service consists of."""


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The flat form of `{metadata: ..., spec: ...}`: the fields of both blocks side by side.

    Keys that belong to neither stay, so that the validation names them.
    """
    rest = {
        key: value
        for key, value in document.items()
        if key not in ("metadata", "spec") and (key, value) not in _ENVELOPE
    }
    blocks = [document.get("metadata") or {}, document["spec"] or {}]
    if not all(isinstance(block, Mapping) for block in blocks):
        return dict(document)
    both = sorted(set(blocks[0]) & set(blocks[1]))
    if both:
        raise rule_error(DUPLICATE_KEY, f"{both[0]} stands in both metadata and spec")
    return {**rest, **blocks[0], **blocks[1]}


_ENVELOPE = (("apiVersion", API_VERSION), ("kind", KIND))


def service_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Checks a service, each field of which is valid, in the order of the fields."""
    yield from _own_labels(args.labels)
    yield from _role_list(args.roles)
    for index, role in enumerate(args.roles):
        yield from role_findings(("roles", index), role, modelled=args.model is not None)
        if (args.groups or 0) * role.replicas > MAX_COUNT:
            yield error(
                OUT_OF_RANGE,
                ("roles", index, "replicas"),
                f"must be at most {MAX_COUNT} over all groups, got {args.groups} x {role.replicas}",
            )
    if args.model is not None:
        yield from model_findings(("model",), args.model)
    minima = args.scheduling_strategy.gang_policy.min_role_replicas
    yield from _gang_minima(args.roles, minima or {})


def _own_labels(own: Mapping[str, str]) -> Iterator[Finding]:
    for key in own:
        if key.startswith(labels.PREFIX) or key in labels.LWS_OWNED_LABELS:
            yield error(
                SET_BY_LIBRARY,
                ("metadata", "labels", key),
                "is set by fusioninfer-pulumi; remove it",
            )


def _role_list(roles: Sequence[RoleArgs]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for index, role in enumerate(roles):
        first = seen.setdefault(role.name, index)
        if first != index:
            yield error(
                DUPLICATE_NAME,
                ("roles", index, "name"),
                f'"{role.name}" is also the name of roles[{first}]',
            )
    routers = [i for i, role in enumerate(roles) if role.component_type is ComponentType.ROUTER]
    for index in routers[1:]:
        yield error(
            DUPLICATE_NAME,
            ("roles", index, "componentType"),
            f"a service has one router, roles[{routers[0]}] is one already",
        )
    if roles and len(routers) == len(roles):
        yield error(
            FIELD_REQUIRED,
            ("roles",),
            "no role serves a model; add a role of worker, prefiller or decoder",
        )


def _gang_minima(roles: Sequence[RoleArgs], minima: Mapping[str, int]) -> Iterator[Finding]:
    by_name = {role.name: role for role in roles}
    for name, minimum in minima.items():
        at = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", name)
        role = by_name.get(name)
        if role is None:
            yield error(
                NAME_NOT_FOUND, at, f"no role of that name; allowed: {', '.join(sorted(by_name))}"
            )
        elif role.component_type is ComponentType.ROUTER:
            yield error(FIELD_OUT_OF_PLACE, at, "a router has no share in a gang; remove it")
        elif minimum > role.replicas:
            yield error(
                OUT_OF_RANGE,
                at,
                f"must be at most the role's replicas ({role.replicas}), got {minimum}",
            )
