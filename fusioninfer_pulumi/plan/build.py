"""From a spec to a plan: the one entry to this room."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from fusioninfer_pulumi.findings import Finding, Severity, error, shown
from fusioninfer_pulumi.names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.day_two.build import day_two_plan
from fusioninfer_pulumi.plan.layout_rules import layout_findings
from fusioninfer_pulumi.plan.name_rules import Owners
from fusioninfer_pulumi.plan.pod_keys import key_findings
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.plan.rollout_rules import rollout_findings
from fusioninfer_pulumi.plan.routing.shared import Gateways
from fusioninfer_pulumi.plan.routing.shares import Shares
from fusioninfer_pulumi.plan.stages import planned_pods, planned_routing, planned_scheduling
from fusioninfer_pulumi.plan.unplaced import unplaced_findings
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
