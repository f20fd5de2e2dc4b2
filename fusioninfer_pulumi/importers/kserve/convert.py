"""From KServe's documents to services of ours: the one entry to this dialect."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.conversion import Conversion
from fusioninfer_pulumi.importers.given import Given
from fusioninfer_pulumi.importers.kserve.backends import backends_of
from fusioninfer_pulumi.importers.kserve.lookup import (
    SYSTEM,
    Around,
    Objects,
    config_of,
    map_namespaces,
)
from fusioninfer_pulumi.importers.kserve.merging import Node, merged, node_of
from fusioninfer_pulumi.importers.kserve.models import (
    LLMInferenceService,
    LLMInferenceServiceConfig,
)
from fusioninfer_pulumi.importers.kserve.service import carry_service
from fusioninfer_pulumi.importers.metadata import carry_rest, own_name
from fusioninfer_pulumi.importers.model import read
from fusioninfer_pulumi.importers.table import ObjectKey

SERVICE, CONFIG = "LLMInferenceService", "LLMInferenceServiceConfig"
CONFIG_MAP = "ConfigMap"
#: KServe's own configs, whose settings this dialect knows.
PRESET = "kserve-config-llm-"

#: Of a ConfigMap, what it is known by.
_OWN = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))


def named(documents: Sequence[Given]) -> frozenset[ObjectKey]:
    """The ConfigMaps that hold configurations of endpoint pickers.

    Args:
        documents: KServe's documents of one input, as they were given.
    """
    place = ("spec", "router", "scheduler", "config", "ref", "name")
    stated = [document.at(*place).value for document in documents]
    names = {name for name in stated if isinstance(name, str)}
    # A config may stand in another namespace than the services that are based on it.
    namespaces = [each.namespace for each in documents if each.kind == SERVICE]
    return frozenset(
        ("v1", CONFIG_MAP, namespace, name)
        for name in names
        for own in namespaces
        for namespace in map_namespaces(own, name)
    )


def convert(documents: Sequence[Given], *, allow_lossy: bool) -> Conversion:
    """Converts the KServe documents of one input.

    Args:
        documents: LLMInferenceServices, and the LLMInferenceServiceConfigs and ConfigMaps that
            they name.
        allow_lossy: Whether what cannot be carried over is a warning in place of an error.

    Returns:
        One service for each LLMInferenceService.
    """
    book = Book(documents, allow_lossy=allow_lossy)
    configs = {
        (document.namespace, document.name): document
        for document in documents
        if document.kind == CONFIG and read(book, document, LLMInferenceServiceConfig) is not None
    }
    maps = {
        (document.namespace, document.name): document
        for document in documents
        if document.kind == CONFIG_MAP
    }
    used: set[Given] = set()
    specs: list[tuple[Given, list[Given], Node]] = []
    for document in documents:
        if document.kind != SERVICE or read(book, document, LLMInferenceService) is None:
            continue
        bases = _bases(book, document, configs)
        used.update(bases)
        specs.append((document, bases, _with_bases(book, document, bases)))
    backends: dict[tuple[Any, str, str], str] = {}
    for document, _, spec in specs:
        if spec.get("router") is not None:
            backends |= backends_of(document.namespace, document.name)
    for document, bases, spec in specs:
        carrier = book.service(document)
        for base in bases:
            carrier.uses(base)
        carry_service(carrier, spec, Around(maps, backends))
    _left_of_maps(book, maps)
    _left_of_configs(book, configs, used)
    return book.conversion()


def _left_of_maps(book: Book, maps: Objects) -> None:
    for document in maps.values():
        book.read(*(document.at(*path) for path in _OWN))
        for leaf in document.leaves():
            if not book.is_read(leaf):
                book.note(leaf, "is not what the scheduler's config.ref names; left out")


def _left_of_configs(book: Book, configs: Objects, used: Collection[Given]) -> None:
    for document in configs.values():
        book.read(document.at("apiVersion"), document.at("kind"), document.at("metadata", "name"))
        book.read(document.at("metadata", "namespace"))
        own_name(book, document)
        if document in used:
            carry_rest(book, document)
            for field in ("labels", "annotations"):
                if document.metadata.get(field):
                    book.note(document.at("metadata", field), "is the config's own; left out")
        else:
            book.warn(
                document.at(), "no LLMInferenceService of this input is based on it; left out"
            )


def _bases(book: Book, document: Given, configs: Objects) -> list[Given]:
    """The configs that a service is based on, the first of which is the lowest."""
    found = []
    for index, reference in enumerate(document.raw["spec"].get("baseRefs") or ()):
        at = document.at("spec", "baseRefs", index)
        name = reference["name"]
        config = config_of(configs, document.namespace, name)
        if config is not None:
            found.append(config)
            book.read(at)
        elif str(name).startswith(PRESET):
            book.note(at, "KServe's own config: what it sets follows from the other fields here")
        else:
            book.lost(
                at,
                f"the LLMInferenceServiceConfig {name} of namespace {document.namespace} is not in "
                f"this input, nor one of {SYSTEM}; add it as a document",
            )
        if config is not None and config.raw["spec"].get("baseRefs"):
            place = config.at("spec", "baseRefs")
            book.lost(place, "configs that are based on configs are not followed; name both")
    return found


def _with_bases(book: Book, document: Given, bases: Sequence[Given]) -> Node:
    own = node_of(document.at("spec"))
    spec: Node | None = None
    for base in (*(node_of(each.at("spec")) for each in bases), own):
        spec = base if spec is None else merged(spec, base)
    assert spec is not None
    kept = {leaf.at for _, leaf in spec.leaves()}
    for _, leaf in own.leaves():
        if leaf.at in kept:
            continue
        if leaf.content in ({}, []):  # `scheduler: {}` above a config's says that it is there
            book.read(leaf.at)
        else:
            book.note(leaf.at, "KServe merges it with a later item of the list, which holds")
    for config in bases:
        for at in config.leaves():
            if at.path[:1] == ("spec",) and at not in kept:
                book.note(at, f"{document.name} says otherwise, which holds")
    return spec
