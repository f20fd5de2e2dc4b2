"""Layouts of a model on accelerators of one kind: those that fit, and why others do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_capacity.fit.architecture import Architecture
from fusioninfer_capacity.fit.engines import SIZED, Accelerator, Unclear
from fusioninfer_capacity.fit.findings import fit_findings
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_pulumi.plugins.capacity import ENGINES, EngineCommand, Severity, read_command

_WAYS = (1, 2, 4, 8, 16)
_MOST_NODES = 4


@dataclass(frozen=True)
class Wish:
    """What is to be sized.

    Attributes:
        name: Name of the model, as the engine takes it.
        length: Tokens of the longest sequence, None for the model's own.
        most_nodes: Nodes of a replica at most.
    """

    name: str
    model: Architecture
    accelerator: Accelerator
    per_node: int = 8
    engine: str = "vllm"
    length: int | None = None
    most_nodes: int = _MOST_NODES


@dataclass(frozen=True)
class Layout:
    """One way to lay a replica on accelerators.

    Attributes:
        tensor: Ways each layer is split, inside of a node.
        nodes: Nodes of a replica, each with one stage of the layers.
        fit: The memory of one accelerator; None where it is unknown.
        reason: Why it does not fit; None where it does.
    """

    tensor: int
    nodes: int
    fit: Fit | None
    reason: str | None

    @property
    def accelerators(self) -> int:
        """Accelerators of a replica."""
        return self.tensor * self.nodes


def arguments(wish: Wish, tensor: int, nodes: int) -> list[str]:
    """The engine's arguments of a layout."""
    engine, sized = ENGINES[wish.engine], SIZED[wish.engine]
    found = [engine.model_flags[0], wish.name, *sized.proposal.arguments]
    if tensor > 1:
        found += [engine.size_flags["tensor"][0], str(tensor)]
    if nodes > 1:
        found += [engine.size_flags["pipeline"][0], str(nodes)]
    if wish.length is not None:
        found += [engine.length_flag, str(wish.length)]
    return found


def layouts(wish: Wish) -> list[Layout]:
    """All layouts in order: those that fit first, with few accelerators and then many tokens."""
    found = [_layout(wish, tensor, nodes) for tensor, nodes in _sizes(wish)]
    return sorted(found, key=_order)


def _order(layout: Layout) -> tuple[bool, int, int, int]:
    tokens = layout.fit.tokens if layout.fit is not None else None
    return layout.reason is not None, layout.accelerators, -(tokens or 0), layout.nodes


def _sizes(wish: Wish) -> Sequence[tuple[int, int]]:
    """Tensor sizes inside of a node, and whole nodes with one stage each."""
    inside = [ways for ways in _WAYS if ways <= wish.per_node]
    across = range(2, wish.most_nodes + 1)
    return [*((ways, 1) for ways in inside), *((inside[-1], nodes) for nodes in across)]


def _layout(wish: Wish, tensor: int, nodes: int) -> Layout:
    model = wish.model
    heads = {part.heads for layer in model.layers for part in layer.parts if part.heads}
    for count in heads:
        if max(count, tensor) % min(count, tensor):
            reason = f"{count} key-value heads are not divided by {tensor}"
            return Layout(tensor, nodes, None, reason)
    command = engine_command(wish, tensor, nodes)
    try:
        found = fit(command, model, wish.accelerator, nodes)
    except Unclear as reason:
        return Layout(tensor, nodes, None, f"not checked: {reason}")
    problems = [
        each.text
        for each in fit_findings((), (), command, model, found, nodes)
        if each.severity is not Severity.INFO
    ]
    return Layout(tensor, nodes, found, problems[0] if problems else None)


def engine_command(wish: Wish, tensor: int, nodes: int) -> EngineCommand:
    """The command line of a layout."""
    proposed = SIZED[wish.engine].proposal
    container = {
        "name": wish.engine,
        "image": proposed.image,
        "command": list(proposed.program),
        "args": arguments(wish, tensor, nodes),
    }
    return read_command(container)
