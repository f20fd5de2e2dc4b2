"""Text output of the command `size`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.console import JustifyMethod
from rich.table import Table

from fusioninfer_capacity.fit.architecture import find_architecture
from fusioninfer_capacity.fit.engines import GIB
from fusioninfer_capacity.fit.load import Load
from fusioninfer_capacity.fit.sizing import Layout, SizingRequest, list_layouts
from fusioninfer_capacity.proposals import Proposal

#: Maximum number of proposals to print.
_MAX_ROWS = 8
#: Summary of `docs/reference/accuracy.md`; a test compares them.
_ACCURACY = "14 published throughputs, estimates were between 24 % too low and 90 % too high."
_TEXT_COLUMNS = ("LAYOUT", "ROLES", "CAPACITY", "")


def name_layout(layout: Layout) -> str:
    """Return the name of a layout, such as `TP8+EP x PP2 (2 nodes), FP8 cache`, `TP2 x DP4+EP`."""
    experts = "+EP" if layout.has_expert_parallelism else ""
    nodes = f" ({layout.nodes} nodes)" if layout.nodes > 1 else ""
    cache = ", FP8 cache" if layout.fp8_cache else ""
    if layout.copies > 1:
        return f"TP{layout.tensor} x DP{layout.copies}{experts}{nodes}{cache}"
    stages = f" x PP{layout.stages}" if layout.stages > 1 else ""
    return f"TP{layout.tensor}{experts}{stages}{nodes}{cache}"


def render_proposals(
    request: SizingRequest,
    candidates: Sequence[Layout],
    proposals: Sequence[Proposal],
    load: Load | None,
) -> Iterator[str | Table]:
    """Yield the basis of the estimate, the proposals, and why other layouts are not proposed."""
    yield from _render_header(request, candidates, proposals, load)
    yield ""
    if proposals:
        yield _build_table(_build_rows(proposals[:_MAX_ROWS], load))
        yield from _render_notes(proposals[:_MAX_ROWS])
        if len(proposals) > _MAX_ROWS:
            yield f"and {len(proposals) - _MAX_ROWS} more, with as many GPUs or more"
    else:
        yield "No layout fits."
    yield ""
    if proposals and proposals[0].source is not None:
        yield "TTFT and TPOT are estimates: first for a single request, then under the load. The"
        yield f"transfer of the KV cache is not included. Source: {proposals[0].source}."
        yield f"Compared with {_ACCURACY}"
        yield ""
    quantized = _describe_quantized(request)
    if quantized is not None:
        yield quantized
    yield from _explain_rejected(candidates, proposals, load)


def _render_header(
    request: SizingRequest,
    candidates: Sequence[Layout],
    proposals: Sequence[Proposal],
    load: Load | None,
) -> Iterator[str]:
    length = request.length or request.model.longest
    sequences = f", sequences of {length:,} tokens" if length is not None else ""
    memory = request.accelerator.total / GIB
    yield f"{request.name} on {request.accelerator.name} ({memory:.1f} GiB){sequences}"
    fits = [layout.fit for layout in candidates if layout.fit is not None]
    yield f"Estimate for {fits[0].basis}" if fits else "Estimate"
    columns = [] if load else ["GPUS"]
    has_pools = any(proposal.place.pool is not None for proposal in proposals)
    if length:
        columns += ["TOKENS in its KV cache", f"concurrent REQUESTS of {length:,} tokens"]
    gpus = " In all replicas: GPUS." if load else ""
    each = f" Per replica: {', '.join(columns)}." if columns else ""
    pools = " CAPACITY: replicas that fit a pool." if has_pools else ""
    yield f"Per GPU: WEIGHTS and KV CACHE in GiB.{gpus}{each}{pools}"
    doubts = {_get_doubt(proposal) for proposal in proposals} or {fit.doubt for fit in fits[:1]}
    if len(doubts) == 1:
        yield from (f"Uncertain: {doubt}" for doubt in doubts if doubt is not None)


def _build_rows(proposals: Sequence[Proposal], load: Load | None) -> list[dict[str, str]]:
    """Return the rows; an extra column marks uncertain rows if not all have the same doubt."""
    rows = [_build_row(proposal, load) for proposal in proposals]
    if len({_get_doubt(proposal) for proposal in proposals}) > 1:
        for row, proposal in zip(rows, proposals, strict=True):
            row[""] = "uncertain" if _get_doubt(proposal) else ""
    return rows


def _render_notes(proposals: Sequence[Proposal]) -> Iterator[str]:
    """Yield why rows are uncertain if their doubts differ, and an explanation of DP."""
    doubts: dict[str | None, list[str]] = {}
    for proposal in proposals:
        doubts.setdefault(_get_doubt(proposal), []).append(name_layout(proposal.layout))
    if len(doubts) > 1:
        for doubt, names in doubts.items():
            if doubt is not None:
                yield f"{', '.join(names)}: uncertain, {doubt}"
    if any(proposal.layout.copies > 1 for proposal in proposals):
        yield "DP: data parallel attention with separate caches; the ranks share the experts (EP)"


def _get_doubt(proposal: Proposal) -> str | None:
    return proposal.layout.fit.doubt if proposal.layout.fit is not None else None


def _build_row(proposal: Proposal, load: Load | None) -> dict[str, str]:
    """Return the cells of a proposal by column title."""
    layout = proposal.layout
    assert layout.fit is not None, "it fits"
    weights, cache = (f"{size / GIB:.1f}" for size in (layout.fit.weights, layout.fit.cache))
    row = {"LAYOUT": name_layout(layout)}
    if load is not None:
        row["ROLES"] = f"{proposal.replicas} serve"
        if proposal.prefillers:
            row["ROLES"] = f"{proposal.prefillers} prefill + {proposal.replicas} decode"
    row |= {"GPUS": str(proposal.accelerators), "WEIGHTS": weights, "KV CACHE": cache}
    if layout.fit.tokens is not None and layout.fit.requests is not None:
        row |= {"TOKENS": f"{layout.fit.tokens:,}", "REQUESTS": f"{layout.fit.requests:.1f}"}
    if proposal.place.pool is not None:
        row["CAPACITY"] = f"{proposal.place.replicas} on {proposal.place.pool.name}"
    return row | _build_rates(proposal)


def _build_rates(proposal: Proposal) -> dict[str, str]:
    if proposal.replica_load is None:
        return {}
    first = proposal.prefiller_load or proposal.replica_load
    rate = proposal.replica_load.rate * proposal.replicas
    if proposal.prefiller_load is not None:
        rate = min(rate, proposal.prefiller_load.rate * proposal.prefillers)
    low, high = first.ttft
    low_tpot, high_tpot = proposal.replica_load.tpot
    return {
        "REQUESTS/S": f"{rate:.2f}",
        "TTFT": f"{low:.2f}-{high:.2f}s",
        "TPOT": f"{1000 * low_tpot:.0f}-{1000 * high_tpot:.0f}ms",
    }


def _describe_quantized(request: SizingRequest) -> str | None:
    """Return a line about the model's FP8 version, if the model table has it and it fits."""
    name = f"{request.name}-FP8"
    model = find_architecture(name) if request.model.quantization is None else None
    if model is None:
        return None
    fitting = [
        layout
        for layout in list_layouts(replace(request, name=name, model=model))
        if not layout.reason
    ]
    if not fitting:
        return None
    fit = fitting[0].fit
    tokens = f", {fit.tokens:,} tokens" if fit is not None and fit.tokens is not None else ""
    return f"Quantized: {name} fits with {name_layout(fitting[0])}{tokens}"


