"""Builds a service: from its spec to everything that its Kubernetes objects are made of."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology import service_shape
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
    shape = service_shape(args)
    routers = shape.routers
    intent = epp_intent(routers[0], args.roles, args.image_registry) if routers else None
    built = []
    for ctx in contexts(meta, args, shape, intent):
        pods, problems = build_pods(ctx)
        built.append((ctx, pods))
        findings += problems
    roles = tuple(role_plan(ctx, pods, shape.layout, args.groups) for ctx, pods in built)
    gangs = gang_plans(service, roles, args.scheduling_strategy, shape, args.groups)
    parts: RouterParts | None = None
    router: RouterPlan | None = None
    if intent is not None:
        parts = router_parts(
            service,
            args.namespace,
            args.roles.index(shape.routers[0]),
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
        router=router,
        service_route=None if parts is None or parts.picks_endpoints else parts,
        groups=args.groups,
        gangs=gangs,
        shape=shape,
        rollout=args.rollout,
        wait=args.wait,
        findings=(),
        operations=operations_plan(service, args, roles, parts if router is None else router),
        model=model_plan(service, args),
    )
    return BuiltService(args, plan, tuple(built), parts, tuple(findings))
