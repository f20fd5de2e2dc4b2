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


class GpuPlan(NamedTuple):
    """The GPUs of a pod, and how the model is split over them."""

    gpus: int  #: GPUs of each pod, 0 on CPUs
    parallelism: ParallelismArgs | None = None  #: the sizes, or None if the library sets none
    source: str = ""  #: where the GPUs and sizes come from
    reason: str = ""  #: why they were chosen
    limits_length: bool = False  #: whether the sequence length is limited to what fits in memory


class CatalogueModel(NamedTuple):
    """A model of the catalogue."""

    name: str  #: its repository on Hugging Face
    arguments: tuple[str, ...]  #: engine arguments, such as parsers for tool calls and reasoning
    gpu_plans: Mapping[str, GpuPlan]  #: GPUs of one node that it fits on, keyed by GPU model
    siblings: tuple[str, ...]  #: repositories with quantized versions of the model
    bytes: int  #: bytes of its weights, or an upper bound if only its GPU memory is known
    source: str  #: recipe or model card with these facts


@cache
def load_catalogue() -> Mapping[str, CatalogueModel]:
    """Return the catalogue's models, keyed by name."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    models: dict[str, CatalogueModel] = {}
    for entry in document["models"]:
        name = entry["name"]
        models[name] = CatalogueModel(
            name=name,
            arguments=tuple(entry["arguments"]),
            gpu_plans={
                gpu: _build_gpu_plan(**fields) for gpu, fields in entry["accelerators"].items()
            },
            siblings=tuple(entry["siblings"]),
            bytes=entry["bytes"],
            source=f"{document['recipes']}, {entry['source']}",
        )
    return models


def _build_gpu_plan(gpus: int, *, expert: bool = False, auto: bool = False) -> GpuPlan:
    parallelism = None
    if gpus > 1:
        parallelism = ParallelismArgs(tensor=gpus, expert=expert or None)
    reason = "from the GPU memory in the model's recipe" if auto else "entry for this accelerator"
    return GpuPlan(gpus, parallelism, "model catalogue", reason, limits_length=auto)


def find_catalogue_model(name: str) -> CatalogueModel | None:
    """Return the model with this repository or quantized sibling, or None if it is unknown."""
    models = load_catalogue()
    if name in models:
        return models[name]
    return next((model for model in models.values() if name in model.siblings), None)


def compute_gpu_plan(
    model: ModelArgs, accelerator: str, engine: str, length: int | None, *, wide_ep: bool
) -> GpuPlan | str:
    """Return a plan with the fewest GPUs, or the end of a message that says why there is none.

    Args:
        model: The model.
        accelerator: GPU model.
        engine: Name of the engine.
        length: Tokens of the longest sequence, or None for the model's maximum.
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
        return GpuPlan(result.tensor, ParallelismArgs(**sizes), "capacity", result.reason)
    if result.tensor > 1:
        sizes["tensor"] = result.tensor
    if result.nodes > 1:
        sizes["pipeline"] = result.nodes
    if result.has_expert_parallelism:
        sizes["expert"] = True
    parallelism = ParallelismArgs(**sizes) if sizes else None
    return GpuPlan(result.tensor, parallelism, "capacity", result.reason)


def find_catalogue_gpu_plan(name: str, accelerator: str) -> GpuPlan | None:
    """Return the catalogue's GPU plan for a model, or None if it has none for this GPU model."""
    model = load_catalogue().get(name)
    return None if model is None else model.gpu_plans.get(accelerator.upper())


def get_weights_size(model: ModelArgs) -> Decimal | None:
    """Return the bytes of a model's weights, or None if unknown; `model.size` takes precedence."""
    if model.size is not None:
        return quantity.parse(model.size)
    # The catalogue takes precedence, so that installed packages do not change the result.
    catalogue_model = load_catalogue().get(hub_name(model.uri) or "")
    if catalogue_model is not None:
        return Decimal(catalogue_model.bytes)
    find_bytes = _get_capacity_method("model_bytes")
    size = None if find_bytes is None else find_bytes(model)
    return None if size is None else Decimal(size)


def suggest_model(model: ModelArgs) -> str | None:
    """Return the known model that a misspelled name probably means, or None if there is none."""
    name = hub_name(model.uri)
    if name is None or model.config is not None or find_catalogue_model(name) is not None:
        return None
    known_names = set(load_catalogue())
    list_names = _get_capacity_method("model_names")
    if list_names is not None:
        known_names.update(list_names())
    # Names differ by one or two letters; a lower cutoff would suggest another model of a family.
    closest = closest_name(name, known_names, cutoff=0.9)
    return None if closest == name else closest


def _get_capacity_method(name: str) -> Any:
    """Return a method of the capacity package, or None if no installed package has it."""
    # Imported here, because most services do not need it.
    from fusioninfer_pulumi.capacity_package import load_package  # noqa: PLC0415  # see above

    return getattr(load_package(), name, None)
