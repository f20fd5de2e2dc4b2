"""Checks of roles and of whole services, before any object is built.

Pydantic has already rejected invalid values. The checks are in `api`, not in `checks`, because the
constructor of `InferenceServiceArgs` raises their findings. Checks of one class are in its method
`findings`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusioninfer_pulumi.api.engine import parallelism_findings
from fusioninfer_pulumi.api.field_rules import (
    check_fields,
    conflict_rule,
    inapplicable_rule,
    required_rule,
)
from fusioninfer_pulumi.api.field_types import MAX_COUNT
from fusioninfer_pulumi.api.pod_template import reserved_key_findings, role_template_findings
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.spec import ServiceMetadata, ServiceSpec
from fusioninfer_pulumi.api.spec_model import check_model
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    NAME_NOT_FOUND,
    OUT_OF_RANGE,
)

#: Fields that only routers may have.
ROUTER_FIELDS = (
    "strategy", "scorers", "httproute", "gateway", "endpoint_picker", "endpoint_picker_config",
    "pool", "model_rewrites", "network_policy", "reference_grants",
)  # fmt: skip
#: Fields of routers that have no effect without an endpoint picker.
_PICKER_FIELDS = ("strategy", "scorers", "endpoint_picker_config", "pool", "model_rewrites")
_SEPARATE_TEMPLATES = ("leader_template", "worker_template")
#: Fields that only roles that serve a model may have.
_SERVING_FIELDS = tuple(
    field
    for field in RoleArgs.model_fields
    if field not in ("name", "component_type", "pod_labels", "pod_annotations", *ROUTER_FIELDS)
)


def service_findings(metadata: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    """Check a service whose fields are valid by themselves."""
    yield from reserved_key_findings(("metadata", "labels"), metadata.labels)
    routers = [index for index, role in enumerate(spec.roles) if _is_router(role)]
    yield from _pod_key_findings((), spec)
    for index in routers[1:]:
        message = f"a service has at most one router; remove this one or roles[{routers[0]}]"
        yield error(DUPLICATE_NAME, ("roles", index, "componentType"), message)
    if len(routers) == len(spec.roles):
        message = "no role serves a model; add a worker, prefiller or decoder"
        yield error(FIELD_REQUIRED, ("roles",), message)
    for index, role in enumerate(spec.roles):
        location = ("roles", index)
        yield from _pod_key_findings(location, role)
        yield from role_findings(location, role, has_model=spec.model is not None)
        if (spec.groups or 0) * role.replicas > MAX_COUNT:
            product = f"{spec.groups} x {role.replicas}"
            message = f"must be at most {MAX_COUNT} over all groups, got {product}"
            yield error(OUT_OF_RANGE, (*location, "replicas"), message)
    yield from check_model((), spec)
    yield from _gang_minimum_findings(spec)


def _is_router(role: RoleArgs) -> bool:
    return role.component_type is ComponentType.ROUTER


def role_findings(location: Location, role: RoleArgs, *, has_model: bool) -> Iterator[Finding]:
    """Check the fields of a role, which are valid by themselves, against each other.

    `has_model`: whether the service has a `model`, so that the library can generate containers.
    """
    if _is_router(role):
        message = "has no effect, because a router serves no model; remove it"
        yield from check_fields(location, role, inapplicable_rule(_SERVING_FIELDS, message))
        yield from _router_findings(location, role)
        return
    type_name = role.component_type.value
    message = f"belongs to a role of componentType router (this role is a {type_name}); remove it"
    yield from check_fields(location, role, inapplicable_rule(ROUTER_FIELDS, message))
    yield from _template_findings(location, role, has_model=has_model)
    if role.component_type is ComponentType.WORKER:
        message = "belongs to a prefiller or a decoder (this role is a worker); remove it"
        yield from check_fields(location, role, inapplicable_rule("kv_transfer", message))
    elif role.component_type is ComponentType.PREFILLER:
        message = "belongs to a decoder, because only decode pods have a sidecar; remove it"
        rule = inapplicable_rule(("kv_transfer.engine_port", "kv_transfer.sidecar"), message)
        yield from check_fields(location, role, rule)
    if not role.has_node_count:
        message = (
            "is required, unless parallelism determines the pods per replica (pipeline does, or "
            "data with dataLocal)"
        )
        yield from check_fields(location, role, required_rule("multinode.node_count", message))
    if role.parallelism is not None:
        node_count = role.multinode.node_count if role.multinode else None
        yield from parallelism_findings((*location, "parallelism"), role.parallelism, node_count)


def _pod_key_findings(location: Location, args: ServiceSpec | RoleArgs) -> Iterator[Finding]:
    """Reject pod labels and annotations that the library or LeaderWorkerSet sets."""
    # A picker's Deployment selects its pods by `app`.
    is_router = isinstance(args, RoleArgs) and _is_router(args)
    reserved = labels.LWS_OWNED_LABELS | ({labels.APP} if is_router else set())
    yield from reserved_key_findings((*location, "podLabels"), args.pod_labels, reserved)
    annotations = (*location, "podAnnotations")
    yield from reserved_key_findings(annotations, args.pod_annotations, labels.GANG_ANNOTATIONS)


def _gang_minimum_findings(spec: ServiceSpec) -> Iterator[Finding]:
    by_name = {role.name: role for role in spec.roles}
    minima = spec.scheduling_strategy.gang_policy.min_role_replicas or {}
    for name, minimum in minima.items():
        location = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", name)
        role = by_name.get(name)
        if role is None:
            message = f"no role of that name; allowed: {', '.join(sorted(by_name))}"
            yield error(NAME_NOT_FOUND, location, message)
        elif _is_router(role):
            yield error(FIELD_OUT_OF_PLACE, location, "routers are not part of a gang; remove it")
        elif minimum > role.replicas:
            message = f"must be at most the role's replicas ({role.replicas}), got {minimum}"
            yield error(OUT_OF_RANGE, location, message)


def _template_findings(location: Location, role: RoleArgs, *, has_model: bool) -> Iterator[Finding]:
    separate = {"leaderTemplate": role.leader_template, "workerTemplate": role.worker_template}
    present = [name for name, template in separate.items() if template is not None]
    if role.template is not None:
        yield from check_fields(location, role, conflict_rule(_SEPARATE_TEMPLATES, "template"))
    elif not present:
        if not has_model:
            message = (
                "is required: the pods that serve the model; or set the service's model, and the "
                "library generates them"
            )
            yield from check_fields(location, role, required_rule("template", message))
        return
    elif role.nodes == 1 and role.has_node_count:
        message = "needs multinode.nodeCount of at least 2; use template"
        yield from check_fields(location, role, inapplicable_rule(_SEPARATE_TEMPLATES, message))
    else:
        # At least one of the two templates is set, so only the missing one is reported.
        message = f"is required with {present[0]}"
        yield from check_fields(location, role, required_rule(_SEPARATE_TEMPLATES, message))
    for name, template in {"template": role.template, **separate}.items():
        if template is not None:
            place = (*location, name)
            yield from role_template_findings(place, template, role.container, has_model=has_model)
    if not has_model or role.template is None:
        message = "needs the service's model, and template instead of leaderTemplate"
        yield from check_fields(location, role, inapplicable_rule("engine", message))


def _router_findings(location: Location, role: RoleArgs) -> Iterator[Finding]:
    route, gateway = role.httproute, role.gateway
    yield from check_fields(
        location,
        role,
        conflict_rule(
            ("strategy", "scorers"),
            "endpointPickerConfig",
            when=role.endpoint_picker_config is not None,
        ),
        inapplicable_rule(
            (*_PICKER_FIELDS, "httproute.split"),
            "has no effect with endpointPicker.enabled: false; remove one of them",
            when=not role.has_endpoint_picker,
            rule=FIELD_WITHOUT_EFFECT,
        ),
    )
    if gateway is not None and route is not None:
        external = route.external_field
        creates_gateway = gateway.refs is None and gateway.model_fields_set != {"implementation"}
        if external is not None and creates_gateway:
            message = (
                f"would create a Gateway without a route (httproute.{external}); remove it, set "
                "refs, or set only implementation"
            )
            yield error(FIELD_OUT_OF_PLACE, (*location, "gateway"), message)
        if gateway.refs and route.parent_refs:
            yield from check_fields(
                location, role, conflict_rule("httproute.parent_refs", "gateway.refs")
            )
    names: list[str] = []
    for rewrite in role.model_rewrites or ():
        # A rewrite without `models` applies to all other names.
        names += rewrite.models or ["any other model"]
    if len(names) > len(set(names)):
        duplicate = next(name for name in names if names.count(name) > 1)
        message = f"rewrite {duplicate} more than once; remove all but one"
        yield error(DUPLICATE_NAME, (*location, "modelRewrites"), message)
