"""`plan --output text`: tables, in color at a terminal and plain in a pipe."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fusioninfer_pulumi.api.rollout import Layout
from fusioninfer_pulumi.capacity_package import PlacementResult
from fusioninfer_pulumi.cli.diff.timelines import LEFT_TITLES, TABLE_NOTE, ServiceTimeline
from fusioninfer_pulumi.cli.finding_formats import format_finding, format_rule_suffix
from fusioninfer_pulumi.cli.plan_output import PlanView, describe_gang, describe_request_path
from fusioninfer_pulumi.cli.terminal import SEVERITY_STYLES, make_table, open_console
from fusioninfer_pulumi.kube.durations import format_duration
from fusioninfer_pulumi.kube.object_names import inference_pool
from fusioninfer_pulumi.plan.service_json import replace_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.routing.endpoint import find_endpoint
from fusioninfer_pulumi.routing.pool import build_service_reference
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.capacity_model import Capacity

_STATUS_STYLES = {"Full": "green", "Partial": "yellow", "Blocked": "red"}


def print_plans(
    views: Sequence[PlanView],
    pools: RenderableType | None = None,
    *,
    old: str = "",
    explain: bool = False,
) -> None:
    """Print plans, and the free capacity of the node pools, to standard output.

    `old` names the source that the updates start from. `explain` prints where each value of
    generated containers comes from.
    """
    with open_console(sys.stdout) as screen:
        for number, view in enumerate(views):
            if number:
                screen.print()
            print_plan(screen, view, is_only=len(views) == 1)
            if view.update is not None:
                screen.print()
                _print_update(screen, view.update, old)
            if explain:
                screen.print()
                _print_generated_values(screen, view.plan)
        if pools is not None:
            screen.print()
            screen.print(pools)


def _print_update(screen: Console, update: ServiceTimeline, old: str) -> None:
    timeline = update.timeline
    if timeline is None:
        screen.print(f"update from {old}: cannot be simulated: {update.obstacle}", soft_wrap=True)
        return
    if not timeline.batches:
        screen.print(f"update from {old}: no replica starts or restarts", soft_wrap=True)
        return
    seconds = timeline.after.seconds
    duration = f"at most {format_duration(seconds)}" if seconds else "no waiting"
    screen.print(
        f"update from {old}: {duration} for the LeaderWorkerSets, "
        f"at most {timeline.peak} GPUs in use",
        soft_wrap=True,
    )
    columns = [
        column
        for column, title in enumerate(update.titles)
        if title not in ("RESTARTS", "STARTS") or any(row[column] for row in update.cells)
    ]
    titles = [update.titles[column] for column in columns]
    table = make_table(titles, numbers=[title for title in titles if title not in LEFT_TITLES])
    for row in update.cells:
        table.add_row(*(row[column] for column in columns))
    screen.print(table)
    for note in (*update.notes, TABLE_NOTE):
        screen.print(note, soft_wrap=True)


def print_placement(plans: Sequence[ServicePlan], placement: PlacementResult, file: TextIO) -> None:
    """Print where each service is placed, and the free capacity of the pools."""
    with open_console(file) as screen:
        for number, plan in enumerate(plans):
            screen.print(_format_title(plan))
            for part in placement.tables(number):
                screen.print(part)
            screen.print()
        screen.print(placement.pools_table())


def print_plan(screen: Console, view: PlanView, *, is_only: bool = True) -> None:
    """Print one service's plan; `is_only` is False if the plans of several services are printed."""
    plan = view.plan
    screen.print(_format_title(plan))
    blocks: list[list[Any]] = [[_make_role_table(plan)], [_make_fact_table(plan, view.objects)]]
    if plan.memory:
        blocks.append([_make_memory_table(plan)])
    if view.capacity:
        blocks.append([_make_capacity_table(plan, view.capacity)])
        if not is_only:
            hint = "only this service is counted; --inventory places all services together"
            blocks[-1].append(Text(hint, "dim"))
    if view.placed_tables:
        blocks.append(list(view.placed_tables))
    if plan.findings:
        blocks.append([_make_finding_table(plan)])
    for block in blocks:
        screen.print()
        for part in block:
            screen.print(part)


def _format_title(plan: ServicePlan) -> Text:
    return Text.assemble((plan.service, "bold"), f"  namespace {replace_output(plan.namespace)}")


def _make_role_table(plan: ServicePlan) -> Table:
    numbers = ("REPLICAS", "NODES", "PODS", "GPUS/POD", "GPUS")
    table = make_table(("ROLE", "TYPE", *numbers), numbers=numbers)
    for role in plan.roles:
        suffix = "" if role.replicas else " (scaled to zero)"
        table.add_row(
            role.name,
            f"{role.component_type.value}{suffix}",
            str(len(role.replicas)),
            str(role.nodes),
            str(role.total_pods),
            str(role.accelerators_per_pod),
            str(role.total_accelerators),
        )
    if plan.shape.router is not None:
        table.add_row(plan.shape.router.name, plan.shape.router.component_type.value)
    table.add_row(
        "total", "", "", "", str(plan.total_pods), "", str(plan.total_accelerators), style="bold"
    )
    return table


