"""Plans a service: from its spec to everything that its Kubernetes objects need."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
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
from fusioninfer_pulumi.findings import Finding, Severity, error, info, shown, warning
from fusioninfer_pulumi.kube.names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.name_collisions import Owners
from fusioninfer_pulumi.operations.operations import operations_plan
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
from fusioninfer_pulumi.rollout.layout_checks import layout_findings
from fusioninfer_pulumi.routing.between_services import Gateways, Shares
from fusioninfer_pulumi.routing.records import RouterPlan
from fusioninfer_pulumi.routing.router import router_plan
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.gang import GangPlan, gang_plans
from fusioninfer_pulumi.topology.gang_checks import network_topology_findings, scheduling_findings
from fusioninfer_pulumi.topology.name_checks import name_findings
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
        findings.append(
            info("service-parked", ("groups",), "is 0: the service is parked and has no pods")
        )
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
    """Yields what a missing router means for clients."""
    if is_prefill_decode(serving(declared)):
        yield warning(
            "prefill-decode-without-router",
            ("roles",),
            "no router: nothing pairs prefill with decode, clients reach the decoders only; add "
            "a role of componentType router",
        )
    entry = [role for role in roles if role.component_type in entry_types(declared)]
    ports = {role.serving.port for role in entry}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.serving.port}" for role in entry)
        yield warning(
            "serving-ports-differ",
            ("roles",),
            f"the roles serve on different ports ({listed}): the Service reaches only "
            f"{entry[0].serving.port}; give them one port",
        )


#: Rule of these warnings; left out where pools are chosen.
NOT_APPLIED = "placement-not-applied"
_MESSAGE = (
    "has no effect by itself: pools are chosen by `place` in a program, or by `--inventory` on the "
    "command line"
)


def unplaced_findings(args: InferenceServiceArgs) -> Iterator[Finding]:
    """Yields a warning for each `placement` not carried out; `place` removes those that are."""
    if args.placement.colocate is not None:
        yield warning(NOT_APPLIED, ("placement", "colocate"), _MESSAGE)
    for index, role in enumerate(args.roles):
        if role.placement is not None:
            yield warning(NOT_APPLIED, ("roles", index, "placement"), _MESSAGE)


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def plan_service(
    args: InferenceServiceArgs, name: str | None = None, *, leave_out: Collection[int] = ()
) -> ServicePlan:
    """Returns the plan of one service.

    A plan with errors in its findings cannot be rendered. Findings never raise.

    Args:
        args: The spec.
        name: Kubernetes name of the service, used if the spec has none.
        leave_out: Indexes of roles that cannot be planned, of a spec that was already rejected.
    """
    service = args.name or name or ""
    findings = [*_service_findings(service), *key_findings(args)]
    pods, found = planned_pods(service, args, leave_out)
    findings += found
    scheduling, found = planned_scheduling(service, pods)
    findings += found
    routing, found = planned_routing(service, pods, leave_out)
    findings += found
    operations, found = operations_plan(
        service, pods.args, pods.roles, routing.router, scheduling.gang
    )
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
        operations=operations,
        model=pods.model,
    )
    findings += rollout_findings(plan)
    findings += layout_findings(plan)
    findings += unplaced_findings(pods.args)
    return replace(plan, findings=tuple(sorted(findings, key=lambda found: _ORDER[found.severity])))


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
            "service-name-invalid",
            ("metadata", "name"),
            f"must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
        )
