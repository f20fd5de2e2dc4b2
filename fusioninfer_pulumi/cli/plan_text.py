"""`plan` for people: one screen, aligned, coloured on a terminal and plain in a pipe."""

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
from fusioninfer_pulumi.cli.diff.timelines import BOUNDS, HEAD, ServiceTimeline
from fusioninfer_pulumi.cli.finding_formats import finding_text, rule_suffix
from fusioninfer_pulumi.cli.plan_output import (
    PlanView,
    gang_text,
    request_path,
)
from fusioninfer_pulumi.cli.terminal import console, table
from fusioninfer_pulumi.findings import Severity
from fusioninfer_pulumi.plan.service_json import plain
from fusioninfer_pulumi.plan.service_plan import ServicePlan
from fusioninfer_pulumi.rollout.timeline import format_duration
from fusioninfer_pulumi.routing.endpoint import find_endpoint
from fusioninfer_pulumi.routing.pool import service_reference
from fusioninfer_pulumi.routing.routing_plan import Routing
from fusioninfer_pulumi.topology.capacity_model import Capacity

_STATUS = {"Full": "green", "Partial": "yellow", "Blocked": "red"}
_SEVERITY = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def print_plans(
    views: Sequence[PlanView],
    pools: RenderableType | None = None,
    *,
    old: str = "",
    explain: bool = False,
) -> None:
    """Prints plans, and the free capacity of the node pools, to standard output.

    `old` names the source from which the views' updates begin. `explain` prints where each value of
    generated containers comes from.
    """
    with console(sys.stdout) as screen:
        for number, view in enumerate(views):
            if number:
                screen.print()
            print_plan(screen, view, alone=len(views) == 1)
            if view.update is not None:
                screen.print()
                _draw_update(screen, view.update, old)
            if explain:
                screen.print()
                _draw_presets(screen, view.plan)
        if pools is not None:
            screen.print()
            screen.print(pools)


def _draw_update(screen: Console, update: ServiceTimeline, old: str) -> None:
    played = update.timeline
    if played is None:
        screen.print(f"update from {old}: not shown because {update.missing}", soft_wrap=True)
        return
    if not played.batches:
        screen.print(f"update from {old}: no replica restarts or starts", soft_wrap=True)
        return
    longest = format_duration(played.after.seconds)
    screen.print(
        f"update from {old}: at most {longest} for its LeaderWorkerSets, peak {played.peak} GPUs",
        soft_wrap=True,
    )
    # Columns of restarts and starts are left out if they are empty.
    used = [
        place
        for place, title in enumerate(update.head)
        if title not in HEAD[2:] or any(row[place] for row in update.cells)
    ]
    titles = [update.head[place] for place in used]
    rows = table(titles, numbers=[title for title in titles if title not in HEAD])
    for row in update.cells:
        rows.add_row(*(row[place] for place in used))
    screen.print(rows)
    for note in (*update.notes, BOUNDS):
        screen.print(note, soft_wrap=True)


def print_placement(plans: Sequence[ServicePlan], placement: PlacementResult, file: TextIO) -> None:
    """Prints where each service is placed, and the free capacity of the pools."""
    with console(file) as screen:
        for number, plan in enumerate(plans):
            screen.print(_title(plan))
            for part in placement.tables(number):
                screen.print(part)
            screen.print()
        screen.print(placement.pools_table())


def print_plan(screen: Console, view: PlanView, *, alone: bool = True) -> None:
    """Prints one service's plan; `alone` if no other service is shown."""
    plan = view.plan
    screen.print(_title(plan))
    blocks: list[list[Any]] = [[_roles(plan)], [_facts(plan, view.objects)]]
    if plan.memory:
        blocks.append([_memory(plan)])
    if view.capacity:
        hint = "only this service is counted; --inventory places all services together"
        hints = [] if alone else [Text(hint, "dim")]
        blocks.append([_capacity(plan, view.capacity), *hints])
    if view.placed_tables:
        blocks.append(list(view.placed_tables))
    if plan.findings:
        blocks.append([_findings(plan)])
    for block in blocks:
        screen.print()
        for part in block:
            screen.print(part)


def _title(plan: ServicePlan) -> Text:
    return Text.assemble((plan.service, "bold"), f"  namespace {plain(plan.namespace)}")


def _roles(plan: ServicePlan) -> Table:
    numbers = ("REPLICAS", "NODES", "PODS", "GPUS/POD", "GPUS")
    roles = table(("ROLE", "TYPE", *numbers), numbers=numbers)
    for role in plan.roles:
        parked = "" if role.replicas else " (scaled to zero)"
        roles.add_row(
            role.name,
            f"{role.component_type.value}{parked}",
            str(len(role.replicas)),
            str(role.nodes),
            str(role.total_pods),
            str(role.accelerators_per_pod),
            str(role.total_accelerators),
        )
    if plan.shape.router is not None:
        roles.add_row(plan.shape.router.name, plan.shape.router.component_type.value)
    roles.add_row(
        "total", "", "", "", str(plan.total_pods), "", str(plan.total_accelerators), style="bold"
    )
    return roles


