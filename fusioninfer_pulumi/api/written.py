"""What is judged of a service as it is written, before anything is built of it.

Every field is valid by then: its model has refused the others. These checks hold what fields say of
each other. They stand in `api`, not in `checks`, because the constructor of `InferenceServiceArgs`
raises what they find. Each model's own rules stand beside its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.api.device_claims import claim_findings
from fusioninfer_pulumi.api.engine import parallelism_findings
from fusioninfer_pulumi.api.kv_offloading import offloading_findings
from fusioninfer_pulumi.api.kv_transfer import kv_transfer_findings
from fusioninfer_pulumi.api.model import model_findings
from fusioninfer_pulumi.api.pod_template import pod_template_findings
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy, SubGroupPolicyType
from fusioninfer_pulumi.api.route import (
    gateway_findings,
    httproute_findings,
    model_rewrite_findings,
)
from fusioninfer_pulumi.api.router import (
    EndpointPickerArgs,
    network_policy_findings,
    picker_findings,
)
from fusioninfer_pulumi.api.spec import ServiceMetadata, ServiceSpec
from fusioninfer_pulumi.api.types import MAX_COUNT
from fusioninfer_pulumi.findings import Finding, Location, error
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.rules.common import (
    DUPLICATE_NAME,
    FIELD_OUT_OF_PLACE,
    FIELD_REQUIRED,
    FIELD_WITHOUT_EFFECT,
    FIELDS_EXCLUDE_EACH_OTHER,
    NAME_NOT_FOUND,
    OUT_OF_RANGE,
    PARALLELISM_NOT_DIVISIBLE,
    SET_BY_LIBRARY,
)

#: Checks a service.
Check = Callable[[ServiceMetadata, ServiceSpec], Iterable[Finding]]


@dataclass(frozen=True)
class WrittenRole:
    """One role of a service.

    Attributes:
        at: Where it stands.
        modelled: Whether the service has a `model`: then the library can write the container.
    """

    at: Location
    role: RoleArgs
    modelled: bool


#: Checks a role.
RoleCheck = Callable[[WrittenRole], Iterable[Finding]]

#: Fields of routers.
ROUTER_FIELDS = (
    "strategy",
    "scorers",
    "httproute",
    "gateway",
    "endpoint_picker",
    "endpoint_picker_config",
    "pool",
    "model_rewrites",
    "network_policy",
    "reference_grants",
)
#: Fields of routers that only an endpoint picker and its pool read.
_PICKER_FIELDS = ("strategy", "scorers", "endpoint_picker_config", "pool", "model_rewrites")
#: Fields of roles that serve a model.
_SERVING_FIELDS = tuple(
    field
    for field in RoleArgs.model_fields
    if field not in ("name", "component_type", "pod_labels", "pod_annotations", *ROUTER_FIELDS)
)


def service_findings(metadata: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    """Checks a service, each field of which is valid, in the order of the fields."""
    for check in CHECKS:
        yield from check(metadata, spec)


def role_findings(at: Location, role: RoleArgs, *, modelled: bool) -> Iterator[Finding]:
    """Checks one role, each field of which is valid."""
    written = WrittenRole(at, role, modelled)
    routes = role.component_type is ComponentType.ROUTER
    for check in ROUTER_CHECKS if routes else SERVING_CHECKS:
        yield from check(written)


def _own_labels(metadata: ServiceMetadata, _: ServiceSpec) -> Iterator[Finding]:
    for key in metadata.labels:
        if key.startswith(labels.PREFIX) or key in labels.LWS_OWNED_LABELS:
            yield error(
                SET_BY_LIBRARY,
                ("metadata", "labels", key),
                "is set by fusioninfer-pulumi; remove it",
            )


def _pod_metadata(_: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    routers = {
        index
        for index, role in enumerate(spec.roles)
        if role.component_type is ComponentType.ROUTER
    }
    yield from _pod_keys((), spec, picker=bool(routers))
    for index, role in enumerate(spec.roles):
        yield from _pod_keys(("roles", index), role, picker=index in routers)


def _pod_keys(at: Location, args: ServiceSpec | RoleArgs, *, picker: bool) -> Iterator[Finding]:
    """Checks the keys of pod labels and annotations, which others write on the same pods."""
    # A picker's Deployment selects its pods by `app`.
    of_labels = labels.LWS_OWNED_LABELS | ({labels.APP} if picker else set())
    taken = (
        ("podLabels", args.pod_labels, of_labels),
        ("podAnnotations", args.pod_annotations, labels.GANG_ANNOTATIONS),
    )
    for field, values, owned in taken:
        for key in values:
            if key.startswith(labels.PREFIX) or key in owned:
                message = "is set by fusioninfer-pulumi or LeaderWorkerSet; remove it"
                yield error(SET_BY_LIBRARY, (*at, field, key), message)


def _role_list(_: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    roles = spec.roles
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


def _roles(_: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    for index, role in enumerate(spec.roles):
        yield from role_findings(("roles", index), role, modelled=spec.model is not None)
        if (spec.groups or 0) * role.replicas > MAX_COUNT:
            yield error(
                OUT_OF_RANGE,
                ("roles", index, "replicas"),
                f"must be at most {MAX_COUNT} over all groups, got {spec.groups} x {role.replicas}",
            )


def _model(_: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    if spec.model is not None:
        yield from model_findings(("model",), spec.model)


def _gang_minima(_: ServiceMetadata, spec: ServiceSpec) -> Iterator[Finding]:
    by_name = {role.name: role for role in spec.roles}
    minima = spec.scheduling_strategy.gang_policy.min_role_replicas or {}
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


def _foreign(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    routes = role.component_type is ComponentType.ROUTER
    why = "a router runs no model; remove it"
    if not routes:
        why = "belongs to a role of componentType router"
    for field in _SERVING_FIELDS if routes else ROUTER_FIELDS:
        if field in role.model_fields_set and getattr(role, field) is not None:
            alias = RoleArgs.model_fields[field].alias or field
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, alias),
                f"{why} (this role is a {role.component_type.value})",
            )


def _templates(written: WrittenRole) -> Iterator[Finding]:
    at, role, modelled = written.at, written.role, written.modelled
    separate = {"leaderTemplate": role.leader_template, "workerTemplate": role.worker_template}
    present = [name for name, template in separate.items() if template is not None]
    if role.template is not None:
        for name in present:
            yield error(
                FIELDS_EXCLUDE_EACH_OTHER,
                (*at, name),
                "stands in place of template; give one or the other",
            )
    elif not present:
        if not modelled:
            message = "is required: the pods that serve the model"
            if role.accelerator is not None or role.gpus is not None or role.engine is not None:
                message += "; or give the service's model, and the library writes them"
            yield error(FIELD_REQUIRED, (*at, "template"), message)
        return
    elif role.nodes == 1 and role.counted:
        for name in present:
            yield error(
                FIELD_OUT_OF_PLACE,
                (*at, name),
                "needs multinode.nodeCount of at least 2; use template",
            )
    else:
        for name in sorted(set(separate) - set(present)):
            yield error(FIELD_REQUIRED, (*at, name), f"is required beside {present[0]}")
    for name, template in {"template": role.template, **separate}.items():
        if template is not None:
            left_out = name == "template" and modelled
            whole = _with_containers(template, role) if left_out else template
            yield from pod_template_findings((*at, name), whole, role.container)
    if role.engine is not None and (not modelled or role.template is None):
        message = "needs the service's model, and template in place of leaderTemplate"
        yield error(FIELD_OUT_OF_PLACE, (*at, "engine"), message)


def _with_containers(template: Mapping[str, Any], role: RoleArgs) -> Mapping[str, Any]:
    """A template that leaves its containers to the library, as it is checked."""
    spec = template.get("spec")
    if not isinstance(spec, Mapping) or spec.get("containers") is not None:
        return template
    return {**template, "spec": {**spec, "containers": [{"name": role.container or "engine"}]}}


def _kv_transfer(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    transfer = role.kv_transfer
    if transfer is None:
        return
    at = (*at, "kvTransfer")
    if role.component_type is ComponentType.WORKER:
        yield error(
            FIELD_OUT_OF_PLACE,
            at,
            "belongs to a prefiller or a decoder (this role is a worker)",
        )
        return
    if role.component_type is ComponentType.PREFILLER:
        for field, alias in (("engine_port", "enginePort"), ("sidecar", "sidecar")):
            if field in transfer.model_fields_set and getattr(transfer, field) is not None:
                yield error(
                    FIELD_OUT_OF_PLACE,
                    (*at, alias),
                    "belongs to a decoder: only decode pods have a sidecar",
                )
    yield from kv_transfer_findings(at, transfer)


def _multinode(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if role.counted:
        return
    at = (*at, "multinode")
    if role.parallelism is None:
        yield error(FIELD_REQUIRED, (*at, "nodeCount"), "is required")
    else:
        yield error(
            FIELD_REQUIRED,
            (*at, "nodeCount"),
            "is required: parallelism does not say how many pods a replica has (pipeline would, or "
            "data with dataLocal)",
        )


def _parallelism(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if role.parallelism is not None:
        node_count = role.multinode.node_count if role.multinode else None
        yield from parallelism_findings((*at, "parallelism"), role.parallelism, node_count)


def _sub_groups(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if role.sub_group_policy is None or not role.counted:
        return
    nodes, size = role.nodes, role.sub_group_policy.sub_group_size
    where = (*at, "subGroupPolicy", "subGroupSize")
    if size > nodes:
        yield error(
            OUT_OF_RANGE,
            where,
            f"must be at most nodeCount ({nodes}), got {size}",
        )
    elif role.sub_group_policy.sub_group_policy_type is SubGroupPolicyType.LEADER_EXCLUDED:
        if (nodes - 1) % size:
            yield error(
                PARALLELISM_NOT_DIVISIBLE,
                where,
                f"must divide nodeCount - 1 ({nodes - 1}) when the leader is excluded, got {size}",
            )
    elif nodes % size and (nodes - 1) % size:
        yield error(
            PARALLELISM_NOT_DIVISIBLE,
            where,
            f"must divide nodeCount ({nodes}) or nodeCount - 1, got {size}",
        )


def _strategy(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if role.endpoint_picker_config is not None:
        for key, value in (("strategy", role.strategy), ("scorers", role.scorers)):
            if value is not None:
                yield error(
                    FIELDS_EXCLUDE_EACH_OTHER,
                    (*at, key),
                    "endpointPickerConfig stands in its place; give one or the other",
                )


def _picker(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if not role.picks_endpoints:
        yield from _without_picker(at, role)
    elif role.endpoint_picker is not None:
        chosen = role.strategy in (None, Strategy.PD_DISAGGREGATION)
        yield from picker_findings(
            (*at, "endpointPicker"),
            role.endpoint_picker,
            disaggregated=chosen and role.endpoint_picker_config is None,
        )


def _without_picker(at: Location, role: RoleArgs) -> Iterator[Finding]:
    """Checks that a router without an endpoint picker asks nothing of one, nor of its pool."""
    picker, route = role.endpoint_picker, role.httproute
    asked: list[Location] = [
        (RoleArgs.model_fields[field].alias or field,)
        for field in _PICKER_FIELDS
        if getattr(role, field) is not None
    ]
    asked += [
        ("endpointPicker", EndpointPickerArgs.model_fields[field].alias or field)
        for field in sorted(picker.model_fields_set if picker is not None else ())
        if field != "enabled" and getattr(picker, field) is not None
    ]
    if route is not None and route.split is not None:
        asked.append(("httproute", "split"))
    for field in asked:
        yield error(
            FIELD_WITHOUT_EFFECT,
            (*at, *field),
            "has no effect with endpointPicker.enabled: false; remove one of them",
        )


def _gateway(written: WrittenRole) -> Iterator[Finding]:
    at, role = written.at, written.role
    if role.gateway is None:
        return
    yield from gateway_findings((*at, "gateway"), role.gateway)
    if (
        role.httproute is not None
        and role.httproute.external_field is not None
        and role.gateway.refs is None
        and role.gateway.model_fields_set != {"implementation"}
    ):
        yield error(
            FIELD_OUT_OF_PLACE,
            (*at, "gateway"),
            f"would be a Gateway without a route (httproute.{role.httproute.external_field}); "
            "remove it, or leave implementation alone, or give refs",
        )
    if role.gateway.refs and role.httproute is not None and role.httproute.parent_refs:
        yield error(
            FIELDS_EXCLUDE_EACH_OTHER,
            (*at, "httproute", "parentRefs"),
            "follow from gateway.refs; give one or the other",
        )


def _in(field: str, findings: Callable[[Location, Any], Iterable[Finding]]) -> RoleCheck:
    """Checks what a field holds by itself, where it is set."""
    alias = RoleArgs.model_fields[field].alias or field

    def check(written: WrittenRole) -> Iterable[Finding]:
        value = getattr(written.role, field)
        return () if value is None else findings((*written.at, alias), value)

    return check


CHECKS: tuple[Check, ...] = (
    _own_labels,
    _pod_metadata,
    _role_list,
    _roles,
    _model,
    _gang_minima,
)
SERVING_CHECKS: tuple[RoleCheck, ...] = (
    _foreign,
    _templates,
    _kv_transfer,
    _in("kv_cache_offloading", offloading_findings),
    _in("resource_claims", claim_findings),
    _multinode,
    _parallelism,
    _sub_groups,
)
ROUTER_CHECKS: tuple[RoleCheck, ...] = (
    _foreign,
    _strategy,
    _picker,
    _in("httproute", httproute_findings),
    _gateway,
    _in("model_rewrites", model_rewrite_findings),
    _in("network_policy", network_policy_findings),
)
