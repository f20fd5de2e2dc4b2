"""A ModelCache, and the reference to it, as the model of a service with a warmed cache.

Modelplane makes one volume in each cluster (`ReadWriteMany`), lets a Job download the model to its
root once, and mounts it at `/mnt/models` in every pod, for reading and writing. vLLM without a
command gets `--model=/mnt/models`, unless its arguments name a model; every other command names the
path by itself (functions/compose-model-cache, compose-model-replica/function/backends/base.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.flags import has_flag, split_joined_flags
from fusioninfer_pulumi.engines.model_arguments import model_argument
from fusioninfer_pulumi.importers.carrier import Book, Carrier
from fusioninfer_pulumi.importers.given import At, Given
from fusioninfer_pulumi.importers.metadata import companion
from fusioninfer_pulumi.importers.model import read
from fusioninfer_pulumi.importers.modelplane.clusters import carry_cluster
from fusioninfer_pulumi.importers.modelplane.companions import ModelCache
from fusioninfer_pulumi.importers.modelplane.models import ModelCacheRef

MOUNT_PATH = "/mnt/models"
_MODEL = ("spec", "model")
#: A warm-up has a limit, which Modelplane's Job has not: ours by default, more for large models.
_HOURS, _GIB_AN_HOUR = 2, 100


@dataclass
class Caches:
    """The ModelCaches of an input.

    Attributes:
        read: By namespace and name, each with its document; None in place of one that was refused.
        users: How many deployments refer to each document.
    """

    read: Mapping[tuple[Any, Any], tuple[Given, ModelCache | None]]
    users: dict[Given, int] = field(default_factory=dict)


def read_caches(book: Book, documents: Sequence[Given]) -> Caches:
    """Reads the ModelCaches among some documents.

    Args:
        book: Where problems are noted.
        documents: The documents of one input.
    """
    found = {}
    for document in documents:
        if document.kind == "ModelCache":
            cache = read(book, document, ModelCache)
            if cache is not None:
                companion(book, document)
            found[document.namespace, document.name] = (document, cache)
    return Caches(found)


def carry_cache(carrier: Carrier, reference: ModelCacheRef | None, at: At, caches: Caches) -> None:
    """Carries the model of the cache that a deployment refers to over.

    Args:
        carrier: The service, with all of its roles.
        reference: The reference.
        at: Where it stands.
        caches: The ModelCaches of the input.
    """
    if reference is None:
        return
    namespace = carrier.main.namespace
    document, cache = caches.read.get((namespace, reference.name), (None, None))
    if document is None:
        carrier.book.lost(
            at,
            f"the ModelCache {reference.name} of namespace {namespace} is not in this input; add "
            "it as a document, or state the service's model",
        )
        return
    carrier.book.read(at / "name")
    if cache is None:
        return
    caches.users[document] = caches.users.get(document, 0) + 1
    spec = document.at("spec")
    carrier.book.read(spec / "source")
    hub, place = cache.spec.hugging_face, spec / "huggingFace"
    if hub is None:
        carrier.book.refuse(place, "is required when source is HuggingFace")
        return
    revision = f"@{hub.revision}" if hub.revision else ""
    carrier.derive(
        (*_MODEL, "uri"), f"hf://{hub.repo}{revision}", place / "repo", place / "revision"
    )
    if hub.auth_secret is not None:
        secret, here = (*_MODEL, "tokenSecret"), place / "authSecret"
        carrier.put((*secret, "name"), hub.auth_secret.name, here / "name")
        carrier.put((*secret, "key"), hub.auth_secret.key, here / "key")
    carrier.imply((*_MODEL, "mountPath"), MOUNT_PATH, at)
    kept = (*_MODEL, "cache")
    carrier.derive((*kept, "storage", "size"), f"{hub.size_gib}Gi", place / "sizeGiB")
    hours = math.ceil(hub.size_gib / _GIB_AN_HOUR)
    if hours > _HOURS:
        carrier.derive((*kept, "job", "timeout"), f"{hours}h", place / "sizeGiB")
        carrier.book.note(
            place / "sizeGiB",
            f"the download may take {hours}h ({_GIB_AN_HOUR} GiB an hour); theirs has no limit",
        )
    for key, value in (("warmUp", True), ("mountModel", True), ("readOnly", False)):
        carrier.imply((*kept, key), value, at)
    carrier.origin(kept, document.at("spec"))
    name = _path_as_name(carrier)
    if name is not None:
        carrier.imply((*_MODEL, "name"), name, at)
        carrier.book.note(at, f"no engine names the model: requests ask for {name}")
    carry_cluster(carrier, cache.spec.cluster_selector, spec / "clusterSelector")


def say_users(book: Book, caches: Caches) -> None:
    """Says what is to be said of caches that no deployment, or more than one, refers to."""
    for document, cache in caches.read.values():
        users = caches.users.get(document, 0)
        if not users and cache is not None:
            book.lost(
                document.at("spec"),
                "no ModelDeployment of this input refers to it; give both in one input, or "
                "remove it",
            )
        elif users > 1:
            book.note(
                document.at("spec", "huggingFace", "sizeGiB"),
                f"each of {users} services keeps a copy of its own; let them share a claim with "
                "model.cache.claimName",
            )


def _engines(carrier: Carrier) -> Iterator[Mapping[str, Any]]:
    for role in carrier.roles:
        for key in ("template", "leaderTemplate"):
            containers = ((role.get(key) or {}).get("spec") or {}).get("containers")
            if isinstance(containers, list):
                yield from (each for each in containers if isinstance(each, Mapping))


def _path_as_name(carrier: Carrier) -> str | None:
    """What engines call a model of which they are told nothing but the path."""
    commands = [read_command(container) for container in _engines(carrier)]
    if any(
        has_flag(split_joined_flags(each.arguments), "--served-model-name") for each in commands
    ):
        return None
    paths = {model_argument(each) or MOUNT_PATH for each in commands}
    return paths.pop() if len(paths) == 1 else None
