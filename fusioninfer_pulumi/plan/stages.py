"""The stages of a service's plan, each of which reads those before: pods, gang, routing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from fusioninfer_pulumi.findings import Finding, info, warning
from fusioninfer_pulumi.plan.completion.build import completed
from fusioninfer_pulumi.plan.completion.model_files import model_files
from fusioninfer_pulumi.plan.credentials import role_credentials, variable_findings
from fusioninfer_pulumi.plan.day_two.startup import with_model_size
from fusioninfer_pulumi.plan.declared_ports import declared_port_findings
from fusioninfer_pulumi.plan.device_claims import claim_findings
from fusioninfer_pulumi.plan.disaggregation.service import agreement_findings, disaggregation_of
from fusioninfer_pulumi.plan.disaggregation.stated import stated_findings
from fusioninfer_pulumi.plan.gang import gang_plans
from fusioninfer_pulumi.plan.gang_rules import scheduling_findings
from fusioninfer_pulumi.plan.model import ModelPlan, model_plan
from fusioninfer_pulumi.plan.name_rules import name_findings
from fusioninfer_pulumi.plan.network_topology_rules import network_topology_findings
from fusioninfer_pulumi.plan.records import GangPlan, RolePlan
from fusioninfer_pulumi.plan.role import role_plan
from fusioninfer_pulumi.plan.routing.build import router_plan
from fusioninfer_pulumi.plan.routing.records import RouterPlan
from fusioninfer_pulumi.plan.topology import (
    VOLCANO,
    entry_types,
    is_prefill_decode,
    needs_gang,
    serving,
)
from fusioninfer_pulumi.plan.volume_rules import volume_findings
from fusioninfer_pulumi.spec.role import ComponentType, RoleArgs
from fusioninfer_pulumi.spec.service import InferenceServiceArgs


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