def _make_memory_table(plan: ServicePlan) -> Table:
    """Return a table of the memory of one accelerator, and KV cache of one replica, by role."""
    titles = ("ROLE", *next(iter(plan.memory.values())).columns)
    rows = [(name, *memory.row()) for name, memory in plan.memory.items()]
    numbers = [
        title
        for column, title in enumerate(titles)
        if any(row[column][:1].isdigit() for row in rows)
    ]
    table = make_table(titles, numbers=numbers)
    for row in rows:
        table.add_row(*row)
    return table


def _make_fact_table(plan: ServicePlan, objects: Sequence[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    if plan.shape.groups is not None:
        table.add_row("Groups", str(plan.shape.groups))
    table.add_row("Gang", describe_gang(plan))
    if plan.shape.layout is Layout.PER_ROLE:
        scaled = ", ".join(role.name for role in plan.roles if role.args.autoscaling is not None)
        reason = f", required by the autoscaler of {scaled}" if scaled else ""
        table.add_row("Layout", f"PerRole{reason}")
    if plan.engines:
        table.add_row("Engine", _describe_engines(plan))
    if plan.rollout.pull_images:
        table.add_row("Images", "pulled on the roles' nodes before an update changes pods")
    kinds = Counter(str(item["kind"]) for item in objects)
    counts = (f"{n} {_pluralize(kind) if n > 1 else kind}" for kind, n in kinds.items())
    table.add_row("Objects", ", ".join(counts) or "none")
    if plan.routing is not None:
        table.add_row("Requests", _describe_requests(plan, plan.routing))
    if plan.routing is not None and plan.picker is not None:
        table.add_row("Strategy", plan.picker.epp.summary)
        route = plan.routing.route
        if route is not None and route.has_split:
            shares = (f"{inference_pool(name)} {share} %" for name, share in route.split)
            table.add_row("Shares", ", ".join(shares))
        if plan.picker.rewrites is not None:
            table.add_row("Models", plan.picker.rewrites.describe())
        levels = plan.picker.epp.args.service_levels
        if levels is not None:
            names = (f"{plan.service}-{level.name} {level.priority}" for level in levels.levels)
            table.add_row("Priorities", f"{', '.join(names)}, any other request 0")
    if plan.clients_use_service:
        target = build_service_reference(plan.service, plan.roles, plan.shape)
        host = f"{target['name']}.{replace_output(plan.namespace)}.svc"
        table.add_row("Endpoint", f"http://{host}:{target['port']}")
    elif plan.routing is not None:
        table.add_row("Endpoint", _describe_url(plan.routing))
    return table


def _describe_engines(plan: ServicePlan) -> str:
    """Describe the engines of generated containers: `vLLM 0.11.0 (default)`."""
    roles_by_text: dict[str, list[str]] = {}
    for engine in plan.engines:
        origin = "default" if engine.is_default else "set by the user"
        text = f"{engine.title} {engine.release} ({origin})"
        roles_by_text.setdefault(text, []).append(engine.role)
    if len(roles_by_text) == 1:
        return next(iter(roles_by_text))
    return ", ".join(f"{', '.join(roles)}: {text}" for text, roles in roles_by_text.items())


def _print_generated_values(screen: Console, plan: ServicePlan) -> None:
    if not plan.provenance.values:
        screen.print(f"{plan.service}: no generated containers; its templates are complete")
        return
    table = make_table(("ROLE", "FIELD", "VALUE", "FROM", "WHY"))
    for value in plan.provenance.values:
        table.add_row(value.role, value.field, value.value, value.source, value.reason)
    screen.print(table)


def _pluralize(kind: str) -> str:
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("s", "x", "ch", "sh")) else f"{kind}s"


def _make_capacity_table(plan: ServicePlan, rows: Sequence[Capacity]) -> Table:
    replicas = {role.name: len(role.replicas) for role in plan.roles}
    numbers = ("GPUS FREE", *replicas)
    table = make_table((*numbers, "STATUS"), numbers=numbers)
    for row in rows:
        status = Text(row.status, style=_STATUS_STYLES[row.status])
        if not row.exact:
            status.append("  upper bound: depends on the scheduling order", style="dim")
        running = [f"{row.running[role]}/{count}" for role, count in replicas.items()]
        table.add_row(str(row.gpus), *running, status)
    return table


def _make_finding_table(plan: ServicePlan) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in plan.findings:
        severity = finding.severity.value
        table.add_row(
            Text(severity, SEVERITY_STYLES[severity]),
            Text.assemble(format_finding(finding), (format_rule_suffix(finding), "dim")),
        )
    return table


def _describe_url(routing: Routing) -> str:
    address = find_endpoint(routing)
    if address is None:
        return "unknown: no route has a known host name or Gateway"
    if address.host is None:
        return f"{address.format_url('<address>')} (the address of the Gateway, once assigned)"
    return address.format_url(str(replace_output(address.host)))


def _describe_requests(plan: ServicePlan, routing: Routing) -> str:
    """Describe the path of a request, including the pods at its end."""
    hops = describe_request_path(plan)
    if routing.picker is not None:
        ports, epp = routing.picker.pool.ports_text, routing.picker.epp
        hops.append(f"endpoint picker {epp.name} ({epp.family.name})")
    else:
        ports = f"port {routing.backend['port']}"
    # Only the leader of a replica serves requests.
    counts = {role.name: len(role.replicas) for role in routing.backend_roles}
    leaders = " + ".join(f"{count} {name}" for name, count in counts.items())
    noun = "pod" if list(counts.values()) == [1] else "pods"
    return " -> ".join([*hops, f"{leaders} {noun}, {ports}"])
