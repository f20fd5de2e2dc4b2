"""`plan` for people: one screen, aligned, coloured on a terminal and plain in a pipe."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fusioninfer_pulumi.api.rollout import Layout, RolloutStrategy
from fusioninfer_pulumi.cli.placement_text import placement_lines, pools_table
from fusioninfer_pulumi.cli.plan_json import plain
from fusioninfer_pulumi.cli.request_path import request_path, router_url
from fusioninfer_pulumi.findings import Severity, one_line
from fusioninfer_pulumi.placement.result import Placement, ServicePlacement
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity import Capacity
from fusioninfer_pulumi.topology.role_rollout import role_rollout
from fusioninfer_pulumi.topology.service import endpoint

_STATUS = {"Full": "green", "Partial": "yellow", "Blocked": "red"}
_SEVERITY = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
# A pipe has no width: long enough that nothing is wrapped.
_PIPE_WIDTH = 400
# Messages quote what users wrote, which may look like rich's own marks: `[x]`, `:warning:`.
_VERBATIM: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


def print_plan(
    plan: ServicePlan,
    capacity: Sequence[Capacity],
    objects: Sequence[Mapping[str, Any]],
    file: TextIO,
    placed: ServicePlacement | None = None,
) -> None:
    """Prints one service's plan.

    Args:
        plan: The service.
        capacity: Rows of its capacity table, none to leave the table out.
        objects: Its objects.
        file: Where to; colours and the terminal's width are used where it is one.
        placed: Where it is placed, None where nothing was.
    """
    with _console(file) as console:
        _print(console, plan, capacity, objects, placed)


def print_pools(placement: Placement, file: TextIO) -> None:
    """Prints what is left in the pools."""
    with _console(file) as console:
        console.print()
        console.print(pools_table(placement))


@contextlib.contextmanager
def _console(file: TextIO) -> Iterator[Console]:
    console = Console(file=file, **_VERBATIM)
    if not console.is_terminal:
        console = Console(file=io.StringIO(), width=_PIPE_WIDTH, no_color=True, **_VERBATIM)
    yield console
    if isinstance(console.file, io.StringIO):
        # Tables pad every line to their width; a pipe should not carry that.
        file.writelines(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def _print(
    console: Console,
    plan: ServicePlan,
    capacity: Sequence[Capacity],
    objects: Sequence[Mapping[str, Any]],
    placed: ServicePlacement | None,
) -> None:
    console.print(Text.assemble((plan.service, "bold"), f"  namespace {plain(plan.namespace)}"))
    console.print()
    console.print(_roles(plan))
    console.print()
    console.print(_facts(plan, objects))
    if capacity:
        console.print()
        console.print(_capacity(plan, capacity))
    if placed is not None:
        console.print()
        for each in placement_lines(placed):
            console.print(each)
    if plan.findings:
        console.print()
        console.print(_findings(plan))


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for title, justify in columns:
        table.add_column(title, justify="right" if justify == "right" else "left", no_wrap=True)
    return table


def _roles(plan: ServicePlan) -> Table:
    numbers = ("REPLICAS", "NODES", "PODS", "GPUS/POD", "GPUS")
    table = _table(("ROLE", "left"), ("TYPE", "left"), *((title, "right") for title in numbers))
    for role in plan.roles:
        count = str(len(role.replicas)) if role.replicas else "0 (parked)"
        table.add_row(
            role.name,
            role.component_type.value,
            count,
            str(role.nodes),
            str(role.total_pods),
            str(role.accelerators_per_pod),
            str(role.total_accelerators),
        )
    for router in plan.routers:
        table.add_row(router.name, router.component_type.value)
    table.add_row(
        "total", "", "", "", str(plan.total_pods), "", str(plan.total_accelerators), style="bold"
    )
    return table


def _facts(plan: ServicePlan, objects: Sequence[Mapping[str, Any]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    if plan.groups is not None:
        table.add_row("Groups", str(plan.groups))
    table.add_row("Gang", _gang(plan))
    if plan.layout is Layout.PER_ROLE:
        table.add_row("Layout", _layout(plan))
    kinds = Counter(str(item["kind"]) for item in objects)
    listed = ", ".join(f"{n} {_plural(kind) if n > 1 else kind}" for kind, n in kinds.items())
    table.add_row("Objects", listed or "none")
    if plan.router is not None:
        table.add_row("Requests", request_path(plan, plan.router))
        table.add_row("Strategy", plan.router.picker.words)
        table.add_row("Endpoint", router_url(plan, plan.router))
    elif plan.roles and not plan.routers:
        host, namespace, port = endpoint(plan)
        table.add_row("Endpoint", f"http://{host}.{plain(namespace)}.svc:{port}")
    return table


def _plural(kind: str) -> str:
    if kind.endswith("y") and kind[-2:-1] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("s", "x", "ch", "sh")) else f"{kind}s"


def _layout(plan: ServicePlan) -> str:
    """What one set for a role means for its updates."""
    updated, anew = [], []
    for role in plan.roles:
        rollout = role_rollout(plan.rollout, role)
        if rollout.strategy is RolloutStrategy.RECREATE:
            anew += [each.name for each in role.sets]
            continue
        pace = rollout.strategy.value
        if rollout.strategy is RolloutStrategy.ROLLING:
            most = "up to " if rollout.max_unavailable > 1 else ""
            pace = f"{most}{rollout.max_unavailable} down at a time"
            if rollout.max_surge:
                pace += f", {rollout.max_surge} more"
        updated += [f"{each.name} ({pace})" for each in role.sets]
    told = [f"updated by LeaderWorkerSet: {', '.join(updated)}"] if updated else []
    told += [f"deleted and created anew by an update: {', '.join(anew)}"] if anew else []
    return f"PerRole, {'; '.join(told) or 'no set'}"


def _gang(plan: ServicePlan) -> str:
    gang = plan.gang
    if gang is None:
        return "none: every pod is scheduled by itself"
    size = f"{gang.min_member} of {plan.total_pods} pods, {gang.min_accelerators} GPUs"
    named = f"PodGroup {gang.pod_group}"
    if plan.groups is not None:
        pods = plan.total_pods // plan.groups
        size = f"{gang.min_member} of {pods} pods, {gang.min_accelerators} GPUs in each group"
        last = plan.gangs[-1].pod_group
        named += f" … {last}" if last != gang.pod_group else ""
    form = "all-or-nothing"
    if gang.partial and gang.sub_groups:
        minimum = " + ".join(f"{group.minimum} {group.role}" for group in gang.sub_groups)
        lowest = any(group.lowest for group in gang.sub_groups)
        form = f"starts with {minimum}{' (lowest ordinals)' if lowest else ''}"
    needs = ", Volcano 1.14.1 or later" if gang.sub_groups else ""
    return f"{named}, {form}: {size} (scheduler {plan.scheduler_name}{needs})"


def _capacity(plan: ServicePlan, rows: Sequence[Capacity]) -> Table:
    roles = {role.name: len(role.replicas) for role in plan.roles}
    table = _table(("GPUS FREE", "right"), *((name, "right") for name in roles), ("STATUS", "left"))
    for row in rows:
        status = Text(row.status, style=_STATUS[row.status])
        if not row.exact:
            status.append("  at most: depends on the order of the pods", style="dim")
        running = [f"{row.running[name]}/{wanted}" for name, wanted in roles.items()]
        table.add_row(str(row.gpus), *running, status)
    return table


def _findings(plan: ServicePlan) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in plan.findings:
        severity = Text(finding.severity.value, style=_SEVERITY[finding.severity])
        place = f"{one_line(finding.path)}: " if finding.path else ""
        table.add_row(severity, f"{place}{finding.message}")
    return table
