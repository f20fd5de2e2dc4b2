"""The placement of services as tables for rich."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from fusioninfer_capacity.placement.explain import format_missing, format_pools
from fusioninfer_capacity.placement.result import PlacedRole, PoolLeft, ServicePlacement, Status

_STYLES = {Status.PLACED: "green", Status.MINIMUM: "yellow", Status.UNPLACED: "red"}
# Maximum number of rejected combinations to print; the others are counted.
_MAX_REJECTED = 6


def render_service(record: ServicePlacement) -> Iterator[Table | Text]:
    """Yield the tables of one service's placement."""
    status = Text.assemble(("Placement", "bold"), "  ")
    yield status.append(record.status.value, style=_STYLES[record.status])
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for placed in record.roles:
        table.add_row(f"  {placed.name}", f"on {placed.pool}", _describe_role(placed))
    if record.roles:
        yield table
    if record.nearest is not None:
        missing = format_missing(record.nearest.missing)
        yield Text(f"  closest: {format_pools(record.nearest.pools)}; requires {missing}")
    if record.terms:
        # The last term is the order of the pools, which is only a tie-breaker.
        terms = ", ".join(f"{term.words}: {term.value}" for term in record.terms[:-1])
        yield Text(f"  compared by (lower is better): {terms}")
    rejections = Table.grid(padding=(0, 2, 0, 0))
    rejections.add_column(no_wrap=True)
    rejections.add_column(overflow="fold")
    for role, pools in record.impossible.items():
        for pool, reasons in pools.items():
            rejections.add_row(f"  rejected: {role} on {pool}", "; ".join(reasons))
    for rejected in record.rejected[:_MAX_REJECTED]:
        rejections.add_row(f"  rejected: {format_pools(rejected.pools)}", rejected.reason)
    hidden = len(record.rejected) - _MAX_REJECTED
    if hidden > 0:
        rejections.add_row(f"  rejected: {hidden} more", "see --output json")
    if rejections.row_count:
        yield rejections


def render_pools(pools: Sequence[PoolLeft]) -> Table:
    """Return a table with the remainder of each pool."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column("POOL", no_wrap=True)
    for title in ("NODES", "GPUS", "IN USE", "PLACED", "LEFT", "WHOLE NODES LEFT"):
        table.add_column(title, justify="right", no_wrap=True)
    for pool in pools:
        numbers = (
            pool.nodes, pool.accelerators, pool.in_use, pool.placed, pool.left, pool.whole_nodes
        )  # fmt: skip
        table.add_row(pool.pool, *map(str, numbers))
    return table


def _describe_role(role: PlacedRole) -> str:
    count = f"{role.replicas} of {role.wanted} replicas" if role.replicas < role.wanted else ""
    origin = f"{role.origin.value} from {role.previous}" if role.previous else role.origin.value
    if role.previous == role.pool:
        origin = role.origin.value
    claims = f" claimed as {', '.join(role.device_classes)}" if role.device_classes else ""
    size = f"{role.accelerators} GPU{'' if role.accelerators == 1 else 's'}{claims}"
    return ", ".join(part for part in (size, count, origin) if part)
