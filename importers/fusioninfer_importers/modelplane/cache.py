"""Converts a ModelCache that a deployment refers to: a model with a warm-up Job.

Modelplane creates one volume in each cluster (`ReadWriteMany`). A Job downloads the model to the
volume's root once. The volume is mounted read-write at `/mnt/models` in every pod. vLLM without a
command gets `--model=/mnt/models`, unless its arguments name a model; every other command must name
the path (functions/compose-model-cache, compose-model-replica/function/backends/base.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_importers.conversion import ConversionReport, ServiceBuilder
from fusioninfer_importers.model import validate
from fusioninfer_importers.modelplane.clusters import convert_cluster
from fusioninfer_importers.modelplane.models import ModelCache, ModelCacheRef
from fusioninfer_importers.objects import consume_envelope
from fusioninfer_importers.rules import REFERENCE_MISSING
from fusioninfer_pulumi.plugins.importers import SourceDocument, SourceField, parse_command

MOUNT_PATH = "/mnt/models"
_MODEL = ("spec", "model")
#: The warm-up Job's default timeout, and the download speed that larger models' timeouts assume.
#: Modelplane's Job has no timeout.
_DEFAULT_HOURS, _GIB_PER_HOUR = 2, 100


@dataclass
class Caches:
    """The ModelCaches of an input.

    Attributes:
        by_name: Documents and caches by namespace and name; the cache is None if rejected.
        users: Number of deployments that refer to a ModelCache, by its document.
    """

    by_name: Mapping[tuple[Any, Any], tuple[SourceDocument, ModelCache | None]]
    users: dict[SourceDocument, int] = field(default_factory=dict)


def read_caches(report: ConversionReport, documents: Sequence[SourceDocument]) -> Caches:
    """Validate the ModelCaches of an input."""
    caches = {}
    for document in documents:
        if document.kind == "ModelCache":
            cache = validate(report, document, ModelCache)
            if cache is not None:
                consume_envelope(report, document)
            caches[document.namespace, document.name] = (document, cache)
    return Caches(caches)


def convert_cache(
    builder: ServiceBuilder, reference: ModelCacheRef | None, field: SourceField, caches: Caches
) -> None:
    """Convert the ModelCache that a deployment refers to."""
    if reference is None:
        return
    namespace = builder.main.namespace
    document, cache = caches.by_name.get((namespace, reference.name), (None, None))
    if document is None:
        builder.report.unsupported(
            field,
            f"ModelCache {reference.name} of namespace {namespace} is not in this input; add it "
            "as a document, or set the service's model",
            REFERENCE_MISSING,
        )
        return
    builder.report.consume(field / "name")
    if cache is None:
        return
    caches.users[document] = caches.users.get(document, 0) + 1
    spec = document.at("spec")
    builder.report.consume(spec / "source")
    hub, subfield = cache.spec.hugging_face, spec / "huggingFace"
    if hub is None:
        builder.report.invalid(subfield, "is required when source is HuggingFace")
        return
    revision = f"@{hub.revision}" if hub.revision else ""
    builder.derive(
        (*_MODEL, "uri"), f"hf://{hub.repo}{revision}", subfield / "repo", subfield / "revision"
    )
    if hub.auth_secret is not None:
        secret, secret_field = (*_MODEL, "tokenSecret"), subfield / "authSecret"
        builder.copy((*secret, "name"), hub.auth_secret.name, secret_field / "name")
        builder.copy((*secret, "key"), hub.auth_secret.key, secret_field / "key")
    builder.default((*_MODEL, "mountPath"), MOUNT_PATH, field)
    cache_target = (*_MODEL, "cache")
    builder.derive((*cache_target, "storage", "size"), f"{hub.size_gib}Gi", subfield / "sizeGiB")
    hours = math.ceil(hub.size_gib / _GIB_PER_HOUR)
    if hours > _DEFAULT_HOURS:
        builder.derive((*cache_target, "job", "timeout"), f"{hours}h", subfield / "sizeGiB")
        builder.report.chosen(
            subfield / "sizeGiB",
            f"the warm-up Job's timeout is {hours}h ({_GIB_PER_HOUR} GiB per hour); Modelplane's "
            "has none",
        )
    for key, value in (("warmUp", True), ("mountModel", True), ("readOnly", False)):
        builder.default((*cache_target, key), value, field)
    builder.set_origin(cache_target, document.at("spec"))
    name = _choose_model_name(builder)
    if name is not None:
        builder.default((*_MODEL, "name"), name, field)
        builder.report.chosen(field, f"no engine sets a served model name; requests use {name}")
    convert_cluster(builder, cache.spec.cluster_selector, spec / "clusterSelector")


def check_cache_users(report: ConversionReport, caches: Caches) -> None:
    """Report caches that no deployment uses, or several do."""
    for document, cache in caches.by_name.values():
        users = caches.users.get(document, 0)
        if not users and cache is not None:
            report.unsupported(
                document.at("spec"),
                "no ModelDeployment of this input refers to it; pass both together, or remove it",
            )
        elif users > 1:
            report.translated(
                document.at("spec", "huggingFace", "sizeGiB"),
                f"each of the {users} services gets its own volume and copy",
            )


def _find_engines(builder: ServiceBuilder) -> Iterator[Mapping[str, Any]]:
    for role in builder.roles:
        for key in ("template", "leaderTemplate"):
            containers = ((role.get(key) or {}).get("spec") or {}).get("containers")
            if isinstance(containers, list):
                yield from (container for container in containers if isinstance(container, Mapping))


def _choose_model_name(builder: ServiceBuilder) -> str | None:
    """Return the model's path as its name, or None if engines set a name or differ in the path."""
    commands = [parse_command(container) for container in _find_engines(builder)]
    if any(command.has("--served-model-name") for command in commands):
        return None
    paths = {command.model or MOUNT_PATH for command in commands}
    return paths.pop() if len(paths) == 1 else None
