"""Rules that relate several roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusioninfer_pulumi.api.base import MAX_COUNT
from fusioninfer_pulumi.api.device_claims import claim_problems
from fusioninfer_pulumi.api.kv_offloading import offloading_problems
from fusioninfer_pulumi.api.kv_transfer import KvTransferArgs, SidecarArgs
from fusioninfer_pulumi.api.model import ModelArgs, model_problems
from fusioninfer_pulumi.api.parallelism import parallelism_problems
from fusioninfer_pulumi.api.pod_template import (
    amount_problems,
    pod_template_problems,
    resource_problems,
)
from fusioninfer_pulumi.api.problem import Problem
from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, SubGroupPolicyType
from fusioninfer_pulumi.api.router import leaf_problems
from fusioninfer_pulumi.api.router_rules import router_problems
from fusioninfer_pulumi.api.scheduling import SchedulingStrategyArgs
from fusioninfer_pulumi.findings import Location, shown
from fusioninfer_pulumi.kube import labels


def kv_problems(at: Location, role: RoleArgs) -> Iterator[Problem]:
    """Checks how a role that runs pods hands its KV cache over.

    Args:
        at: Where it stands.
        role: The role, well-formed field by field.

    Yields:
        Every problem.
    """
    transfer = role.kv_transfer
    if transfer is None:
        return
    at = (*at, "kvTransfer")
    if role.component_type is ComponentType.WORKER:
        yield Problem(at, "belongs to a prefiller or a decoder (this role is a worker)")
        return
    if role.component_type is ComponentType.PREFILLER:
        for field, alias in (("engine_port", "enginePort"), ("sidecar", "sidecar")):
            if field in transfer.model_fields_set and getattr(transfer, field) is not None:
                yield Problem((*at, alias), "belongs to a decoder: only decode pods have a sidecar")
    if transfer.extra_config is not None:
        yield from leaf_problems((*at, "extraConfig"), transfer.extra_config)
    if transfer.shared_memory is not None:
        # Said in the words of a resource amount, at the field itself.
        amounts = {"sharedMemory": transfer.shared_memory}
        yield from amount_problems(at, amounts)
    yield from _ports(at, transfer)
    yield from _sidecar((*at, "sidecar"), transfer.sidecar)


def _ports(at: Location, transfer: KvTransferArgs) -> Iterator[Problem]:
    if transfer.engine_port == transfer.side_channel_port:
        yield Problem(
            (*at, "enginePort"),
            f"must differ from sideChannelPort, got {transfer.engine_port} for both",
        )


def _sidecar(at: Location, sidecar: SidecarArgs) -> Iterator[Problem]:
    if isinstance(sidecar.image, str) and (not sidecar.image or " " in sidecar.image):
        yield Problem((*at, "image"), f"must be an image reference, got {shown(sidecar.image)}")
    if sidecar.resources is not None:
        yield from leaf_problems((*at, "resources"), sidecar.resources)
        yield from resource_problems((*at, "resources"), sidecar.resources)
    if not sidecar.enabled:
        for field in sorted(sidecar.model_fields_set - {"enabled"}):
            alias = SidecarArgs.model_fields[field].alias or field
            yield Problem((*at, alias), "has no effect: the sidecar is not enabled; remove it")


_ROUTER_ONLY = (
    "strategy",
    "scorers",
    "httproute",
    "gateway",
    "endpoint_picker",
    "endpoint_picker_config",
    "pool",
    "network_policy",
    "reference_grants",
)
_SERVING_ONLY = (
    "replicas",
    "template",
    "leader_template",
    "worker_template",
    "container",
    "port",
    "multinode",
    "parallelism",
    "resource_claims",
    "placement",
    "rollout",
    "restart_policy",
    "environment",
    "startup_policy",
    "network_config",
    "sub_group_policy",
    "kv_transfer",
    "kv_events",
    "kv_cache_offloading",
    "disruption_budget",
    "autoscaling",
    "startup",
    "topology_spread",
)


def service_problems(
    roles: Sequence[RoleArgs],
    scheduling: SchedulingStrategyArgs,
    own_labels: Mapping[str, str],
    groups: int | None = None,
    model: ModelArgs | None = None,
) -> list[Problem]:
    """Checks a spec whose fields are well-formed by themselves.

    Args:
        roles: The service's roles.
        scheduling: Its scheduling strategy.
        own_labels: The labels of its metadata.
        groups: Its serving groups, None without.
        model: Its model.

    Returns:
        Every problem, in the order of the fields.
    """
    problems = list(_own_labels(own_labels))
    problems += _role_list(roles)
    excessive = excessive_roles(roles, groups)
    for index, role in enumerate(roles):
        problems += _role(("roles", index), role)
        if index in excessive:
            problems.append(_excessive(index, role, groups))
    if model is not None:
        problems += model_problems(("model",), model)
    problems += _gang_minima(roles, scheduling.gang_policy.min_role_replicas or {})
    return problems


def _own_labels(own: Mapping[str, str]) -> Iterator[Problem]:
    for key in own:
        if key.startswith(labels.PREFIX) or key in labels.LWS_OWNED_LABELS:
            yield Problem(("metadata", "labels", key), "is set by fusioninfer-pulumi; remove it")


def _role_list(roles: Sequence[RoleArgs]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, role in enumerate(roles):
        first = seen.setdefault(role.name, index)
        if first != index:
            yield Problem(
                ("roles", index, "name"), f'"{role.name}" is also the name of roles[{first}]'
            )
    routers = [i for i, role in enumerate(roles) if role.component_type is ComponentType.ROUTER]
    for index in routers[1:]:
        yield Problem(
            ("roles", index, "componentType"),
            f"a service has one router, roles[{routers[0]}] is one already",
        )
    if roles and len(routers) == len(roles):
        yield Problem(
            ("roles",), "no role serves a model; add a role of worker, prefiller or decoder"
        )


def _role(at: tuple[str | int, ...], role: RoleArgs) -> Iterator[Problem]:
    if role.component_type is ComponentType.ROUTER:
        yield from _foreign(at, role, _SERVING_ONLY, "a router runs no model; remove it")
        yield from router_problems(at, role)
        return
    yield from _foreign(at, role, _ROUTER_ONLY, "belongs to a role of componentType router")
    yield from _templates(at, role)
    yield from kv_problems(at, role)
    if role.kv_cache_offloading is not None:
        yield from offloading_problems((*at, "kvCacheOffloading"), role.kv_cache_offloading)
    yield from claim_problems((*at, "resourceClaims"), role.resource_claims or ())
    yield from _multinode((*at, "multinode"), role)
    if role.parallelism is not None:
        stated = role.multinode.node_count if role.multinode else None
        yield from parallelism_problems((*at, "parallelism"), role.parallelism, stated)
    nodes = role.nodes
    if role.sub_group_policy:
        size = role.sub_group_policy.sub_group_size
        where = (*at, "subGroupPolicy", "subGroupSize")
        if size > nodes:
            yield Problem(where, f"must be at most nodeCount ({nodes}), got {size}", size)
        elif role.sub_group_policy.sub_group_policy_type is SubGroupPolicyType.LEADER_EXCLUDED:
            if (nodes - 1) % size:
                yield Problem(
                    where,
                    f"must divide nodeCount - 1 ({nodes - 1}) when the leader is excluded, "
                    f"got {size}",
                    size,
                )
        elif nodes % size and (nodes - 1) % size:
            yield Problem(
                where, f"must divide nodeCount ({nodes}) or nodeCount - 1, got {size}", size
            )


def _multinode(at: tuple[str | int, ...], role: RoleArgs) -> Iterator[Problem]:
    if role.counted:
        return
    if role.parallelism is None:
        yield Problem((*at, "nodeCount"), "is required")
    else:
        yield Problem(
            (*at, "nodeCount"),
            "is required: parallelism does not say how many pods a replica has (pipeline would, or "
            "data with dataLocal)",
        )


def excessive_roles(roles: Sequence[RoleArgs], groups: int | None) -> set[int]:
    """Indexes of the roles with more replicas over all groups than a service may have."""
    return {index for index, role in enumerate(roles) if (groups or 0) * role.replicas > MAX_COUNT}


def _excessive(index: int, role: RoleArgs, groups: int | None) -> Problem:
    return Problem(
        ("roles", index, "replicas"),
        f"must be at most {MAX_COUNT} over all groups, got {groups} x {role.replicas}",
        role.replicas,
    )


def _foreign(
    at: tuple[str | int, ...], role: RoleArgs, fields: Sequence[str], why: str
) -> Iterator[Problem]:
    for field in fields:
        if field in role.model_fields_set and getattr(role, field) is not None:
            alias = RoleArgs.model_fields[field].alias or field
            yield Problem((*at, alias), f"{why} (this role is a {role.component_type.value})")


def _templates(at: tuple[str | int, ...], role: RoleArgs) -> Iterator[Problem]:
    separate = {"leaderTemplate": role.leader_template, "workerTemplate": role.worker_template}
    given = [name for name, template in separate.items() if template is not None]
    if role.template is not None:
        for name in given:
            yield Problem((*at, name), "stands in place of template; give one or the other")
    elif not given:
        yield Problem((*at, "template"), "is required: the pods that serve the model")
    elif role.nodes == 1 and role.counted:
        for name in given:
            yield Problem((*at, name), "needs multinode.nodeCount of at least 2; use template")
    else:
        for name in sorted(set(separate) - set(given)):
            yield Problem((*at, name), f"is required beside {given[0]}")
    for name, template in {"template": role.template, **separate}.items():
        if template is not None:
            yield from pod_template_problems((*at, name), template, role.container)


def _gang_minima(roles: Sequence[RoleArgs], minima: Mapping[str, int]) -> Iterator[Problem]:
    by_name = {role.name: role for role in roles}
    for name, minimum in minima.items():
        at = ("schedulingStrategy", "gangPolicy", "minRoleReplicas", name)
        role = by_name.get(name)
        if role is None:
            yield Problem(at, f"no role of that name; allowed: {', '.join(sorted(by_name))}")
        elif role.component_type is ComponentType.ROUTER:
            yield Problem(at, "a router has no share in a gang; remove it")
        elif minimum > role.replicas:
            yield Problem(
                at, f"must be at most the role's replicas ({role.replicas}), got {minimum}", minimum
            )
