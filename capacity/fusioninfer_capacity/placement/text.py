"""Tables that rich prints, with the placement of services."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from fusioninfer_capacity.placement.explain import missing_text, pools_text
from fusioninfer_capacity.placement.result import PlacedRole, PoolLeft, ServicePlacement, Status

_PLACED = {Status.PLACED: "green", Status.MINIMUM: "yellow", Status.UNPLACED: "red"}
# Most rejected places that are printed; the others are counted.
_REJECTED = 6


def service_tables(record: ServicePlacement) -> Iterator[Table | Text]:
    """Yield what to print about one service's place."""
    status = Text.assemble(("Placement", "bold"), "  ")
    yield status.append(record.status.value, style=_PLACED[record.status])
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for placed in record.roles:
        table.add_row(f"  {placed.name}", f"on {placed.pool}", _placed_role(placed))
    if record.roles:
        yield table
    if record.nearest is not None:
        lacks = missing_text(record.nearest.missing)
        yield Text(f"  nearest: {pools_text(record.nearest.pools)}; lacks {lacks}")
    if record.terms:
        # The last term is the order of pools, which explains nothing.
        terms = ", ".join(f"{term.words} {term.value}" for term in record.terms[:-1])
        yield Text(f"  because: {terms}")
    others = Table.grid(padding=(0, 2, 0, 0))
    others.add_column(no_wrap=True)
    others.add_column(overflow="fold")
    for role, pools in record.impossible.items():
        for pool, reasons in pools.items():
            others.add_row(f"  rejected: {role} on {pool}", "; ".join(reasons))
    for rejected in record.rejected[:_REJECTED]:
        others.add_row(f"  rejected: {pools_text(rejected.pools)}", rejected.reason)
    more = len(record.rejected) - _REJECTED
    if more > 0:
        others.add_row(f"  rejected: {more} more", "see --output json")
    if others.row_count:
        yield others


def pools_table(pools: Sequence[PoolLeft]) -> Table:
    """Return what is left in each pool when all services are placed."""
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


def _placed_role(role: PlacedRole) -> str:
    count = f"{role.replicas} of {role.wanted} replicas" if role.replicas < role.wanted else ""
    came = f"{role.origin.value} from {role.previous}" if role.previous else role.origin.value
    if role.previous == role.pool:
        came = role.origin.value
    claimed = f" claimed as {', '.join(role.device_classes)}" if role.device_classes else ""
    size = f"{role.accelerators} GPUs{claimed}"
    return ", ".join(part for part in (size, count, came) if part)
