"""The InferencePool: plan and object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs, Strategy
from fusioninfer_pulumi.api.router import EndpointPickerArgs, FailureMode, PoolArgs
from fusioninfer_pulumi.api.topology import is_prefill_decode, serving
from fusioninfer_pulumi.engines import table
from fusioninfer_pulumi.findings import Finding, Location, error, info, warning
from fusioninfer_pulumi.kube import labels, names
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.pickers.flags import GRPC_PORT
from fusioninfer_pulumi.pickers.intent import PickerIntent
from fusioninfer_pulumi.routing.common import Manifest, router_metadata
from fusioninfer_pulumi.routing.gateways import Implementation
from fusioninfer_pulumi.routing.records import PoolPlan, RouterPlan
from fusioninfer_pulumi.topology.role import RolePlan

_LEADER = "0"


def pooled_types(declared: Sequence[RoleArgs], intent: PickerIntent) -> frozenset[ComponentType]:
    """Component types whose leaders the pool holds.

    Args:
        declared: All roles of the service.
        intent: What the picker is for.

    Returns:
        All of them where the picker tells prefill from decode. Else those that answer a request
        by themselves: a prefill pod answers with one token only. A selector cannot say "one of
        two types", so decoders win over workers where prefillers have to stay out.
    """
    types = frozenset(role.component_type for role in serving(declared))
    if intent.pairs or ComponentType.PREFILLER not in types or len(types) == 1:
        return types
    if ComponentType.DECODER in types:
        return frozenset({ComponentType.DECODER})
    return types - {ComponentType.PREFILLER}


def pool_plan(
    service: str, args: RoleArgs, declared: Sequence[RoleArgs], intent: PickerIntent, port: int
) -> PoolPlan:
    """Plans the pool.

    Args:
        service: Name of the service.
        args: The router role.
        declared: All roles of the service.
        intent: What the picker is for.
        port: Port on which the pods serve.
    """
    types = pooled_types(declared, intent)
    # LeaderWorkerSet's own label tells the leaders, which serve, from the workers, which do not;
    # no other pod has it together with the service's.
    selector = {labels.SERVICE: service, labels.LWS_WORKER_INDEX: _LEADER}
    if len(types) == 1:
        selector[labels.COMPONENT_TYPE] = next(iter(types)).value
    guard = args.pool or PoolArgs()
    picker = args.endpoint_picker or EndpointPickerArgs()
    return PoolPlan(
        name=names.inference_pool(service),
        selector=selector,
        port=port,
        failure_mode=picker.failure_mode or FailureMode.FAIL_OPEN,
        roles=tuple(role.name for role in serving(declared) if role.component_type in types),
        protect=guard.protect,
        retain=guard.retain_on_delete,
    )


def pool_findings(
    position: int,
    declared: Sequence[RoleArgs],
    intent: PickerIntent,
    served: Sequence[RolePlan],
) -> Iterator[Finding]:
    """What follows for the pool from the roles of the service.

    Args:
        position: Index of the router in the spec.
        declared: All roles of the service.
        intent: What the picker is for.
        served: Roles whose pods the pool holds.

    Yields:
        Findings, errors included.
    """
    at = ("roles", position)
    field = (*at, "strategy") if intent.strategy is not None else (*at, "endpointPickerConfig")
    left = [role for role in serving(declared) if role.name not in {each.name for each in served}]
    if intent.strategy is Strategy.PD_DISAGGREGATION:
        yield from _pairing(field, declared)
    elif left:
        idle = ", ".join(f"{role.name} ({role.component_type.value})" for role in left)
        to = ", ".join(role.name for role in served)
        yield warning(
            "role-without-requests",
            field,
            f"requests go to {to} only, {idle} gets none: "
            + (
                f"choose {Strategy.PD_DISAGGREGATION.value} to pair prefill with decode"
                if is_prefill_decode(declared)
                else "a prefill pod answers with one token only"
            ),
        )
    ports = {role.serving.port for role in served}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.serving.port}" for role in served)
        yield error(
            "pool-ports-differ",
            at,
            f"the pods of a pool serve on one port, the roles on different ones ({listed}); give "
            "them one port",
        )
    for role in served:
        if table.serves_https(role.serving.command):
            yield warning(
                "pool-pods-serve-https",
                ("roles", role.position),
                "serves HTTPS, but gateway and picker speak plain HTTP to the pods of a pool; end "
                "TLS at the Gateway",
            )


def failure_mode_findings(
    position: int, args: RoleArgs, implementation: Implementation | None
) -> Iterator[Finding]:
    """Says where the gateway does not do what `failureMode` says."""
    picker = args.endpoint_picker or EndpointPickerArgs()
    at = ("roles", position, "endpointPicker", "failureMode")
    mode = picker.failure_mode or FailureMode.FAIL_OPEN
    if implementation is None or implementation.honours_failure_mode:
        return
    if implementation.honours_failure_mode is None:
        if picker.failure_mode is not None:
            yield info(
                "failure-mode-unverified",
                at,
                f"whether {implementation.name} reads it is not known",
            )
    elif mode is not FailureMode.FAIL_CLOSE:
        say = warning if picker.failure_mode is not None else info
        yield say(
            "failure-mode-ignored",
            at,
            f"{mode.value} is ignored by {implementation.name}, which always drops requests while "
            "the picker does not answer (FailClose)",
        )


def _pairing(field: Location, declared: Sequence[RoleArgs]) -> Iterator[Finding]:
    types = {role.component_type for role in serving(declared)}
    missing = [
        kind.value for kind in (ComponentType.PREFILLER, ComponentType.DECODER) if kind not in types
    ]
    if missing:
        yield error(
            "disaggregation-role-missing",
            field,
            f"{Strategy.PD_DISAGGREGATION.value} needs a prefiller and a decoder; there is no "
            f"{' and no '.join(missing)}",
        )
    else:
        idle = [role.name for role in declared if role.component_type is ComponentType.WORKER]
        if idle:
            yield warning(
                "role-without-requests",
                field,
                f"requests go to prefillers and decoders only, {', '.join(idle)} (worker) gets "
                "none",
            )


def inference_pool(plan: ServiceMeta, router: RouterPlan) -> Manifest:
    """Builds the InferencePool."""
    pool = router.pool
    return {
        "apiVersion": f"{names.POOL_GROUP}/v1",
        "kind": names.POOL_KIND,
        "metadata": router_metadata(plan, router, pool.name),
        "spec": {
            "selector": {"matchLabels": dict(pool.selector)},
            "targetPorts": [{"number": pool.port}],
            "endpointPickerRef": {
                "name": router.picker.name,
                "port": {"number": GRPC_PORT},
                "failureMode": pool.failure_mode.value,
            },
        },
    }


def pool_target(router: RouterPlan) -> Manifest:
    """The pool as policies name what they are for."""
    return {"group": names.POOL_GROUP, "kind": names.POOL_KIND, "name": router.pool.name}
