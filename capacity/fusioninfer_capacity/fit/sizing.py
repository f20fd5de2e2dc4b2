"""Lists the layouts of a model on one type of accelerator, and checks which of them fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusioninfer_capacity.fit.architecture import Architecture
from fusioninfer_capacity.fit.engines import SIZED_ENGINES, Accelerator, UnknownMemoryError
from fusioninfer_capacity.fit.findings import check_fit
from fusioninfer_capacity.fit.memory import Fit, fit
from fusioninfer_capacity.fit.shapes import find_problems
from fusioninfer_pulumi.plugins.capacity import ENGINES, EngineCommand, Severity, parse_command

_TENSOR_SIZES = (1, 2, 4, 8, 16)
_MAX_NODES = 4
#: Numbers of nodes to try for data parallel copies that share their experts.
_NODES = (2, 4)


@dataclass(frozen=True)
class SizingRequest:
    """The model and accelerator to size.

    Attributes:
        name: Name of the model, for the engine's arguments.
        length: Tokens of the longest sequence, or None for the model's own.
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
        reason: Why the layout does not fit, or the engine rejects it; else None.
        has_expert_parallelism: Whether experts are distributed instead of split.
        fp8_cache: Whether the KV cache is stored in 8 bits.
        copies: Data parallel copies, which share the experts. With several, each node has some of
            the copies instead of a stage of the layers.
    """

    tensor: int
    nodes: int
    fit: Fit | None
    reason: str | None
    has_expert_parallelism: bool = False
    fp8_cache: bool = False
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
    engine, sized = ENGINES[request.engine], SIZED_ENGINES[request.engine]
    words = [engine.model_flags[0], request.name, *sized.proposal.arguments, *request.arguments]
    if layout.tensor > 1:
        words += [engine.sizes.flags["tensor"][0], str(layout.tensor)]
    if layout.stages > 1:
        words += [engine.sizes.flags["pipeline"][0], str(layout.stages)]
    if layout.copies > 1:
        words += [engine.sizes.flags["data"][0], str(layout.copies)]
    if layout.has_expert_parallelism:
        words += sized.expert_argument(layout.tensor)
    if layout.fp8_cache:
        words += sized.fp8_cache
    if request.length is not None:
        words += [engine.length_flag, str(request.length)]
    return words


def list_layouts(request: SizingRequest) -> list[Layout]:
    """Return all layouts, sorted: layouts that fit, then few accelerators, then many tokens."""
    return sorted(
        (_build_layout(request, tensor, nodes) for tensor, nodes in _list_sizes(request)),
        key=_get_order,
    )


def add_fp8_caches(request: SizingRequest, candidates: Sequence[Layout]) -> list[Layout]:
    """Return the candidates, and those that fit only with an FP8 cache, in the same order."""
    has_fp8 = request.accelerator.name.startswith(_FP8_ACCELERATORS)
    with_fp8 = [
        _fit_layout(request, replace(layout, reason=None, fp8_cache=True))
        for layout in (candidates if has_fp8 else ())
        # Only where the weights fit, but one sequence of the maximum length does not.
        if layout.copies == 1
        and layout.reason is not None
        and layout.fit is not None
        and layout.fit.cache > 0
    ]
    fitting = [layout for layout in with_fp8 if layout.reason is None]
    return sorted([*candidates, *fitting], key=_get_order)


#: Prefixes of the names of accelerators that compute in 8 bits.
_FP8_ACCELERATORS = ("H", "GH", "B", "L4", "RTX-4090", "RTX-5", "RTX-PRO", "MI3")


def add_copies(request: SizingRequest, candidates: Sequence[Layout]) -> list[Layout]:
    """Return the candidates and layouts with data parallel attention, in the same order.

    These are added only if the model has experts, which the copies of the engine share.
    """
    if not request.model.expert_width or not SIZED_ENGINES[request.engine].shares_experts:
        return list(candidates)
    inside = [(ranks, 1) for ranks in _TENSOR_SIZES if ranks <= request.per_node]
    across = [(request.per_node * nodes, nodes) for nodes in _NODES if nodes <= request.max_nodes]
    copied = [
        Layout(tensor, nodes, None, None, has_expert_parallelism=True, copies=ranks // tensor)
        for ranks, nodes in (*inside, *across)
        for tensor in _TENSOR_SIZES
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

    For each number of accelerators, only the layout with copies that has the most tokens stays.
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
    without_fp8 = [layout for layout in fitting if not layout.fp8_cache] or fitting
    nodes = min((layout.nodes for layout in without_fp8), default=1)
    chosen: list[Layout] = []
    for layout in fitting:
        max_tokens = max((_get_tokens(smaller) for smaller in chosen), default=-1)
        # Layouts whose tokens are unknown (0) stay.
        if layout.nodes <= nodes and (_get_tokens(layout) > max_tokens or not _get_tokens(layout)):
            chosen.append(layout)
    return chosen


def _get_tokens(layout: Layout) -> int:
    return (layout.fit.tokens or 0) if layout.fit is not None else 0


def _get_order(layout: Layout) -> tuple[bool, int, bool, int, int]:
    has_copies, is_rejected = layout.copies > 1, layout.reason is not None
    return is_rejected, layout.accelerators, has_copies, -_get_tokens(layout), layout.nodes


def _list_sizes(request: SizingRequest) -> Sequence[tuple[int, int]]:
    """Return tensor sizes and nodes: first on one node, then on several with one stage each."""
    inside = [tensor for tensor in _TENSOR_SIZES if tensor <= request.per_node]
    across = range(2, request.max_nodes + 1)
    return [*((tensor, 1) for tensor in inside), *((inside[-1], nodes) for nodes in across)]


def _build_layout(request: SizingRequest, tensor: int, nodes: int) -> Layout:
    """Return a layout, with expert parallelism if the engine cannot split the experts."""
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
    except UnknownMemoryError as exc:
        return replace(layout, reason=f"not checked: {exc}")
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
    proposed = SIZED_ENGINES[request.engine].proposal
    container = {
        "name": request.engine,
        "image": proposed.image,
        "command": list(proposed.program),
        "args": build_arguments(request, layout),
    }
    return parse_command(container)