def _explain_rejected(
    candidates: Sequence[Layout], proposals: Sequence[Proposal], load: Load | None
) -> Iterator[str]:
    """Yield why layouts are not proposed.

    Layouts on several nodes are explained only if no single node is enough, and layouts with data
    parallel copies only if there is no other candidate.
    """
    one_node = any(layout.nodes == 1 and layout.reason is None for layout in candidates)
    proposed = {proposal.layout for proposal in proposals}
    rejected = [layout for layout in candidates
               if layout.reason is not None and (layout.nodes == 1 or not one_node)
               and (layout.copies == 1 or len(candidates) == 1)]  # fmt: skip
    heavy = [layout for layout in rejected if layout.fit is not None and layout.fit.cache <= 0]
    if heavy:
        yield _explain_heavy(heavy)
    for layout in rejected:
        if layout not in heavy:
            yield f"not {name_layout(layout)}: {layout.reason}"
    for layout in candidates:
        is_relevant = layout.copies == 1 and (load is not None or not proposed)
        if layout.reason is None and layout not in proposed and is_relevant:
            yield (
                f"not {name_layout(layout)}: no pool has enough free GPUs, a single request "
                "exceeds --ttft or --tpot, or step times of this layout are unknown"
            )


def _explain_heavy(heavy: Sequence[Layout]) -> str:
    """Return a line about layouts whose weights leave no memory for the cache."""
    fits = [layout.fit for layout in heavy if layout.fit is not None]
    names = ", ".join(name_layout(layout) for layout in heavy)
    sizes = ", ".join(f"{(fit.weights + fit.overhead) / GIB:.1f}" for fit in fits)
    usable = min(fit.usable for fit in fits) / GIB
    need = f"weights and engine need {sizes} GiB per GPU"
    return f"not {names}: {need}, but only {usable:.1f} GiB are usable"


def _build_table(rows: Sequence[dict[str, str]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in rows[0]:
        justify: JustifyMethod = "left" if head in _TEXT_COLUMNS else "right"
        table.add_column(head, justify=justify)
    for row in rows:
        table.add_row(*row.values())
    return table
