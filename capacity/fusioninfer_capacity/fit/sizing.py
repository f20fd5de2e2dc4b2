"""Lists the layouts of a model on accelerators of one kind, and checks which fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusioninfer_capacity.fit.architecture import Architecture
from fusioninfer_capacity.fit.engines import SIZED, Accelerator, UnknownMemoryError
from fusioninfer_capacity.fit.findings import check_fit
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import find_problems
from fusioninfer_pulumi.plugins.capacity import ENGINES, EngineCommand, Severity, read_command

_WAYS = (1, 2, 4, 8, 16)
_MAX_NODES = 4
#: Numbers of nodes to try for data parallel copies that share their experts.
_NODES = (2, 4)


@dataclass(frozen=True)
class SizingRequest:
    """The model and accelerator to size.

    Attributes:
        name: Name of the model in the engine's arguments.
        length: Tokens of the longest sequence, None for the model's own.
        max_nodes: Maximum nodes of a replica.
        arguments: The engine's arguments in addition to its sizes.
    """

    name: str
    model: Architecture
    accelerator: Accelerator
    per_node: int = 8
    engine: str = "vllm"
    length: int | None = None
    max_nodes: int = _MAX_NODES
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layout:
    """One way to distribute a replica over accelerators.

    Attributes:
        tensor: Tensor parallel size, within a node.
        nodes: Nodes of a replica, each with one stage of the layers.
        fit: The memory of one accelerator; None if unknown.
        reason: Why it does not fit; None if it does.
        has_expert_parallelism: Whether each accelerator holds whole experts.
        small_cache: Whether the KV cache is stored in 8 bits.
        copies: Data parallel copies, which share the experts. With several, the nodes divide the
            copies instead of the layers.
    """

    tensor: int
    nodes: int
    fit: Fit | None
    reason: str | None
    has_expert_parallelism: bool = False
    small_cache: bool = False
    copies: int = 1

    @property
    def accelerators(self) -> int:
        """Accelerators of a replica."""
        return self.per_pod * self.nodes

    @property
    def per_pod(self) -> int:
        """Accelerators of one node."""
        return self.tensor * self.copies // (self.nodes if self.copies > 1 else 1)

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return 1 if self.copies > 1 else self.nodes


def build_arguments(request: SizingRequest, layout: Layout) -> list[str]:
    """Return the engine's arguments of a layout."""
    engine, sized = ENGINES[request.engine], SIZED[request.engine]
    words = [engine.model_flags[0], request.name, *sized.proposal.arguments, *request.arguments]
    if layout.tensor > 1:
        words += [engine.sizes.flags["tensor"][0], str(layout.tensor)]
    if layout.stages > 1:
        words += [engine.sizes.flags["pipeline"][0], str(layout.stages)]
    if layout.copies > 1:
        words += [engine.sizes.flags["data"][0], str(layout.copies)]
    if layout.has_expert_parallelism:
        words += sized.expert_argument(layout.tensor)
    if layout.small_cache:
        words += sized.small_cache
    if request.length is not None:
        words += [engine.length_flag, str(request.length)]
    return words


def list_layouts(request: SizingRequest) -> list[Layout]:
    """Return all layouts: those that fit first, with few accelerators, then with many tokens."""
    return sorted(
        (_build_layout(request, tensor, nodes) for tensor, nodes in _list_sizes(request)),
        key=_get_order,
    )


def add_small_caches(request: SizingRequest, candidates: Sequence[Layout]) -> list[Layout]:
    """Return the layouts, and those that fit only with an 8-bit cache, in the same order."""
    small = []
    if request.accelerator.name.startswith(_EIGHT_BITS):
        for layout in (layout for layout in candidates if layout.copies == 1):
            # The weights fit, but one sequence of the longest length does not.
            if layout.reason is not None and layout.fit is not None and layout.fit.cache > 0:
                smaller = _fit_layout(request, replace(layout, reason=None, small_cache=True))
                small += [smaller] if smaller.reason is None else []
    return sorted([*candidates, *small], key=_get_order)


#: Prefixes of accelerators that compute in 8 bits.
_EIGHT_BITS = ("H", "GH", "B", "L4", "RTX-4090", "RTX-5", "RTX-PRO", "MI3")


