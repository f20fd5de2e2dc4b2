"""From a spec to a plan: the one entry to this room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from fusioninfer_pulumi.findings import Finding, Severity, error, shown, warning
from fusioninfer_pulumi.names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.completion.build import completed
from fusioninfer_pulumi.plan.completion.model_files import model_files
from fusioninfer_pulumi.plan.credentials import role_credentials, variable_findings
from fusioninfer_pulumi.plan.day_two.build import day_two_plan
from fusioninfer_pulumi.plan.day_two.startup import with_model_size
from fusioninfer_pulumi.plan.device_claims import claim_findings
from fusioninfer_pulumi.plan.disaggregation.service import agreement_findings, disaggregation_of
from fusioninfer_pulumi.plan.disaggregation.stated import stated_findings
from fusioninfer_pulumi.plan.gang import gang_plans
from fusioninfer_pulumi.plan.gang_rules import scheduling_findings
from fusioninfer_pulumi.plan.layout_rules import layout_findings
from fusioninfer_pulumi.plan.model import model_plan
from fusioninfer_pulumi.plan.name_rules import Owners, name_findings
from fusioninfer_pulumi.plan.network_topology_rules import network_topology_findings
from fusioninfer_pulumi.plan.pod_keys import key_findings
from fusioninfer_pulumi.plan.records import RolePlan, ServicePlan
from fusioninfer_pulumi.plan.role import role_plan
from fusioninfer_pulumi.plan.rollout_rules import rollout_findings
from fusioninfer_pulumi.plan.routing.build import router_plan
from fusioninfer_pulumi.plan.routing.shared import Gateways
from fusioninfer_pulumi.plan.routing.shares import Shares
from fusioninfer_pulumi.plan.topology import (
    VOLCANO,
    entry_types,
    is_prefill_decode,
    needs_gang,
    serving,
)
from fusioninfer_pulumi.plan.unplaced import unplaced_findings
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs
from fusioninfer_pulumi.spec.service import InferenceServiceArgs

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
    findings: list[Finding] = []
    if DNS_1035_LABEL.fullmatch(service) is None or len(service) > DNS_LABEL_LIMIT:
        findings.append(
            error(
                "metadata.name",
                f"must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
                f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
            )
        )
    findings += key_findings(args)
    written, files = args.roles, None
    if args.model is not None:
        files = model_files(service, args.model)
    args, found = completed(service, with_model_size(args), files, leave_out)
    findings += found
    model = None
    if args.model is not None and files is not None:
        model, found = model_plan(service, args.model, files, args.roles, args.groups)
        findings += found
        findings += variable_findings("model.fetcher", args.model.fetcher.env)
    roles: list[RolePlan] = []
    known = [role for position, role in enumerate(args.roles) if position not in leave_out]
    pairing = disaggregation_of(service, known)
    for position, role in enumerate(args.roles):
        if role.component_type is not ComponentType.ROUTER and position not in leave_out:
            planned, found = role_plan(
                service, position, role, pairing, args.layout, args.groups, args.tracing
            )
            roles.append(planned)
            findings += found
            findings += role_credentials(position, written[position])
    findings += agreement_findings(roles, pairing)
    findings += stated_findings(args.roles)
    scheduling = args.scheduling_strategy
    gang_scheduled = needs_gang(args.roles, scheduling)
    gangs = (
        gang_plans(service, roles, scheduling, args.layout, args.groups) if gang_scheduled else ()
    )
    scheduler = scheduling.scheduler_name or (VOLCANO if gang_scheduled else None)
    findings += claim_findings(args.roles, scheduler)
    findings += name_findings(service, roles, args.rollout)
    findings += scheduling_findings(
        roles,
        scheduling,
        args.annotations,
        scheduler,
        gangs[0] if gangs else None,
        gang_scheduled=gang_scheduled,
    )
    findings += network_topology_findings(scheduling, gang_scheduled=gang_scheduled)
    routers = [
        position
        for position, role in enumerate(args.roles)
        if role.component_type is ComponentType.ROUTER
    ]
    router = None
    if not routers:
        findings += _entry_findings(args.roles, roles)
    elif routers[0] not in leave_out:
        router, found = router_plan(
            service,
            args.namespace,
            routers[0],
            args.roles,
            roles,
            groups=args.groups,
            complete=not leave_out,
            tracing=args.tracing,
        )
        findings += found
    after, found = day_two_plan(service, args, roles, router, gangs[0] if gangs else None)
    findings += found
    plan = ServicePlan(
        service=service,
        namespace=args.namespace,
        labels=args.labels,
        annotations=args.annotations,
        roles=tuple(roles),
        routers=tuple(args.roles[position] for position in routers),
        router=router,
        groups=args.groups,
        gangs=gangs,
        scheduler_name=scheduler,
        gang_scheduled=gang_scheduled,
        queue=scheduling.queue,
        priority_class=scheduling.priority_class_name,
        layout=args.layout,
        rollout=args.rollout,
        wait=args.wait,
        findings=(),
        day_two=after,
        model=model,
    )
    findings += rollout_findings(plan)
    findings += layout_findings(plan)
    findings += unplaced_findings(args)
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
