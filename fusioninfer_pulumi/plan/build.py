"""Builds a service: from its spec to everything that its Kubernetes objects are made of."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology import (
    chosen_layout,
    local_queue,
    needs_gang,
    scheduler_name,
    volcano_queue,
)
from fusioninfer_pulumi.endpoint_pickers.intent import epp_intent
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.operations.operations import operations_plan
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.build import RolePods, build_pods
from fusioninfer_pulumi.pods.context import contexts
from fusioninfer_pulumi.pods.health import with_model_size
from fusioninfer_pulumi.pods.metadata import with_pod_metadata
from fusioninfer_pulumi.pods.model_cache import model_plan
from fusioninfer_pulumi.pods.pod import Context
from fusioninfer_pulumi.routing.router import RouterParts, RouterPlan, router_parts, router_plan
from fusioninfer_pulumi.topology.gang import gang_plans
from fusioninfer_pulumi.topology.role import role_plan


@dataclass(frozen=True)
class BuiltService:
    """A service as it was built, for the checks.

    Attributes:
        args: The spec.
        plan: The plan, without findings.
        pods: The pods of each role that runs any, with what they were built from.
        router: The parts of its router role, None without one.
        findings: What could not be built, or was decided on the way.
    """

    args: InferenceServiceArgs
    plan: ServicePlan
    pods: tuple[tuple[Context, RolePods], ...]
    router: RouterParts | None
    findings: tuple[Finding, ...]


def build_service(args: InferenceServiceArgs, name: str | None = None) -> BuiltService:
    """Builds one service; `name` is its Kubernetes name if the spec has none."""
    service = args.name or name or ""
    meta = ServiceMeta(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
    )
    args = with_pod_metadata(with_model_size(args))
    findings: list[Finding] = []
    routers = [
        position
        for position, role in enumerate(args.roles)
        if role.component_type is ComponentType.ROUTER
    ]
    intent = (
        epp_intent(args.roles[routers[0]], args.roles, args.image_registry) if routers else None
    )
    built = []
    for ctx in contexts(meta, args, intent):
        pods, problems = build_pods(ctx)
        built.append((ctx, pods))
        findings += problems
    layout = chosen_layout(args.layout, args.roles, is_written="layout" in args.model_fields_set)
    roles = tuple(role_plan(ctx, pods, layout, args.groups) for ctx, pods in built)
    strategy = args.scheduling_strategy
    ganged = needs_gang(args.roles, strategy)
    gangs = gang_plans(service, roles, strategy, layout, args.groups) if ganged else ()
    parts: RouterParts | None = None
    router: RouterPlan | None = None
    if intent is not None:
        position = routers[0]
        parts = router_parts(
            service,
            args.namespace,
            position,
            args.roles,
            roles,
            intent,
            args.groups,
            monitored=args.monitoring is not None,
        )
        if parts.picks_endpoints:
            router, problems = router_plan(parts, args.tracing)
            findings += problems
    plan = ServicePlan(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
        roles=roles,
        routers=tuple(args.roles[position] for position in routers),
        router=router,
        service_route=None if parts is None or parts.picks_endpoints else parts,
        groups=args.groups,
        gangs=gangs,
        scheduler_name=scheduler_name(args.roles, strategy),
        gang_scheduled=ganged,
        queue=volcano_queue(strategy),
        local_queue=local_queue(strategy),
        priority_class=strategy.priority_class_name,
        layout=layout,
        rollout=args.rollout,
        wait=args.wait,
        findings=(),
        operations=operations_plan(service, args, roles, parts if router is None else router),
        model=model_plan(service, args),
    )
    return BuiltService(args, plan, tuple(built), parts, tuple(findings))
