"""Finds the smallest layout of a model, for roles that do not set `gpus`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusioninfer_capacity.fit.architecture import Architecture, UnknownArchitectureError
from fusioninfer_capacity.fit.lookup import find_model_architecture
from fusioninfer_capacity.fit.roles import parse_accelerator
from fusioninfer_capacity.fit.sizing import SizingRequest, add_copies, filter_sensible, list_layouts
from fusioninfer_capacity.fit.weights import Split, split_stages
from fusioninfer_pulumi.plugins.capacity import ModelArgs, ModelConfigError, hub_name, quote_value

_PER_NODE = 8


@dataclass(frozen=True)
class SmallestLayout:
    """Implements `fusioninfer_pulumi.capacity_package.ModelLayout`."""

    tensor: int
    nodes: int
    has_expert_parallelism: bool
    rank_tensor_size: int | None
    reason: str


def find_smallest_layout(
    model: ModelArgs,
    accelerator: str,
    engine: str,
    length: int | None,
    arguments: Sequence[str] = (),
) -> SmallestLayout | str:
    """Return the layout with the fewest accelerators, on nodes of 8, or why no layout fits.

    `arguments` are the engine's arguments other than its sizes.
    """
    kind = parse_accelerator(accelerator)
    if kind is None:
        return (
            f"the accelerator {quote_value(accelerator)} is unknown; use a name such as H100, or a "
            "memory, such as 80Gi"
        )
    architecture = _find_supported_architecture(model)
    if architecture is None:
        return f"the model {quote_value(model.uri)} is unknown; set gpus or model.config"
    request = SizingRequest(
        hub_name(model.uri) or model.uri,
        architecture,
        kind,
        _PER_NODE,
        engine,
        length,
        arguments=tuple(arguments),
    )
    candidates = list_layouts(request)
    fitting = filter_sensible([layout for layout in candidates if layout.reason is None])
    if not fitting:
        reasons = sorted({layout.reason for layout in candidates if layout.reason})
        limit = f"{request.max_nodes} nodes of {_PER_NODE} {kind.name}"
        return f"the model does not fit on up to {limit}: {reasons[0]}"
    first = fitting[0]
    return SmallestLayout(
        tensor=first.tensor,
        nodes=first.nodes,
        has_expert_parallelism=first.has_expert_parallelism,
        rank_tensor_size=_find_rank_tensor_size(request, first.nodes),
        reason=f"the fewest {kind.name} that fit the model and its longest sequence",
    )


def _find_rank_tensor_size(request: SizingRequest, nodes: int) -> int | None:
    """Return the tensor size of the data parallel layout with the most tokens on these nodes."""
    if nodes == 1:
        return None
    copies = [
        layout
        for layout in add_copies(request, ())
        if layout.reason is None and layout.nodes == nodes
    ]
    return filter_sensible(copies)[0].tensor if copies else None


def count_model_bytes(model: ModelArgs) -> int | None:
    """Return the bytes of a model's weights; None if its architecture is unknown."""
    architecture = _find_supported_architecture(model)
    if architecture is None:
        return None
    return sum(stage.weights for stage in split_stages(architecture, Split()))


def _find_supported_architecture(model: ModelArgs) -> Architecture | None:
    """Return the architecture of a model; None if unknown, which `check` reports."""
    try:
        return find_model_architecture(model)
    except (ModelConfigError, UnknownArchitectureError):
        return None
