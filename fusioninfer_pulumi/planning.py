"""Plans a service: from its spec to everything that its Kubernetes objects need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology import (
    entry_types,
    is_prefill_decode,
    needs_gang,
    scheduler_name,
    serving,
)
from fusioninfer_pulumi.findings import Finding, Rule, Severity, error, errors, info, shown, warning
from fusioninfer_pulumi.kube.metadata import ServiceMeta
from fusioninfer_pulumi.kube.names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.name_collisions import Owners
from fusioninfer_pulumi.object_checks import objects_findings
from fusioninfer_pulumi.operations.operations import operations_plan
from fusioninfer_pulumi.pods.build import RolePods, build_pods
from fusioninfer_pulumi.pods.checks import claim_findings, role_findings
from fusioninfer_pulumi.pods.context import contexts
from fusioninfer_pulumi.pods.engine_arguments import argument_findings
from fusioninfer_pulumi.pods.health import with_model_size
from fusioninfer_pulumi.pods.model_cache import model_plan
from fusioninfer_pulumi.pods.pod import Context
from fusioninfer_pulumi.pods.ports import host_network_findings
from fusioninfer_pulumi.pods.prefill_decode import agreement_findings, pair_findings
from fusioninfer_pulumi.pods.validation.metadata import size_findings
from fusioninfer_pulumi.rollout.checks import (
    assumed_replicas_findings,
    rollout_findings,
    rollout_layout_findings,
    startup_findings,
)
from fusioninfer_pulumi.routing.between_services import Gateways, Routes, Shares
from fusioninfer_pulumi.routing.router import RouterPlan, router_plan
from fusioninfer_pulumi.service_plan import RoleMemory, ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, gang_plans
from fusioninfer_pulumi.topology.gang_checks import (
    network_topology_findings,
    scheduling_findings,
    spread_findings,
)
from fusioninfer_pulumi.topology.name_checks import name_findings, service_name_findings
from fusioninfer_pulumi.topology.role import RolePlan, role_plan

SERVICE_PARKED = Rule(
    "service-parked",
    "info",
    "The service has groups.",
    remedy="Raise `groups` to start it.",
)
PREFILL_DECODE_WITHOUT_ROUTER = Rule(
    "prefill-decode-without-router",
    "warning",
    "Something pairs prefill with decode.",
    remedy="Add a role of type router.",
)
SERVING_PORTS_DIFFER = Rule(
    "serving-ports-differ",
    "warning",
    "The roles behind one Service serve on one port.",
    remedy="Give them one port.",
)
PLACEMENT_NOT_APPLIED = Rule(
    "placement-not-applied",
    "warning",
    "`placement` is carried out by `place` or `--inventory`.",
    remedy="Give `--inventory`, or call `place` in the program.",
)
SERVICE_NAME_INVALID = Rule(
    "service-name-invalid",
    "error",
    "A service's name is a DNS-1035 label.",
    remedy="Use lower-case letters, digits and hyphens; start with a letter.",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
)


@dataclass(frozen=True)
class Routing:
    """How requests come to the pods.

    Attributes:
        routers: The router roles.
        router: The router, None without one or where it cannot be planned.
    """

    routers: tuple[RoleArgs, ...]
    router: RouterPlan | None


def planned_pods(
    meta: ServiceMeta, args: InferenceServiceArgs
) -> tuple[tuple[RolePlan, ...], list[Finding]]:
    """Builds the pods of the roles that serve, and plans their LeaderWorkerSets."""
    built: list[tuple[Context, RolePods]] = []
    findings: list[Finding] = []
    for ctx in contexts(meta, args):
        pods, found = build_pods(ctx)
        built.append((ctx, pods))
        findings += found
        findings += role_findings(pods, ctx)
    if args.groups == 0:
        message = "is 0: the service is parked and has no pods"
        findings.append(info(SERVICE_PARKED, ("groups",), message))
    findings += argument_findings(built)
    findings += agreement_findings(built)
    findings += pair_findings(built)
    findings += assumed_replicas_findings(args.roles)
    findings += claim_findings(built)
    findings += host_network_findings(built)
    roles = tuple(role_plan(ctx, pods, args.layout, args.groups) for ctx, pods in built)
    findings += name_findings(meta.service, roles, args.rollout)
    return roles, findings


def planned_gangs(
    service: str, args: InferenceServiceArgs, roles: Sequence[RolePlan]
) -> tuple[tuple[GangPlan, ...], list[Finding]]:
    """Plans what is scheduled together, and checks how the pods are scheduled."""
    strategy = args.scheduling_strategy
    ganged = needs_gang(args.roles, strategy)
    gangs = gang_plans(service, roles, strategy, args.layout, args.groups) if ganged else ()
    gang = gangs[0] if gangs else None
    findings = [
        *scheduling_findings(
            roles,
            strategy,
            args.annotations,
            scheduler_name(args.roles, strategy),
            gang,
            gang_scheduled=ganged,
        ),
        *network_topology_findings(strategy, gang_scheduled=ganged),
    ]
    for role in roles:
        findings += spread_findings(role, gang)
    return gangs, findings


def planned_routing(
    service: str,
    args: InferenceServiceArgs,
    roles: tuple[RolePlan, ...],
) -> tuple[Routing, list[Finding]]:
    """Plans the router; without one, says what that does to clients."""
    positions = [
        position
        for position, role in enumerate(args.roles)
        if role.component_type is ComponentType.ROUTER
    ]
    if not positions:
        return Routing((), None), list(_entry_findings(args.roles, roles))
    router, findings = router_plan(
        service,
        args.namespace,
        positions[0],
        args.roles,
        roles,
        groups=args.groups,
        tracing=args.tracing,
    )
    return Routing(tuple(args.roles[position] for position in positions), router), findings


def _entry_findings(declared: Sequence[RoleArgs], roles: Sequence[RolePlan]) -> Iterator[Finding]:
    """Yields what a missing router means for clients."""
    if is_prefill_decode(serving(declared)):
        yield warning(
            PREFILL_DECODE_WITHOUT_ROUTER,
            ("roles",),
            "no router: nothing pairs prefill with decode, clients reach the decoders only; add "
            "a role of componentType router",
        )
    entry = [role for role in roles if role.component_type in entry_types(declared)]
    ports = {role.serving.port for role in entry}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.serving.port}" for role in entry)
        yield warning(
            SERVING_PORTS_DIFFER,
            ("roles",),
            f"the roles serve on different ports ({listed}): the Service reaches only "
            f"{entry[0].serving.port}; give them one port",
        )


_MESSAGE = (
    "has no effect by itself: pools are chosen by `place` in a program, or by `--inventory` on the "
    "command line"
)


def unplaced_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Yields a warning for each `placement` not carried out; `place` removes those that are."""
    if args.placement.colocate is not None:
        yield warning(PLACEMENT_NOT_APPLIED, ("placement", "colocate"), _MESSAGE)
    for index, role in enumerate(args.roles):
        if role.placement is not None:
            yield warning(PLACEMENT_NOT_APPLIED, ("roles", index, "placement"), _MESSAGE)


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def plan_service(args: InferenceServiceArgs, name: str | None = None) -> ServicePlan:
    """Returns the plan of one service.

    A plan with errors in its findings cannot be rendered. Findings never raise.

    Args:
        args: The spec.
        name: Kubernetes name of the service, used if the spec has none.
    """
    service = args.name or name or ""
    findings = list(_service_findings(service))
    findings += size_findings(("metadata", "annotations"), args.annotations)
    meta = ServiceMeta(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
    )
    args = with_model_size(args)
    model, found = model_plan(service, args)
    findings += found
    roles, found = planned_pods(meta, args)
    findings += found
    gangs, found = planned_gangs(service, args, roles)
    findings += found
    routing, found = planned_routing(service, args, roles)
    findings += found
    findings += service_name_findings(service, args.namespace, roles, routed=bool(routing.routers))
    operations, found = operations_plan(
        service, args, roles, routing.router, gangs[0] if gangs else None
    )
    findings += found
    plan = ServicePlan(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
        roles=roles,
        routers=routing.routers,
        router=routing.router,
        groups=args.groups,
        gangs=gangs,
        scheduler_name=scheduler_name(args.roles, args.scheduling_strategy),
        gang_scheduled=needs_gang(args.roles, args.scheduling_strategy),
        queue=args.scheduling_strategy.queue,
        priority_class=args.scheduling_strategy.priority_class_name,
        layout=args.layout,
        rollout=args.rollout,
        wait=args.wait,
        findings=(),
        operations=operations,
        model=model,
    )
    memory, found = planned_memory(plan, args)
    plan = replace(plan, memory=memory)
    findings += found
    findings += startup_findings(plan)
    findings += rollout_findings(plan)
    findings += rollout_layout_findings(plan)
    findings += unplaced_findings(args)
    if not errors(findings):
        findings += objects_findings(plan)
    return replace(plan, findings=tuple(sorted(findings, key=lambda found: _ORDER[found.severity])))


