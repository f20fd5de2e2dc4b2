"""Checks of a service: its names, its gang, its replicas, and how clients reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fusioninfer_pulumi.checks.gangs import (
    kueue_label_findings,
    network_topology_findings,
    scheduling_findings,
)
from fusioninfer_pulumi.checks.model_checks import model_findings
from fusioninfer_pulumi.checks.name_checks import name_findings, service_name_findings
from fusioninfer_pulumi.checks.routes import SERVING_PORTS_DIFFER
from fusioninfer_pulumi.findings import Finding, Rule, error, shown, warning
from fusioninfer_pulumi.kube.object_names import DNS_1035_LABEL, DNS_LABEL_LIMIT
from fusioninfer_pulumi.plan.service_builder import BuiltService
from fusioninfer_pulumi.rules.common import INVALID_FORMAT

PREFILL_DECODE_WITHOUT_ROUTER = Rule("prefill-decode-without-router")
PLACEMENT_NOT_APPLIED = Rule("placement-not-applied")

Check = Callable[[BuiltService], Iterable[Finding]]


def _name(built: BuiltService) -> Iterator[Finding]:
    service = built.plan.service
    if DNS_1035_LABEL.fullmatch(service) is None or len(service) > DNS_LABEL_LIMIT:
        yield error(
            INVALID_FORMAT,
            ("metadata", "name"),
            "must be a DNS-1035 label (a-z 0-9 -, starts with a letter, at most "
            f"{DNS_LABEL_LIMIT} characters), got {shown(service)}",
        )


def _names(built: BuiltService) -> Iterator[Finding]:
    """Check names derived from those of the service and its roles."""
    plan = built.plan
    yield from name_findings(plan.service, plan.roles, plan.rollout)
    yield from service_name_findings(plan.service, plan.roles, picked=plan.shape.picks_endpoints)


def _entry(built: BuiltService) -> Iterator[Finding]:
    """Check what clients reach without an endpoint picker."""
    plan = built.plan
    if plan.shape.picks_endpoints:
        return
    lacking, remedy = "router", "add a role of componentType router"
    if plan.routing is not None:
        lacking, remedy = "endpoint picker", "remove endpointPicker.enabled: false"
    if plan.shape.is_prefill_decode:
        yield warning(
            PREFILL_DECODE_WITHOUT_ROUTER,
            ("roles",),
            f"no {lacking}: nothing pairs prefill with decode, and clients reach only the "
            "decoders; "
            f"{remedy}",
        )
    entry = [role for role in plan.roles if role.component_type in plan.shape.entry_types]
    for role in entry:
        if role.pods.rank_ports == 1:
            continue
        asked = role.args.parallelism is not None and role.args.parallelism.port_per_rank
        make_finding = error if asked else warning
        field = ("parallelism", "portPerRank") if asked else ()
        yield make_finding(
            SERVING_PORTS_DIFFER,
            ("roles", role.position, *field),
            f"{role.name} serves on ports {role.pods.ports_text}, but the Service reaches only "
            f"{role.pods.port}, so the other ranks receive no requests; {remedy}, or let the "
            "ranks share a port",
        )
    ports = {role.pods.port for role in entry}
    if len(ports) > 1:
        listed = ", ".join(f"{role.name} {role.pods.port}" for role in entry)
        yield warning(
            SERVING_PORTS_DIFFER,
            ("roles",),
            f"the roles serve on different ports ({listed}): the Service reaches only "
            f"{entry[0].pods.port}; give them one port",
        )


def _placement(built: BuiltService) -> Iterator[Finding]:
    """Warn of a `placement` that has no effect; `place` removes it once applied."""
    message = (
        "has no effect by itself: call `place` in a program, or pass `--inventory` on the command "
        "line"
    )
    if built.args.placement.colocate is not None:
        yield warning(PLACEMENT_NOT_APPLIED, ("placement", "colocate"), message)
    for index, role in enumerate(built.args.roles):
        if role.placement is not None:
            yield warning(PLACEMENT_NOT_APPLIED, ("roles", index, "placement"), message)


CHECKS: tuple[Check, ...] = (
    model_findings,
    _name,
    _names,
    scheduling_findings,
    kueue_label_findings,
    network_topology_findings,
    _entry,
    _placement,
)