def add_copies(request: SizingRequest, candidates: Sequence[Layout]) -> list[Layout]:
    """Return the layouts, and those of data parallel attention with experts over all ranks.

    They are added only for models with experts whose copies share them; the order is the same.
    """
    if not request.model.expert_width or not SIZED[request.engine].shares_experts:
        return list(candidates)
    inside = [(ranks, 1) for ranks in _WAYS if ranks <= request.per_node]
    across = [(request.per_node * nodes, nodes) for nodes in _NODES if nodes <= request.max_nodes]
    copied = [
        Layout(tensor, nodes, None, None, has_expert_parallelism=True, copies=ranks // tensor)
        for ranks, nodes in (*inside, *across)
        for tensor in _WAYS
        # Ranks get equal numbers of experts, and no copy spans nodes.
        if tensor < ranks and request.per_node % tensor == 0 and not request.model.experts % ranks
    ]
    checked = [replace(layout, reason=_explain_rejection(request, layout)) for layout in copied]
    fitted = [
        _fit_layout(request, layout) if layout.reason is None else layout for layout in checked
    ]
    return sorted([*candidates, *fitted], key=_get_order)


def filter_sensible(fitting: Sequence[Layout]) -> list[Layout]:
    """Return layouts that fit, without those that need more hardware for no more tokens.

    Of layouts with copies that share experts, return the one with the most tokens for each number
    of accelerators.
    """
    chosen = _filter_single_copies([layout for layout in fitting if layout.copies == 1])
    for layout in (layout for layout in fitting if layout.copies > 1):
        smaller_layouts = [other for other in chosen if other.accelerators <= layout.accelerators]
        nodes = min((other.nodes for other in chosen), default=layout.nodes)
        if layout.nodes <= nodes and all(
            _get_tokens(other) < _get_tokens(layout) for other in smaller_layouts
        ):
            chosen.append(layout)
    return sorted(chosen, key=_get_order)


def _filter_single_copies(fitting: Sequence[Layout]) -> list[Layout]:
    uncompressed = [layout for layout in fitting if not layout.small_cache] or fitting
    nodes = min((layout.nodes for layout in uncompressed), default=1)
    chosen: list[Layout] = []
    for layout in fitting:
        max_tokens = max((_get_tokens(smaller) for smaller in chosen), default=-1)
        if layout.nodes <= nodes and (_get_tokens(layout) > max_tokens or not _get_tokens(layout)):
            chosen.append(layout)
    return chosen


def _get_tokens(layout: Layout) -> int:
    return (layout.fit.tokens or 0) if layout.fit is not None else 0


def _get_order(layout: Layout) -> tuple[bool, int, bool, int, int]:
    copied = layout.copies > 1
    rejected, tokens = layout.reason is not None, _get_tokens(layout)
    return rejected, layout.accelerators, copied, -tokens, layout.nodes


def _list_sizes(request: SizingRequest) -> Sequence[tuple[int, int]]:
    """Return tensor sizes within a node, then whole nodes with one stage each."""
    inside = [ways for ways in _WAYS if ways <= request.per_node]
    across = range(2, request.max_nodes + 1)
    return [*((ways, 1) for ways in inside), *((inside[-1], nodes) for nodes in across)]


def _build_layout(request: SizingRequest, tensor: int, nodes: int) -> Layout:
    """Return a layout; experts are spread if the engine cannot split them."""
    layout = Layout(tensor, nodes, None, None)
    rejection = _explain_rejection(request, layout)
    if rejection is not None:
        whole_experts = replace(layout, has_expert_parallelism=True)
        if not request.model.expert_width or _explain_rejection(request, whole_experts) is not None:
            return replace(layout, reason=rejection)
        layout = whole_experts
    return _fit_layout(request, layout)


def _fit_layout(request: SizingRequest, layout: Layout) -> Layout:
    """Return a layout with its memory, or with the reason why it does not fit."""
    command = build_command(request, layout)
    try:
        fitted = fit(command, request.model, request.accelerator, layout.nodes)
    except UnknownMemoryError as reason:
        return replace(layout, reason=f"not checked: {reason}")
    problems = [
        finding.text
        for finding in check_fit((), (), command, request.model, fitted, layout.nodes)
        if finding.severity is not Severity.INFO
    ]
    return replace(layout, fit=fitted, reason=problems[0] if problems else None)


def _explain_rejection(request: SizingRequest, layout: Layout) -> str | None:
    """Return why the engine rejects a layout, independent of memory."""
    problems = find_problems(build_command(request, layout), request.model, {})
    return next((problem.text for problem in problems), None)


def build_command(request: SizingRequest, layout: Layout) -> EngineCommand:
    """Return the command line of a layout."""
    proposed = SIZED[request.engine].proposal
    container = {
        "name": request.engine,
        "image": proposed.image,
        "command": list(proposed.program),
        "args": build_arguments(request, layout),
    }
    return read_command(container)