def _memory(plan: ServicePlan) -> Table:
    """Memory of one accelerator of each role in GiB, and what the cache of a replica holds."""
    titles = ("ROLE", *next(iter(plan.memory.values())).columns)
    rows = [(name, *memory.row()) for name, memory in plan.memory.items()]
    numbers = [
        title
        for title, cells in zip(titles, zip(*rows, strict=True), strict=True)
        if any(cell[:1].isdigit() for cell in cells)
    ]
    memory_table = table(titles, numbers=numbers)
    for row in rows:
        memory_table.add_row(*row)
    return memory_table


def _facts(plan: ServicePlan, objects: Sequence[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    if plan.shape.groups is not None:
        table.add_row("Groups", str(plan.shape.groups))
    table.add_row("Gang", gang_text(plan))
    if plan.shape.layout is Layout.PER_ROLE:
        table.add_row("Layout", _layout(plan))
    if plan.engines:
        table.add_row("Engine", _engines(plan))
    kinds = Counter(str(item["kind"]) for item in objects)
    listed = ", ".join(f"{n} {_plural(kind) if n > 1 else kind}" for kind, n in kinds.items())
    table.add_row("Objects", listed or "none")
    if plan.routing is not None:
        table.add_row("Requests", _requests(plan, plan.routing))
    if plan.routing is not None and plan.picker is not None:
        table.add_row("Strategy", plan.picker.epp.summary)
        route = plan.routing.route
        if route is not None and route.splits:
            shares = ", ".join(f"{pool} {share} %" for pool, share in route.split)
            table.add_row("Shares", shares)
        if plan.picker.rewrites is not None:
            table.add_row("Models", plan.picker.rewrites.text())
        levels = plan.picker.epp.args.service_levels
        if levels is not None:
            names = (f"{plan.service}-{level.name} {level.priority}" for level in levels.levels)
            table.add_row("Priorities", f"{', '.join(names)}, any other request 0")
    if plan.has_service_endpoint:
        target = service_reference(plan.service, plan.roles, plan.shape)
        host = f"{target['name']}.{plain(plan.namespace)}.svc"
        table.add_row("Endpoint", f"http://{host}:{target['port']}")
    elif plan.routing is not None:
        table.add_row("Endpoint", _router_url(plan.routing))
    return table


def _engines(plan: ServicePlan) -> str:
    """The engines of generated containers, and whether users chose their releases."""
    texts: dict[str, list[str]] = {}
    for engine in plan.engines:
        chosen = "default" if engine.default else "set by the user"
        texts.setdefault(f"{engine.title} {engine.release} ({chosen})", []).append(engine.role)
    if len(texts) == 1:
        return next(iter(texts))
    return ", ".join(f"{', '.join(roles)}: {text}" for text, roles in texts.items())


def _draw_presets(screen: Console, plan: ServicePlan) -> None:
    """Prints where each value of generated containers comes from."""
    if not plan.presets:
        screen.print(f"{plan.service}: no generated containers, its templates are complete")
        return
    rows = table(("ROLE", "FIELD", "VALUE", "FROM", "WHY"))
    for value in plan.presets:
        rows.add_row(value.role, value.field, value.value, value.origin, value.reason)
    screen.print(rows)


def _plural(kind: str) -> str:
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("s", "x", "ch", "sh")) else f"{kind}s"


def _layout(plan: ServicePlan) -> str:
    """Return the layout `PerRole`, with the reason where the manifest does not set it."""
    scaled = [role.name for role in plan.roles if role.args.autoscaling is not None]
    return f"PerRole, required by the autoscaler of {', '.join(scaled)}" if scaled else "PerRole"


def _capacity(plan: ServicePlan, rows: Sequence[Capacity]) -> Table:
    roles = {role.name: len(role.replicas) for role in plan.roles}
    numbers = ("GPUS FREE", *roles)
    capacity = table((*numbers, "STATUS"), numbers=numbers)
    for row in rows:
        status = Text(row.status, style=_STATUS[row.status])
        if not row.exact:
            status.append("  at most: depends on the order of scheduling", style="dim")
        running = [f"{row.running[name]}/{wanted}" for name, wanted in roles.items()]
        capacity.add_row(str(row.gpus), *running, status)
    return capacity


def _findings(plan: ServicePlan) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in plan.findings:
        severity = Text(finding.severity.value, style=_SEVERITY[finding.severity])
        table.add_row(severity, Text.assemble(finding_text(finding), (rule_suffix(finding), "dim")))
    return table


def _router_url(router: Routing) -> str:
    """Where clients send requests, as far as a plan knows."""
    address = find_endpoint(router)
    if address is None:
        return "unknown: the route or the host name of its Gateway is managed elsewhere"
    if address.host is None:
        return f"{address.url('<address>')} (the address of the Gateway, once assigned)"
    return address.url(str(plain(address.host)))


def _requests(plan: ServicePlan, router: Routing) -> str:
    """What a request passes, with the pods that serve it."""
    stations = request_path(plan)
    if router.picker is not None:
        ports, epp = router.picker.pool.ports_text, router.picker.epp
        stations.append(f"endpoint picker {epp.name} ({epp.family.name})")
    else:
        ports = f"port {router.backend['port']}"
    # Only the leader of a replica serves requests.
    counts = [f"{len(role.replicas)} {role.name}" for role in router.served]
    one = len(counts) == 1 and counts[0].startswith("1 ")
    pods = f"{' + '.join(counts)} {'pod' if one else 'pods'}, {ports}"
    return " -> ".join([*stations, pods])
