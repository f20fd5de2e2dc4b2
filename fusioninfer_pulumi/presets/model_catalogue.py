"""The model catalogue with arguments from published recipes, and the GPUs that a model needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fusioninfer_pulumi.api.engine import ParallelismArgs
from fusioninfer_pulumi.api.model import ModelArgs, hub_name
from fusioninfer_pulumi.findings import closest_name
from fusioninfer_pulumi.kube import quantity

_FILE = Path(__file__).with_name("models.json")


class CatalogueLayout(NamedTuple):
    """The GPUs of one node that a model fits on."""

    gpus: int  #: number of GPUs
    expert: bool = False  #: whether expert parallelism is used
    auto: bool = False  #: whether vLLM chooses the longest sequence (`--max-model-len auto`)


class CatalogueModel(NamedTuple):
    """A model of the catalogue."""

    name: str  #: its repository on Hugging Face
    kind: str  #: `dense`, `experts`, `multimodal`, `embedding` or `reranking`
    arguments: tuple[str, ...]  #: engine arguments, such as parsers for tool calls and reasoning
    accelerators: Mapping[str, CatalogueLayout]  #: GPUs of one node that it fits on, by GPU model
    siblings: tuple[str, ...]  #: repositories with quantized versions of the model
    context: int  #: tokens of its longest sequence
    minimum: str  #: first engine release that supports it
    memory: int  #: GPU memory in its recipe, in GB
    bytes: int  #: bytes of its weights, or an upper bound if only its GPU memory is known
    source: str  #: recipe or model card with these facts
    checked: str  #: date on which the source was read
    note: str = ""  #: differences from the source with reasons; empty if there are none


@cache
def load_catalogue() -> Mapping[str, CatalogueModel]:
    """Return all models by name."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    models: dict[str, CatalogueModel] = {}
    for entry in document["models"]:
        fields = {**entry, "checked": document["checked"]}
        fields["arguments"] = tuple(entry["arguments"])
        fields["siblings"] = tuple(entry["siblings"])
        fields["source"] = f"{document['recipes']}, {entry['source']}"
        fields["accelerators"] = {
            gpu_model: CatalogueLayout(**layout)
            for gpu_model, layout in entry["accelerators"].items()
        }
        models[entry["name"]] = CatalogueModel(**fields)
    return models


def find_catalogue_model(name: str) -> CatalogueModel | None:
    """Return the model with this repository, or with this quantized sibling; None if unknown."""
    models = load_catalogue()
    if name in models:
        return models[name]
    return next((model for model in models.values() if name in model.siblings), None)


class GpuLayout(NamedTuple):
    """The GPUs of a pod, and how the model is split over them."""

    gpus: int  #: GPUs of each pod, 0 on CPUs
    parallelism: ParallelismArgs | None = None  #: the sizes, None if the library sets none
    origin: str = ""  #: where GPUs and sizes come from
    reason: str = ""  #: why they were chosen
    limits_length: bool = False  #: as `CatalogueLayout.auto`


def compute_layout(
    model: ModelArgs, accelerator: str, engine: str, length: int | None, *, wide_ep: bool
) -> GpuLayout | str:
    """Return the smallest layout for a model, or why none is known, as the end of a message.

    Args:
        model: The model.
        accelerator: GPU model.
        engine: Name of the engine.
        length: Tokens of the longest sequence, None for the model's maximum.
        wide_ep: Whether a replica that spans nodes consists of data parallel ranks that share
            experts, as KV connectors require, instead of pipeline stages.
    """
    from fusioninfer_pulumi.capacity_package import NEEDS_CAPACITY  # noqa: PLC0415  # as in `_get_capacity_method`

    find_layout = _get_capacity_method("layout")
    if find_layout is None:
        return f"estimating it {NEEDS_CAPACITY}"
    result = find_layout(model, accelerator, engine, length)
    if isinstance(result, str):
        return result
    sizes: dict[str, Any] = {}
    if result.nodes > 1 and wide_ep:
        rank_gpus = result.rank_tensor_size
        if rank_gpus is None:
            return (
                f"{result.reason} span {result.nodes} nodes as pipeline stages; prefill and decode "
                "can span nodes only as data parallel ranks that share experts, which do not fit"
            )
        local_ranks = result.tensor // rank_gpus
        sizes = {"data": local_ranks * result.nodes, "data_local": local_ranks, "expert": True}
        if rank_gpus > 1:
            sizes["tensor"] = rank_gpus
        return GpuLayout(result.tensor, ParallelismArgs(**sizes), "capacity", result.reason)
    if result.tensor > 1:
        sizes["tensor"] = result.tensor
    if result.nodes > 1:
        sizes["pipeline"] = result.nodes
    if result.has_expert_parallelism:
        sizes["expert"] = True
    split = ParallelismArgs(**sizes) if sizes else None
    return GpuLayout(result.tensor, split, "capacity", result.reason)


def find_catalogue_layout(name: str, accelerator: str) -> GpuLayout | None:
    """Return the catalogue's layout of a model on a GPU model, None if the catalogue has none."""
    model = load_catalogue().get(name)
    if model is None:
        return None
    layout = model.accelerators.get(accelerator.upper())
    if layout is None:
        return None
    split = None
    if layout.gpus > 1:
        split = ParallelismArgs(tensor=layout.gpus, expert=True if layout.expert else None)
    reason = "by the memory of its recipe" if layout.auto else "its entry for this accelerator"
    return GpuLayout(layout.gpus, split, "model catalogue", reason, limits_length=layout.auto)


def get_model_bytes(model: ModelArgs, name: str) -> int | None:
    """Return the bytes of a model's weights, None if unknown."""
    # The catalogue takes precedence, so that installed packages do not change the result.
    if name in load_catalogue():
        return load_catalogue()[name].bytes
    find_bytes = _get_capacity_method("model_bytes")
    size: int | None = None if find_bytes is None else find_bytes(model)
    return size


def get_weights_size(model: ModelArgs) -> Decimal | None:
    """Return the bytes of a model's weights: `model.size`, else `get_model_bytes`."""
    size = model.size or get_model_bytes(model, hub_name(model.uri) or "")
    return None if size is None else quantity.parse(size)


def is_known_model(name: str) -> bool:
    """Return whether the catalogue or the capacity package has a Hugging Face model."""
    return find_catalogue_model(name) is not None or name in _known_names()


def find_similar_model(name: str) -> str | None:
    """Return the known model that a misspelled name probably means, None if there is none."""
    # Names differ by one or two letters; a lower cutoff would suggest another model of a family.
    return closest_name(name, _known_names(), cutoff=0.9)


def explain_unknown_model(model: ModelArgs, name: str) -> str | None:
    """Return the message about an unknown model name, None if the name is not the problem."""
    if not name or model.config is not None or is_known_model(name):
        return None
    closest = find_similar_model(name)
    if closest is None and _get_capacity_method("layout") is None:
        return None
    hint = f"did you mean {closest}? Otherwise set" if closest else "set"
    return f"unknown model {name}; {hint} gpus or model.config"


def _known_names() -> set[str]:
    list_names = _get_capacity_method("model_names")
    names = set(load_catalogue())
    if list_names is not None:
        names.update(list_names())
    return names


def _get_capacity_method(name: str) -> Any:
    """Return a method of the capacity package, None if no installed package has it."""
    # Imported here, because only roles that set no GPUs need it.
    from fusioninfer_pulumi.capacity_package import load_package  # noqa: PLC0415  # see above

    return getattr(load_package(), name, None)
