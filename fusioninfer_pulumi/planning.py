"""From a spec to a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fusioninfer_pulumi.api.role import ComponentType, RoleArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.api.topology import (
    VOLCANO,
    entry_types,
    is_prefill_decode,
    needs_gang,
    serving,
)
from fusioninfer_pulumi.findings import Finding, Severity, error, info, join, shown, warning
from fusioninfer_pulumi.kube.names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.operations.operations import day_two_plan
from fusioninfer_pulumi.pods.checks import (
    declared_port_findings,
    role_credentials,
    variable_findings,
    volume_findings,
)
from fusioninfer_pulumi.pods.defaulting import completed
from fusioninfer_pulumi.pods.device_claims import claim_findings
from fusioninfer_pulumi.pods.explicit_roles import stated_findings
from fusioninfer_pulumi.pods.health import with_model_size
from fusioninfer_pulumi.pods.model import ModelPlan, model_files, model_plan
from fusioninfer_pulumi.pods.pairing import agreement_findings, disaggregation_of
from fusioninfer_pulumi.pods.role import role_plan
from fusioninfer_pulumi.pods.template_keys import key_findings
from fusioninfer_pulumi.rollout.checks import rollout_findings
from fusioninfer_pulumi.routing.between_services import Gateways, Shares
from fusioninfer_pulumi.routing.router import RouterPlan, router_plan
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, gang_plans
from fusioninfer_pulumi.topology.gang_checks import network_topology_findings, scheduling_findings
from fusioninfer_pulumi.topology.layout_checks import layout_findings
from fusioninfer_pulumi.topology.name_checks import Owners, name_findings
from fusioninfer_pulumi.topology.role import RolePlan


@dataclass(frozen=True)
class Pods:
    """The pods that serve.

    Attributes:
        args: The spec, with everything that its short fields stand for written out.
        model: What the model needs beside the pods, None without one.
        roles: The roles that run pods.
    """

    args: InferenceServiceArgs
    model: ModelPlan | None
    roles: tuple[RolePlan, ...]


@dataclass(frozen=True)
class Scheduling:
    """How the pods are placed.

    Attributes:
        ganged: Whether the topology asks for a gang.
        gangs: The gangs, none without replicas.
        scheduler: Name of the pods' scheduler, None for the templates' own.
    """

    ganged: bool
    gangs: tuple[GangPlan, ...]
    scheduler: str | None

    @property
    def gang(self) -> GangPlan | None:
        """The gang, of the first serving group where there are several."""
        return self.gangs[0] if self.gangs else None


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
    service: str, given: InferenceServiceArgs, leave_out: Collection[int]
) -> tuple[Pods, list[Finding]]:
    """Completes the spec, and plans its model and the roles that serve.

    Args:
        service: Name of the service.
        given: The spec as written.
        leave_out: Indexes of roles that cannot be planned.
    """
    files = model_files(service, given.model) if given.model is not None else None
    args, findings = completed(service, with_model_size(given), files, leave_out)
    model = None
    if args.model is not None and files is not None:
        model, found = model_plan(service, args.model, files, args.roles, args.groups)
        findings += found
        findings += variable_findings("model.fetcher", args.model.fetcher.env)
    roles = []
    known = [role for position, role in enumerate(args.roles) if position not in leave_out]
    pairing = disaggregation_of(service, known)
    for position, role in enumerate(args.roles):
        if role.component_type is not ComponentType.ROUTER and position not in leave_out:
            planned, found = role_plan(
                service, position, role, pairing, args.layout, args.groups, args.tracing
            )
            roles.append(planned)
            findings += found
            findings += role_credentials(position, given.roles[position])
            findings += declared_port_findings(position, given.roles[position])
            findings += volume_findings(role, planned)
    if args.groups == 0:
        findings.append(info("groups", "is 0: the service is parked, no pods of it are made"))
    findings += agreement_findings(roles, pairing)
    findings += stated_findings(args.roles)
    findings += name_findings(service, roles, args.rollout)
    return Pods(args, model, tuple(roles)), findings


def planned_scheduling(service: str, pods: Pods) -> tuple[Scheduling, list[Finding]]:
    """Decides whether the pods are a gang, and who places them.

    Args:
        service: Name of the service.
        pods: Its pods.
    """
    args, strategy = pods.args, pods.args.scheduling_strategy
    ganged = needs_gang(args.roles, strategy)
    gangs = gang_plans(service, pods.roles, strategy, args.layout, args.groups) if ganged else ()
    plan = Scheduling(ganged, gangs, strategy.scheduler_name or (VOLCANO if ganged else None))
    findings = [
        *claim_findings(
            ((role.position, role.args) for role in pods.roles),
            plan.scheduler,
            gang_scheduled=ganged,
        ),
        *scheduling_findings(
            pods.roles,
            strategy,
            args.annotations,
            plan.scheduler,
            plan.gang,
            gang_scheduled=ganged,
        ),
        *network_topology_findings(strategy, gang_scheduled=ganged),
    ]
    return plan, findings


def planned_routing(
    service: str, pods: Pods, leave_out: Collection[int]
) -> tuple[Routing, list[Finding]]:
    """Plans the router; without one, says what that does to clients.

    Args:
        service: Name of the service.
        pods: Its pods.
        leave_out: Indexes of roles that cannot be planned.
    """
    args = pods.args
    positions = [
        position
        for position, role in enumerate(args.roles)
        if role.component_type is ComponentType.ROUTER
    ]
    if not positions:
        return Routing((), None), list(_entry_findings(args.roles, pods.roles))
    router: RouterPlan | None = None
    findings: list[Finding] = []
    if positions[0] not in leave_out:
        router, findings = router_plan(
            service,
            args.namespace,
            positions[0],
            args.roles,
            pods.roles,
            groups=args.groups,
            complete=not leave_out,
            tracing=args.tracing,
        )
    return Routing(tuple(args.roles[position] for position in positions), router), findings


def _entry_findings(declared: Sequence[RoleArgs], roles: Sequence[RolePlan]) -> Iterator[Finding]:
    """What a service without a router does to its clients."""
    if is_prefill_decode(serving(declared)):
        yield warning(
            "roles",
            "no router: nothing pairs prefill with decode, clients reach the decoders only; add "
            "a role of componentType router",
        )
    entry = [role for role in roles if role.component_type in entry_types(declared)]
    ports = {role.serving.port for role in entry}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.serving.port}" for role in entry)
        yield warning(
            "roles",
            f"the roles serve on different ports ({listed}): the Service reaches only "
            f"{entry[0].serving.port}; give them one port",
        )


_MESSAGE = (
    "has no effect by itself: pools are chosen by `place` in a program, or by `--inventory` on the "
    "command line"
)


def without_unplaced(findings: Iterable[Finding]) -> list[Finding]:
    """Leaves those warnings out: somebody chooses pools, and says what became of each demand."""
    return [each for each in findings if _MESSAGE not in each.message]


def unplaced_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Yields a warning for each demand that was not carried out; `place` removes those that were.

    Args:
        args: The service.
    """
    if args.placement.colocate is not None:
        yield warning("placement.colocate", _MESSAGE)
    for index, role in enumerate(args.roles):
        if role.placement is not None:
            yield warning(join("roles", index, "placement"), _MESSAGE)


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def plan_service(
    args: InferenceServiceArgs, name: str | None = None, *, leave_out: Collection[int] = ()
) -> ServicePlan:
    """Plans one service.

    Args:
        args: The spec.
        name: Kubernetes name of the service where the spec states none.
        leave_out: Indexes of roles that cannot be planned, of a spec that was refused already.

    Returns:
        The plan. Its findings say whether it can work: total for every valid spec, it never
        raises for what it finds.
    """
    service = args.name or name or ""
    findings = [*_service_findings(service), *key_findings(args)]
    pods, found = planned_pods(service, args, leave_out)
    findings += found
    scheduling, found = planned_scheduling(service, pods)
    findings += found
    routing, found = planned_routing(service, pods, leave_out)
    findings += found
    day_two, found = day_two_plan(service, pods.args, pods.roles, routing.router, scheduling.gang)
    findings += found
    plan = ServicePlan(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
        roles=pods.roles,
        routers=routing.routers,
        router=routing.router,
        groups=args.groups,
        gangs=scheduling.gangs,
        scheduler_name=scheduling.scheduler,
        gang_scheduled=scheduling.ganged,
        queue=args.scheduling_strategy.queue,
        priority_class=args.scheduling_strategy.priority_class_name,
        layout=args.layout,
        rollout=args.rollout,
        wait=args.wait,
        findings=(),
        day_two=day_two,
        model=pods.model,
    )
    findings += rollout_findings(plan)
    findings += layout_findings(plan)
    findings += unplaced_findings(pods.args)
    return replace(plan, findings=tuple(sorted(findings, key=lambda found: _ORDER[found.severity])))


def plan_services(services: Sequence[InferenceServiceArgs]) -> list[ServicePlan]:
    """Plans the services of one program, and finds the objects that two of them would share.

    Routes that give other services a share of their requests are held against those services.

    Args:
        services: The specs.

    Returns:
        Their plans, in the same order.
    """
    plans = with_collisions([plan_service(args) for args in services])
    shares = Shares(plans)
    return [
        replace(plan, findings=(*shares.findings(plan, complete=True), *plan.findings))
        for plan in plans
    ]


def with_collisions(plans: Sequence[ServicePlan]) -> list[ServicePlan]:
    """Adds to each plan what it would share with an earlier one, or between its own roles.

    A route that attaches to the Gateway of one of the services is checked against its listeners.
    """
    owners, gateways = Owners(), Gateways()
    for plan in plans:
        gateways.add(plan)
    return [
        replace(plan, findings=(*owners.add(plan), *gateways.findings(plan), *plan.findings))
        for plan in plans
    ]


def _service_findings(service: str) -> Iterator[Finding]:
    if DNS_1035_LABEL.fullmatch(service) is None or len(service) > DNS_LABEL_LIMIT:
        yield error(
            "metadata.name",
            f"must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
        )
