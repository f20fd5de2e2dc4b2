"""Finds configs in a service's namespace that replace KServe's presets by their names.

KServe looks up each preset by name, first in the service's namespace, then in its own. It merges
the presets, then the baseRefs, then the service (combineBaseRefsConfig and getConfig in
pkg/controller/v1alpha2/llmisvc/config_merge.go).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kserve._nodes import Node, set_fields
from fusioninfer_importers.kserve.container import name_preset, name_serving_preset
from fusioninfer_importers.kserve.picker_sidecars import (
    LATENCY_PREDICTOR,
    TOKENIZER,
    uses_latency_predictor,
    uses_tokenizer,
)
from fusioninfer_importers.kserve.router import get_pool_ref
from fusioninfer_importers.kserve.scheduler import SCHEDULER, Objects, read_plugins
from fusioninfer_pulumi.plugins.importers import SourceDocument

#: Prefix of the presets' names.
PREFIX = "kserve-config-llm-"
_ROUTE, _TRACING = "router-route", "tracing"
#: Prefix of the annotations in a service's status that name the presets of its KServe release.
_PINNED_NAME_PREFIX = "serving.kserve.io/config-llm-"
#: First 16 hex digits of the SHA-256 of each script in KServe's presets (commit aaac4e29).
#: Containers with these scripts get a generated command.
_SCRIPTS = {
    "db387ee6f25daa79",
    "d55cd77257cf9433",
    "e776b1807d99f91e",
    "ecfca7a4da4d70a8",
    "44310bf26837c043",
    "5c65cf69a1d947bd",
    "61c662f0dbb7543f",
    "fde041094d89d8e0",
    "4426e99c6ad43596",
}
#: Names (without the prefix) of presets that configs in a service's namespace replace, each with
#: whether the service's containers still run KServe's script.
ReplacedPresets = Mapping[str, bool]


def _list_presets(spec: Node) -> Iterator[str]:
    """Yield the names of a service's presets without the prefix, in merge order."""
    scheduler = spec.get("router", "scheduler")
    plugins = [] if scheduler is None else read_plugins(scheduler)
    if scheduler is not None and get_pool_ref(spec) is None:
        yield SCHEDULER
    if scheduler is not None and uses_tokenizer(scheduler, plugins):
        yield TOKENIZER
    if uses_latency_predictor(plugins):
        yield LATENCY_PREDICTOR
    route = spec.get("router", "route")
    if route is not None and route.get("http", "refs") is None:
        yield _ROUTE
    if spec.get("tracing") is not None:
        yield _TRACING
    prefill = spec.get("prefill")
    if prefill is not None:
        yield name_preset(prefill, "prefill")
    yield name_serving_preset(spec)


def find_presets(
    document: SourceDocument, spec: Node, configs: Objects
) -> dict[str, SourceDocument]:
    """Return the configs in the service's namespace that replace presets, in merge order.

    Args:
        document: The service.
        spec: Its spec, merged with its baseRefs.
        configs: The input's configs by namespace and name.
    """
    presets: dict[str, SourceDocument] = {}
    for preset in _list_presets(spec):
        pinned_name = document.at("status", "annotations", f"{_PINNED_NAME_PREFIX}{preset}").value
        # KServe does not pin the route's preset.
        name = f"{PREFIX}{preset}" if preset == _ROUTE or not pinned_name else str(pinned_name)
        config = configs.get((document.namespace, name))
        if config is not None:
            presets[preset] = config
    return presets


def has_script(spec: Node, preset: str) -> bool:
    """Return whether a container of the preset's workload runs KServe's script."""
    workload = (spec.get("prefill") or spec) if preset.startswith("prefill-") else spec
    pods = [pod for field in ("template", "worker") if (pod := workload.get(field)) is not None]
    leaves = (entry for pod in pods for entry in pod.leaves())
    return any("command" in path and _is_script(leaf) for path, leaf in leaves)


def drop_scripts(report: ConversionReport, workload: Node) -> Node:
    """Return a spec without the scripts of KServe's presets; a command is generated instead."""
    fields = {
        field: _drop_script(report, pod)
        for field in ("template", "worker")
        if (pod := workload.get(field)) is not None
    }
    prefill = workload.get("prefill")
    if prefill is not None:
        fields["prefill"] = drop_scripts(report, prefill)
    return set_fields(workload, **fields) if fields else workload


def _drop_script(report: ConversionReport, pod: Node) -> Node:
    entries = pod.get("containers")
    if entries is None or not isinstance(entries.content, list):
        return pod
    items = []
    for container in entries.items:
        command = container.get("command")
        words = command.items if command is not None else []
        if any(map(_is_script, words)):
            report.consume(*(word.field for word in words))
            items.append(set_fields(container, command=None))
        else:
            items.append(container)
    return set_fields(pod, containers=Node(entries.field, items))


def _is_script(word: Node) -> bool:
    return hashlib.sha256(str(word.content).encode()).hexdigest()[:16] in _SCRIPTS
