"""Known models with the arguments of their recipes, and the GPUs that a model needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.api.engine import ParallelismArgs
from fusioninfer_pulumi.api.model import ModelArgs, hub_name
from fusioninfer_pulumi.findings import closest_name
from fusioninfer_pulumi.kube import quantity

_FILE = Path(__file__).with_name("models.json")


@dataclass(frozen=True)
class CatalogueLayout:
    """GPUs of one node that hold a model.

    Attributes:
        gpus: How many.
        expert: Whether its experts are spread over them, and not split.
        auto: Whether a sequence of the model's full length may not fit.
    """

    gpus: int
    expert: bool = False
    auto: bool = False


@dataclass(frozen=True)
class CatalogueModel:
    """A model of the catalogue.

    Attributes:
        name: Its repository on Hugging Face.
        kind: `dense`, `experts`, `multimodal`, `embedding` or `reranking`.
        arguments: The engine's arguments for it, such as parsers of tools and reasoning.
        accelerators: GPUs of one node that hold it, by what each GPU is.
        siblings: Quantized repositories of the same model.
        context: Tokens of its longest sequence.
        minimum: First release of the engine that serves it.
        memory: GB of GPU memory that its recipe names.
        bytes: Bytes of its weights, or more where only the memory that it takes is known.
        source: Recipe or card that says so.
        checked: Day on which the source was read.
        note: What differs from the source, and why; empty where nothing does.
    """

    name: str
    kind: str
    arguments: tuple[str, ...]
    accelerators: Mapping[str, CatalogueLayout]
    siblings: tuple[str, ...]
    context: int
    minimum: str
    memory: int
    bytes: int
    source: str
    checked: str
    note: str = ""


@cache
def catalogue() -> Mapping[str, CatalogueModel]:
    """Return all models by their names."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        entry["name"]: CatalogueModel(
            **{
                **entry,
                "arguments": tuple(entry["arguments"]),
                "accelerators": {
                    kind: CatalogueLayout(**fields)
                    for kind, fields in entry["accelerators"].items()
                },
                "siblings": tuple(entry["siblings"]),
                "source": f"{document['recipes']}, {entry['source']}",
                "checked": document["checked"],
            }
        )
        for entry in document["models"]
    }


def find_catalogue_model(name: str) -> CatalogueModel | None:
    """Return the model of a repository or of one of its quantized siblings; None for another."""
    known = catalogue().get(name)
    if known is not None:
        return known
    return next((model for model in catalogue().values() if name in model.siblings), None)


@dataclass(frozen=True)
class GpuLayout:
    """GPUs of a pod, and the split where it is chosen here.

    Attributes:
        gpus: GPUs of each pod, 0 for processors.
        parallelism: The split; None if the user sets it or there is none.
        origin: Where the split comes from.
        reason: Why it is that.
        auto: Whether a sequence of the model's full length may not fit.
    """

    gpus: int
    parallelism: ParallelismArgs | None = None
    origin: str = ""
    reason: str = ""
    auto: bool = False


def layout(
    model: ModelArgs, accelerator: str, engine: str, length: int | None, *, ranks: bool
) -> GpuLayout | str:
    """Return the smallest layout that holds a model, or why none is known (end of a sentence).

    Args:
        model: The model.
        accelerator: What each GPU is.
        engine: Name of the engine.
        length: Tokens of the longest sequence, None for the model's own.
        ranks: Whether several nodes are spanned by data parallel copies that share experts, as
            connectors of the KV cache want it, and not by stages of the layers.
    """
    from fusioninfer_pulumi.capacity_package import MISSING  # noqa: PLC0415  # see `_package`

    package = _package()
    if package is None:
        return f"how many the model takes {MISSING}"
    result = package.layout(model, accelerator, engine, length)
    if isinstance(result, str):
        return result
    sizes: dict[str, Any] = {}
    if result.nodes > 1 and ranks:
        tensor = result.copied_tensor
        if tensor is None:
            return (
                f"{result.reason} span {result.nodes} nodes with stages of its layers; prefill and "
                "decode span nodes only with copies that share experts, of which none fits"
            )
        local = result.tensor // tensor
        sizes = {"data": local * result.nodes, "data_local": local, "expert": True}
        sizes |= {"tensor": tensor} if tensor > 1 else {}
        return GpuLayout(result.tensor, ParallelismArgs(**sizes), "capacity", result.reason)
    if result.tensor > 1:
        sizes["tensor"] = result.tensor
    if result.nodes > 1:
        sizes["pipeline"] = result.nodes
    if result.spread:
        sizes["expert"] = True
    split = ParallelismArgs(**sizes) if sizes else None
    return GpuLayout(result.tensor, split, "capacity", result.reason)


def find_catalogue_layout(name: str, accelerator: str) -> GpuLayout | None:
    """Return the layout of the catalogue, None if it has none."""
    model = catalogue().get(name)
    if model is None:
        return None
    known = model.accelerators.get(accelerator.upper())
    if known is None:
        return None
    split = None
    if known.gpus > 1:
        split = ParallelismArgs(tensor=known.gpus, expert=True if known.expert else None)
    reason = "by the memory of its recipe" if known.auto else "its row for this GPU"
    return GpuLayout(known.gpus, split, "model table", reason, known.auto)


def model_bytes(model: ModelArgs, name: str) -> int | None:
    """Return bytes of a model's weights, None where they are not known.

    The catalogue comes first, so that they do not depend on what is installed.
    """
    known = catalogue().get(name)
    if known is not None:
        return known.bytes
    package = _package()
    size: int | None = package.model_bytes(model) if package is not None else None
    return size


def weights_size(model: ModelArgs) -> Decimal | None:
    """Return bytes of a model's weights: those that the user gives, else those that are known."""
    size = model.size or model_bytes(model, hub_name(model.uri) or "")
    return None if size is None else quantity.parse(size)


def is_known_model(name: str) -> bool:
    """Return whether the catalogue or the capacity package has a model of Hugging Face."""
    return find_catalogue_model(name) is not None or name in _known_names()


def find_similar_model(name: str) -> str | None:
    """Return the known model that an unknown name probably means, if there is one."""
    # One or two letters: a lower cutoff would suggest a different model of the same family.
    return closest_name(name, _known_names(), cutoff=0.9)


def explain_unknown_model(model: ModelArgs, name: str) -> str | None:
    """Return why the GPUs of a model are not known, if that is because its name is not."""
    if not name or model.config is not None or is_known_model(name):
        return None
    meant = find_similar_model(name)
    if meant is None and _package() is None:
        return None
    hint = f"did you mean {meant}? Otherwise set" if meant else "set"
    return f"unknown model {name}; {hint} gpus or model.config"


def _known_names() -> set[str]:
    package = _package()
    return {*catalogue(), *(() if package is None else package.model_names())}


def _package() -> Any:
    # Imported here: only roles without GPUs need it.
    from fusioninfer_pulumi.capacity_package import capacity  # noqa: PLC0415  # see above

    return capacity()
