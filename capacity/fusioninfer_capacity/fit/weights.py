"""Bytes of weights on each accelerator, as tensor, pipeline and expert parallelism split them."""

from __future__ import annotations

from dataclasses import dataclass

from fusioninfer_capacity.fit.architecture import Architecture, Layer, Part


@dataclass(frozen=True)
class Split:
    """How a model is split over the accelerators of a replica.

    Attributes:
        tensor: Tensor parallel size.
        expert: Ranks that divide the routed experts; with 1, tensor parallelism splits each expert.
        whole_encoder: Whether every rank has complete image encoders.
    """

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    whole_encoder: bool = False


@dataclass(frozen=True)
class Stage:
    """The layers of one pipeline stage.

    Attributes:
        weights: Bytes of weights on each of its accelerators.
    """

    layers: tuple[Layer, ...]
    weights: int


def split_stages(model: Architecture, split: Split) -> list[Stage]:
    """Return the pipeline stages, each with the weights of one accelerator."""
    all_stages, begin = [], 0
    sizes = _divide_layers(len(model.layers), split.pipeline)
    for position, size in enumerate(sizes):
        layers = range(begin, begin + size)
        total = sum(
            _count_bytes(model, index, part, split)
            for index in layers
            for part in model.layers[index].parts
        )
        is_first, is_last = position == 0, position == len(sizes) - 1
        total += _count_outside(model, split, is_first=is_first, is_last=is_last)
        all_stages.append(Stage(model.layers[begin : begin + size], int(total)))
        begin += size
    return all_stages


def _divide_layers(layers: int, pipeline: int) -> list[int]:
    """Return layers of each stage; stages before the last get the remainder (`get_pp_indices`)."""
    per_stage, remainder = divmod(layers, pipeline)
    sizes = [per_stage] * pipeline
    for index in range(2, remainder + 2):
        sizes[-index] += 1
    return sizes


def _count_bytes(model: Architecture, index: int, part: Part, split: Split) -> float:
    bits = part.bits if part.bits is not None else _get_bits(model, index, part)
    ways, padded = 1, 1.0
    if part.expert and split.expert > 1:
        ways = split.expert
    elif part.split:
        # With fewer heads than ranks, several ranks keep the same head.
        ways = min(split.tensor, part.heads or split.tensor)
        if part.width:
            padded = ways * -(-part.width // (ways * part.tile)) * part.tile / part.width
    return part.parameters * bits / 8 / ways * padded


def _get_bits(model: Architecture, index: int, part: Part) -> float:
    stored = model.quantization
    if stored is None or (stored.experts_only and not part.expert):
        return model.bits
    bits = stored.get_bits(index, part.name)
    return bits if bits is not None else model.bits


def _count_outside(model: Architecture, split: Split, *, is_first: bool, is_last: bool) -> float:
    """Return the bytes outside of layers: embedding and encoders, and the head."""
    embedding = model.embedding * model.bits / 8 / split.tensor
    head = embedding
    stored = model.quantization
    bits = stored.get_bits(None, "lm_head") if stored is not None else None
    if stored is not None and bits is not None and not stored.experts_only:
        head = model.embedding * bits / 8 / split.tensor
    total = embedding if is_first else 0.0
    if is_last and not (model.tied and is_first):
        total += embedding if model.tied else head
    if is_first:
        total += model.vision * model.bits / 8 / (1 if split.whole_encoder else split.tensor)
    return total
