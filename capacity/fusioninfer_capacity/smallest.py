"""The smallest layout of a model, for roles that leave their GPUs out."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_capacity.fit.architecture import (
    Architecture,
    UnknownArchitectureError,
    known_architecture,
    read_config,
)
from fusioninfer_capacity.fit.roles import named_accelerator
from fusioninfer_capacity.fit.sizing import Wish, layouts, sensible
from fusioninfer_capacity.fit.weights import Split, stages
from fusioninfer_pulumi.plugins.capacity import (
    ModelArgs,
    ModelConfigError,
    read_model_config,
    read_source,
    shown,
)

_PER_NODE = 8


@dataclass(frozen=True)
class SmallestLayout:
    """Implements `fusioninfer_pulumi.capacity.ModelLayout`."""

    tensor: int
    nodes: int
    spread: bool
    experts: bool
    reason: str


def smallest_layout(
    model: ModelArgs, accelerator: str, engine: str, length: int | None
) -> SmallestLayout | str:
    """The layout with the fewest accelerators, on nodes of 8; or why none is known."""
    kind = named_accelerator(accelerator)
    if kind is None:
        return f"{shown(accelerator)} is not known: name one such as H100, or its memory: 80Gi"
    architecture = model_architecture(model)
    if architecture is None:
        return f"{model.uri} is not in the table of models; model.config would say it, too"
    wish = Wish(_name(model), architecture, kind, _PER_NODE, engine, length)
    listed = layouts(wish)
    fitting = sensible([layout for layout in listed if layout.reason is None])
    if not fitting:
        reasons = sorted({layout.reason for layout in listed if layout.reason})
        return (
            f"nothing fits up to {wish.most_nodes} nodes of {_PER_NODE} {kind.name}: {reasons[0]}"
        )
    first = fitting[0]
    return SmallestLayout(
        tensor=first.tensor,
        nodes=first.nodes,
        spread=first.spread,
        experts=bool(architecture.expert_width),
        reason=f"the fewest {kind.name} that hold the model and its longest sequence",
    )


def model_bytes(model: ModelArgs) -> int | None:
    """Bytes of a model's weights; None where its architecture is not known."""
    architecture = model_architecture(model)
    if architecture is None:
        return None
    return sum(stage.weights for stage in stages(architecture, Split()))


def model_architecture(model: ModelArgs) -> Architecture | None:
    """That of `model.config`, else of the table; None where neither says it."""
    try:
        if model.config is not None:
            config = model.config
            return read_config(read_model_config(config) if isinstance(config, str) else config)
        return known_architecture(_name(model))
    except (ModelConfigError, UnknownArchitectureError):
        return None
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
        return None  # a config that is not understood; `check` says so


def _name(model: ModelArgs) -> str:
    source = read_source(model.uri)
    return source.place if source is not None and source.scheme == "hf" else model.uri
