"""Converts a ModelDeployment: released (0.2 and later), early (0.1), or proposed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, get_args

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.gang import GANG_MODE, NO_GANG, VOLCANO, convert_queue
from fusioninfer_importers.modelplane.cache import Caches, convert_cache
from fusioninfer_importers.modelplane.clusters import convert_cluster, convert_tolerations
from fusioninfer_importers.modelplane.models import (
    EarlySpec,
    Engine,
    Member,
    NodeSelector,
    Phase,
    ProposedSpec,
    ReleasedSpec,
    Replica,
    Routing,
    Template,
    Workers,
)
from fusioninfer_importers.modelplane.pods import (
    TYPES,
    convert_devices,
    convert_replicas,
    convert_template,
    report_reserved,
)
from fusioninfer_importers.modelplane.services import add_router
from fusioninfer_importers.objects import copy_metadata
from fusioninfer_pulumi.plugins.importers import Location, SourceField

PREFIX = "modelplane.ai/"
WORKER = "worker"
_EPP = "epp"
#: Fields of the endpoint picker's container that are fields of `endpointPicker`.
_PICKER_FIELDS = ("image", "args", "resources")


def convert_released(builder: ServiceBuilder, spec: ReleasedSpec, caches: Caches) -> None:
    """Convert a deployment of 0.2 or later."""
    copy_metadata(builder, builder.main)
    field = builder.main.at("spec", "template")
    labels = (spec.template.metadata.labels if spec.template.metadata else None) or {}
    if not labels:
        builder.report.consume(field / "metadata")
    for key, value in labels.items():
        subfield = field / "metadata" / "labels" / key
        target = ("metadata", "labels", key)
        present = builder.get(target)
        if key.startswith(PREFIX):
            report_reserved(builder.report, subfield)
        elif present not in (None, value):
            builder.report.unsupported(
                subfield,
                f"conflicts with {present} in metadata.labels; a service has one set of labels",
            )
        else:
            builder.copy(target, value, subfield)
    _convert_replica(builder, spec.template.spec, field / "spec", spec.replicas, caches)


def convert_early(builder: ServiceBuilder, spec: EarlySpec, caches: Caches) -> None:
    """Convert a deployment of 0.1."""
    copy_metadata(builder, builder.main)
    _convert_replica(builder, spec, builder.main.at("spec"), spec.replicas, caches)


def _convert_replica(
    builder: ServiceBuilder, replica: Replica, field: SourceField, replicas: int, caches: Caches
) -> None:
    """Convert the fields of one replica, and the number of replicas."""
    report = builder.report
    mode = replica.serving.mode if replica.serving is not None else "Unified"
    is_pd = mode == "PrefillDecode"
    report.consume(field / "serving" / "mode")
    _check_phases(builder, replica, field, is_pd=is_pd)
    builder.set_origin(("spec", "roles"), field / "engines")
    for index, engine in enumerate(replica.engines):
        convert_engine(builder, engine, field / "engines" / index, is_pd=is_pd)
    templates = [member.template for engine in replica.engines for member in engine.members]
    is_multi_pod = any(len(engine.members) > 1 for engine in replica.engines)
    _convert_gang(builder, templates, field / "engines", needs_gang=is_pd or is_multi_pod)
    if is_pd:
        add_router(builder, field / "serving", is_pd=True)
    report.translated(
        field / "engines",
        "pods are not pinned to a node pool (modelplane.ai/pool); their device claims select the "
        "nodes, and pods without a claim run on any node",
    )
    convert_replicas(builder, replicas)
    convert_cluster(builder, replica.cluster_selector, field / "clusterSelector")
    convert_tolerations(builder, replica.tolerations, field / "tolerations")
    convert_cache(builder, replica.model_cache_ref, field / "modelCacheRef", caches)


def _convert_gang(
    builder: ServiceBuilder, templates: Sequence[Template], field: SourceField, *, needs_gang: bool
) -> None:
    """Disable our default, gang scheduling, unless the pods use Volcano or Kueue."""
    if convert_queue(builder):
        return
    if needs_gang and all(template.spec.get("schedulerName") != VOLCANO for template in templates):
        builder.default(GANG_MODE, "Off", field)
        builder.report.chosen(field, NO_GANG)


def _check_phases(
    builder: ServiceBuilder, replica: Replica, field: SourceField, *, is_pd: bool
) -> None:
    report, phases = builder.report, [engine.phase for engine in replica.engines]
    if not is_pd:
        for index, phase in enumerate(phases):
            if phase is not None:
                report.invalid(
                    field / "engines" / index / "phase", "needs serving.mode PrefillDecode"
                )
        return
    if len(phases) != 2:
        report.invalid(
            field / "engines",
            f"serving.mode PrefillDecode needs two engines, one of phase Prefill and one of phase "
            f"Decode, got {len(phases)}",
        )
        return
    missing = [phase for phase in get_args(Phase) if phase not in phases]
    if missing:
        report.invalid(
            field / "engines",
            f"serving.mode PrefillDecode needs an engine of phase {' and one of '.join(missing)}",
        )


def convert_engine(
    builder: ServiceBuilder, engine: Engine, field: SourceField, *, is_pd: bool
) -> None:
    """Convert an engine to a role; `is_pd` says that prefill and decode are separate engines."""
    report = builder.report
    target = builder.add_role(field)
    builder.copy((*target, "name"), engine.name, field / "name")
    kind = TYPES[engine.phase] if is_pd and engine.phase is not None else WORKER
    builder.derive((*target, "componentType"), kind, field / "phase")
    if engine.copies is not None:
        builder.copy((*target, "replicas"), engine.copies, field / "copies")
    if is_pd:
        if engine.copies is None:
            builder.default((*target, "replicas"), 1, field)
            report.chosen(
                field / "copies", "not set; assuming 1, which also sets the share of prefill"
            )
        # Modelplane adds no engine arguments: unless the user does, decode computes prompts again.
        texts = str([member.template.spec for member in engine.members])
        has_transfer = re.search("kv[-_]transfer|disaggregation-mode", texts) is not None
        settings = {} if has_transfer else {"enabled": False}
        builder.default((*target, "kvTransfer"), settings, field / "phase")
    for index, member in enumerate(engine.members):
        _convert_member(
            builder, target, member, field / "members" / index, is_multi_pod=len(engine.members) > 1
        )
    convert_devices(
        builder,
        target,
        [
            (member.node_selector, field / "members" / index / "nodeSelector")
            for index, member in enumerate(engine.members)
        ],
    )
    _check_members(builder, engine, field)


def _convert_member(
    builder: ServiceBuilder,
    target: Location,
    member: Member,
    source_field: SourceField,
    *,
    is_multi_pod: bool,
) -> None:
    builder.report.consume(source_field / "role")
    field = "template"
    if is_multi_pod:
        field = "workerTemplate" if member.role == "Worker" else "leaderTemplate"
    convert_template(
        builder,
        (*target, field),
        member.template,
        source_field / "template",
        is_multi_pod=is_multi_pod,
        is_serving=member.role != "Worker",
    )
    if member.role == "Worker":
        nodes = member.worker.nodes if member.worker is not None else 1
        builder.derive(
            (*target, "multinode", "nodeCount"), 1 + nodes, source_field / "worker" / "nodes"
        )
        # The members' commands connect the pods.
        builder.default((*target, "multinode", "launcher"), "none", source_field)
    elif member.worker is not None:
        builder.report.invalid(source_field / "worker", "is valid only for a member of role Worker")


def _check_members(builder: ServiceBuilder, engine: Engine, field: SourceField) -> None:
    roles = {member.role for member in engine.members}
    is_standalone = len(engine.members) == 1 and "Standalone" in roles
    if not is_standalone and roles != {"Leader", "Worker"}:
        builder.report.invalid(
            field / "members",
            "must be one Standalone member, or a Leader and a Worker, got "
            + ", ".join(member.role for member in engine.members),
        )
    if all(member.node_selector is None for member in engine.members):
        builder.report.invalid(
            field / "members", "at least one member must have a nodeSelector that requests devices"
        )


def convert_proposed(builder: ServiceBuilder, spec: ProposedSpec, caches: Caches) -> None:
    """Convert a deployment of the disaggregation proposal (workers, prefill, routing)."""
    field, report = builder.main.at("spec"), builder.report
    copy_metadata(builder, builder.main)
    is_pd = spec.prefill is not None
    builder.set_origin(("spec", "roles"), field)
    groups = [spec.workers, *([spec.prefill.workers] if spec.prefill is not None else [])]
    needs_gang = is_pd or any((group.topology.pipeline or 1) > 1 for group in groups)
    if spec.prefill is not None:
        subfield = field / "prefill"
        workers, devices = spec.prefill.workers, spec.prefill.node_selector
        _convert_workers(builder, "prefill", "prefiller", workers, subfield / "workers")
        _convert_last_role_devices(builder, devices, subfield / "nodeSelector")
        _check_required_fields(builder, spec)
    kind = "decoder" if is_pd else "worker"
    name = "decode" if is_pd else "workers"
    _convert_workers(builder, name, kind, spec.workers, field / "workers")
    _convert_last_role_devices(builder, spec.node_selector, field / "nodeSelector")
    templates = [group.template for group in groups]
    _convert_gang(builder, templates, field / "workers", needs_gang=needs_gang)
    if spec.routing is not None and is_pd:
        _convert_router(builder, spec.routing, field / "routing")
    elif spec.routing is not None:
        report.left_out(field / "routing", "has no effect without prefill; ignored")
    convert_replicas(builder, spec.replicas)
    convert_cluster(builder, spec.cluster_selector, field / "clusterSelector")
    convert_cache(builder, spec.model_cache_ref, field / "modelCacheRef", caches)
    if spec.model:
        report.unsupported(field / "model", "name the model in the engine's arguments")
    elif spec.model is not None:
        report.left_out(field / "model", "has no effect; the engine's arguments name the model")


def _check_required_fields(builder: ServiceBuilder, spec: ProposedSpec) -> None:
    """Report missing fields that are required with prefill: both counts, and the routing."""
    field, report = builder.main.at("spec"), builder.report
    message = "is required with prefill, because the ratio of prefill to decode has no default"
    if spec.workers.count is None:
        report.invalid(field / "workers" / "count", message)
    if spec.prefill is not None and spec.prefill.workers.count is None:
        report.invalid(field / "prefill" / "workers" / "count", message)
    if spec.routing is None:
        report.invalid(
            field / "routing",
            "is required with prefill, because an endpoint picker pairs prefill and decode",
        )


def _convert_workers(
    builder: ServiceBuilder, name: str, kind: str, workers: Workers, field: SourceField
) -> None:
    target = builder.add_role(field, name, kind)
    if workers.count is not None:
        builder.copy((*target, "replicas"), workers.count, field / "count")
    if kind != "worker":
        builder.default((*target, "kvTransfer"), {}, field)
    topology, subfield = workers.topology, field / "topology"
    nodes = topology.pipeline or 1
    convert_template(
        builder, (*target, "template"), workers.template, field / "template", is_multi_pod=nodes > 1
    )
    if _has_command(workers):
        # The proposal adds no arguments to a command: every node runs it unchanged.
        builder.report.translated(
            subfield / "tensor", "has no effect on a container with a command; ignored"
        )
        if topology.pipeline is not None:
            builder.derive((*target, "multinode", "nodeCount"), nodes, subfield / "pipeline")
            builder.default((*target, "multinode", "launcher"), "none", subfield)
        return
    builder.copy_fields((*target, "parallelism"), subfield, "tensor", "pipeline")


def _has_command(workers: Workers) -> bool:
    containers: Any = workers.template.spec.get("containers")
    return isinstance(containers, list) and any(
        isinstance(container, dict) and container.get("command") for container in containers
    )


def _convert_last_role_devices(
    builder: ServiceBuilder, selector: NodeSelector | None, field: SourceField
) -> None:
    target = ("spec", "roles", len(builder.roles) - 1)
    convert_devices(builder, target, [(selector, field)])


def _convert_router(builder: ServiceBuilder, routing: Routing, field: SourceField) -> None:
    target = builder.add_role(field, "router", "router")
    builder.report.consume(field)
    if routing.template is None:
        return
    template_field = field / "template"
    picker = (*target, "endpointPicker")
    spec = dict(routing.template.spec or {})
    containers = spec.get("containers")
    kept: list[Any] = []
    for index, container in enumerate(containers if isinstance(containers, list) else ()):
        subfield = template_field / "spec" / "containers" / index
        if not isinstance(container, dict) or container.get("name") != _EPP:
            kept.append(container)
            continue
        builder.copy_fields(picker, subfield, *_PICKER_FIELDS)
        rest = {key: value for key, value in container.items() if key not in _PICKER_FIELDS}
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
        builder.derive((*picker, "template"), template, template_field)
