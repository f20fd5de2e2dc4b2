"""Models that people serve, with the arguments that their recipes give them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("models.json")


@dataclass(frozen=True)
class CatalogueLayout:
    """GPUs of one node that hold a model.

    Attributes:
        gpus: How many.
        expert: Whether its experts are spread over them, and not split.
        auto: Whether it is not known that a sequence of the model's length fits.
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
