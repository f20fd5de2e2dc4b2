"""The ModelDeployment of the disaggregation proposal: workers, prefill, routing."""

from __future__ import annotations

from typing import Any

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At
from fusioninfer_pulumi.importers.metadata import carry_metadata
from fusioninfer_pulumi.importers.modelplane.cache import Caches, carry_cache
from fusioninfer_pulumi.importers.modelplane.clusters import carry_cluster
from fusioninfer_pulumi.importers.modelplane.devices import carry_devices
from fusioninfer_pulumi.importers.modelplane.models import (
    NodeSelector,
    ProposedSpec,
    Routing,
    Workers,
)
from fusioninfer_pulumi.importers.modelplane.shared import carry_replicas, carry_template

_EPP = "epp"


def carry_proposed(carrier: Carrier, spec: ProposedSpec, caches: Caches) -> None:
    """Carries a deployment of the proposal over.

    Args:
        carrier: The service that stands for it.
        spec: Its spec.
        caches: The ModelCaches of the input.
    """
    at, book = carrier.main.at("spec"), carrier.book
    carry_metadata(carrier, carrier.main)
    pairs = spec.prefill is not None
    carrier.origin(("spec", "roles"), at)
    if spec.prefill is not None:
        place = at / "prefill"
        workers, devices = spec.prefill.workers, spec.prefill.node_selector
        _workers(carrier, "prefill", "prefiller", workers, place / "workers")
        _devices(carrier, devices, place / "nodeSelector")
        _stated(carrier, spec)
    kind = "decoder" if pairs else "worker"
    name = "decode" if pairs else "workers"
    _workers(carrier, name, kind, spec.workers, at / "workers")
    _devices(carrier, spec.node_selector, at / "nodeSelector")
    if spec.routing is not None and pairs:
        _router(carrier, spec.routing, at / "routing")
    elif spec.routing is not None:
        book.note(at / "routing", "has no effect without prefill; left out")
    carry_replicas(carrier, spec.replicas)
    carry_cluster(carrier, spec.cluster_selector, at / "clusterSelector")
    carry_cache(carrier, spec.model_cache_ref, at / "modelCacheRef", caches)
    if spec.model:
        book.lost(at / "model", "name the model in the engine's arguments")
    elif spec.model is not None:
        book.note(at / "model", "says nothing; the engine's arguments name the model")


def _stated(carrier: Carrier, spec: ProposedSpec) -> None:
    """With prefill nothing is guessed: both counts and the routing are stated."""
    at, book = carrier.main.at("spec"), carrier.book
    wanted = "is required with prefill: the ratio of prefill to decode is stated, not guessed"
    if spec.workers.count is None:
        book.refuse(at / "workers" / "count", wanted)
    if spec.prefill is not None and spec.prefill.workers.count is None:
        book.refuse(at / "prefill" / "workers" / "count", wanted)
    if spec.routing is None:
        book.refuse(at / "routing", "is required with prefill: the endpoint picker that pairs them")


def _workers(carrier: Carrier, name: str, kind: str, workers: Workers, at: At) -> None:
    target = carrier.role(at)
    carrier.imply((*target, "name"), name, at)
    carrier.imply((*target, "componentType"), kind, at)
    if workers.count is not None:
        carrier.put((*target, "replicas"), workers.count, at / "count")
    if kind != "worker":
        carrier.imply((*target, "kvTransfer"), {}, at)
    topology, place = workers.topology, at / "topology"
    nodes = topology.pipeline or 1
    carry_template(
        carrier, (*target, "template"), workers.template, at / "template", gang=nodes > 1
    )
    if _has_command(workers):
        # The proposal adds no arguments to a command: it runs as it is written on every node.
        carrier.book.note(
            place / "tensor", "adds no argument to a command; left out, the command says it"
        )
        if topology.pipeline is not None:
            carrier.derive((*target, "multinode", "nodeCount"), nodes, place / "pipeline")
            carrier.imply((*target, "multinode", "launcher"), "none", place)
        return
    for key, size in (("tensor", topology.tensor), ("pipeline", topology.pipeline)):
        if size is not None:
            carrier.put((*target, "parallelism", key), size, place / key)


def _has_command(workers: Workers) -> bool:
    containers: Any = workers.template.spec.get("containers")
    return isinstance(containers, list) and any(
        isinstance(each, dict) and each.get("command") for each in containers
    )


def _devices(carrier: Carrier, selector: NodeSelector | None, at: At) -> None:
    target = ("spec", "roles", len(carrier.roles) - 1)
    carry_devices(carrier, target, [(selector, at)])


def _router(carrier: Carrier, routing: Routing, at: At) -> None:
    target = carrier.role(at)
    carrier.imply((*target, "name"), "router", at)
    carrier.imply((*target, "componentType"), "router", at)
    carrier.book.read(at)
    if routing.template is None:
        return
    here = at / "template"
    picker = (*target, "endpointPicker")
    spec = dict(routing.template.spec or {})
    containers = spec.get("containers")
    kept: list[Any] = []
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        place = here / "spec" / "containers" / index
        if not isinstance(container, dict) or container.get("name") != _EPP:
            kept.append(container)
            continue
        for key in ("image", "args", "resources"):
            if container.get(key) is not None:
                carrier.put((*picker, key), container[key], place / key)
        rest = {
            key: value
            for key, value in container.items()
            if key not in ("image", "args", "resources")
        }
        if set(rest) > {"name"}:
            kept.append(rest)
    if isinstance(containers, list):
        spec.pop("containers")
        if kept:
            spec["containers"] = kept
    template: dict[str, Any] = {}
    if routing.template.metadata:
        template["metadata"] = routing.template.metadata
    if spec:
        template["spec"] = spec
    if template:
        carrier.derive((*picker, "template"), template, here)