def planned_memory(
    plan: ServicePlan, args: InferenceServiceArgs
) -> tuple[Mapping[str, RoleMemory], list[Finding]]:
    """The memory of roles whose accelerators are known, and what their sizes and model refuse."""
    if not any(_concerns_capacity(role) for role in plan.roles):
        return {}, []
    # Imported here: only such services need it.
    from fusioninfer_pulumi.capacity import (  # noqa: PLC0415  # see above
        MEMORY_NOT_CHECKED,
        MISSING,
        capacity,
    )

    package = capacity()
    if package is None:
        at = [("roles", role.position) for role in plan.roles if role.args.accelerator]
        message = f"memory not checked: it {MISSING}"
        return {}, [info(MEMORY_NOT_CHECKED, each, message) for each in at]
    memory, findings = package.check(plan, args)
    return memory, list(findings)


def _concerns_capacity(role: RolePlan) -> bool:
    """Whether a role names accelerators or nodes, splits its model, or limits its sequences."""
    spec, command = role.pods.leader.template["spec"], role.pods.command
    if role.args.accelerator or role.args.resource_claims:
        return True
    if any(isinstance(spec.get(key), Mapping) for key in ("nodeSelector", "affinity")):
        return True
    engine = command.engine
    if engine is None:
        return False
    sizes = engine.size_flags
    return command.has(*sizes["tensor"], *sizes["pipeline"], engine.length_flag)


def plan_services(services: Sequence[InferenceServiceArgs]) -> list[ServicePlan]:
    """Returns the plans of all services of one program, in the same order.

    Findings include objects that two services would share, and routes that send a share of requests
    to another service.
    """
    plans = with_collisions([plan_service(args) for args in services])
    shares = Shares(plans)
    return [
        replace(plan, findings=(*shares.findings(plan, complete=True), *plan.findings))
        for plan in plans
    ]


def with_collisions(plans: Sequence[ServicePlan]) -> list[ServicePlan]:
    """Returns the plans with findings of objects that services or roles would share.

    A route that attaches to the Gateway of one of the services is checked against its listeners.
    """
    owners, gateways, routes = Owners(), Gateways(), Routes()
    for plan in plans:
        gateways.add(plan)
    return [
        replace(
            plan,
            findings=(
                *owners.add(plan),
                *gateways.findings(plan),
                *routes.add(plan),
                *plan.findings,
            ),
        )
        for plan in plans
    ]


def _service_findings(service: str) -> Iterator[Finding]:
    if DNS_1035_LABEL.fullmatch(service) is None or len(service) > DNS_LABEL_LIMIT:
        yield error(
            SERVICE_NAME_INVALID,
            ("metadata", "name"),
            f"must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
        )
