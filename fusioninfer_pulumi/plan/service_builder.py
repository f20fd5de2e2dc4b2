"""Builds the plan of a service from its spec."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from fusioninfer_pulumi.api.provenance import Provenance
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.service_shape import derive_service_shape
from fusioninfer_pulumi.endpoint_pickers.picker_choice import choose_epp
from fusioninfer_pulumi.findings import Finding
from fusioninfer_pulumi.kube.object_metadata import ServiceMeta
from fusioninfer_pulumi.operations.operations import plan_operations
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.pods.build_pods import build_contexts, build_pods
from fusioninfer_pulumi.pods.model_files import plan_model_cache
from fusioninfer_pulumi.pods.pod import Context, RolePods
from fusioninfer_pulumi.pods.pod_metadata import add_pod_metadata
from fusioninfer_pulumi.pods.probes_and_shutdown import add_model_size
from fusioninfer_pulumi.routing.routing_plan import Routing, plan_routing
from fusioninfer_pulumi.topology.gang import plan_gangs
from fusioninfer_pulumi.topology.role_plan import plan_role


class BuiltService(NamedTuple):
    """A service's expanded spec, plan and pods, which the checks read.

    Attributes:
        args: The expanded spec, with pod metadata and model sizes merged into the roles.
        plan: The plan, without findings.
        role_pods: Context and pods of each role that runs pods.
        findings: Findings of the passes that build pods, and about the endpoint picker's release.
    """

    args: InferenceServiceArgs
    plan: ServicePlan
    role_pods: tuple[tuple[Context, RolePods], ...]
    findings: tuple[Finding, ...]


def build_service(
    args: InferenceServiceArgs, provenance: Provenance, name: str | None
) -> BuiltService:
    """Build one service: its pods, and the plan of its objects.

    Args:
        args: The spec, expanded by presets.
        provenance: Sources of the expanded values.
        name: Kubernetes name of the service, used if the spec has none.
    """
    service_name = args.name or name or ""
    meta = ServiceMeta(
        service=service_name,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
    )
    # From here on, the roles contain the service's pod metadata and model size.
    args, user_fields = add_pod_metadata(add_model_size(args))
    shape = derive_service_shape(args)
    epp_choice = choose_epp(args, shape.router, shape) if shape.router else None
    role_pods, findings = build_pods(build_contexts(meta, args, shape, epp_choice))
    for _, pods in role_pods:
        for pod in pods.all:
            user_fields |= {(*pod.path, *part): field for part, field in pod.user_fields.items()}
    provenance = replace(provenance, user_fields={**provenance.user_fields, **user_fields})
    roles = tuple(plan_role(ctx, pods, args.rollout) for ctx, pods in role_pods)
    gangs = plan_gangs(service_name, roles, args.scheduling_strategy, shape)
    routing: Routing | None = None
    if epp_choice is not None:
        routing = plan_routing(service_name, args, shape, roles, epp_choice)
        findings += epp_choice.findings
    plan = ServicePlan(
        meta=meta,
        shape=shape,
        roles=roles,
        gangs=gangs,
        rollout=args.rollout,
        wait=args.wait,
        routing=routing,
        provenance=provenance,
        operations=plan_operations(service_name, args, shape, roles, routing),
        model=plan_model_cache(service_name, args),
    )
    return BuiltService(args, plan, tuple(role_pods), tuple(findings))
