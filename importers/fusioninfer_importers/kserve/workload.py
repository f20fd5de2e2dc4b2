"""Converts the main and the prefill workload to roles."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_importers.kserve._nodes import Node, copy_fields, copy_node, make_node
from fusioninfer_importers.kserve.container import (
    MAIN,
    PORT,
    Preset,
    is_other_program,
    merge_preset,
    name_preset,
)
from fusioninfer_importers.kserve.presets import ReplacedPresets
from fusioninfer_importers.kserve.router import MODEL_ROUTING
from fusioninfer_importers.kserve.scaling import convert_scaling, find_stop_annotation
from fusioninfer_importers.kserve.sidecar import convert_sidecar
from fusioninfer_importers.rules import FIELD_INVALID
from fusioninfer_pulumi.plugins.importers import (
    PORT_FLAG,
    EngineCommand,
    Location,
    SourceField,
    get_flag_value,
    is_output,
    labels,
    parse_command,
    parse_integer,
)

#: The startup probe of KServe's presets: 60 times, every 10 seconds.
STARTUP_TIMEOUT = "10m"
_PARALLELISM_FIELDS = ("tensor", "pipeline", "data", "dataLocal", "dataRPCPort", "expert")
#: Prefix of the annotations that request devices, and the name of the claim that KServe creates
#: from them (pkg/controller/v1alpha2/llmisvc/managed_dra.go).
DEVICE_PREFIX = "serving.kserve.io/exp-dra-"
CLAIM = "managed-device"
_KUEUE, _LOCAL_MODEL = "kueue.x-k8s.io", "internal.serving.kserve.io/localmodel"
#: Prefixes of the keys in the service's metadata that KServe copies to its pods
#: (propagateDeploymentMetadata, propagateTopLevelLeaderWorkerSetMetadata of its controller).
_PROPAGATED_PREFIXES = {
    "labels": (_KUEUE, _LOCAL_MODEL),
    "annotations": ("k8s.v1.cni.cncf.io", _KUEUE, "prometheus.io", _LOCAL_MODEL),
}
#: Prefix of annotations that KServe also copies if a replica has several pods.
_LWS_PREFIX = "leaderworkerset.sigs.k8s.io"


def convert_workload(
    builder: ServiceBuilder,
    workload: Node,
    name: str,
    component_type: str,
    model_arguments: tuple[str, ...],
    replaced: ReplacedPresets,
) -> None:
    """Convert a workload to a role.

    Args:
        builder: The service.
        workload: The workload's block of the service.
        name: Name of the role: main, prefill or decode.
        component_type: Its component type.
        model_arguments: Arguments of the presets' command that name the model.
        replaced: Presets that the service's namespace replaces.
    """
    target = builder.add_role(workload.field, name, component_type)
    replicas = workload.get("replicas")
    if replicas is not None and find_stop_annotation(builder.main) is not None:
        builder.report.left_out(replicas.field, "is 0 because the service is stopped")
    elif replicas is not None:
        copy_node(builder, (*target, "replicas"), replicas)
    if component_type != "worker" and not _has_kv_transfer(workload):
        # KServe's sidecar sends prompts to prefill pods anyway, but the engines ignore the results.
        builder.default((*target, "kvTransfer"), {"enabled": False}, workload.field)
    if component_type == "decoder":
        _set_decode_port(builder, target, workload)
        workload = convert_sidecar(builder, target, workload)
    pods = _convert_parallelism(builder, target, workload)
    preset_name = name_preset(workload, name)
    preset = Preset(
        is_multi_pod=pods > 1,
        has_ranks=pods > 1 and workload.get("parallelism", "data") is not None,
        is_leader=True,
        has_sidecar=component_type == "decoder",
        has_offloading=workload.get("kvCacheOffloading") is not None,
        model_arguments=model_arguments,
        is_replaced=preset_name in replaced,
        has_script=replaced.get(preset_name, True),
    )
    _convert_templates(builder, target, workload, pods, preset)
    _convert_rollout(builder, target, workload)
    convert_scaling(builder, target, workload)
    convert_offloading(builder, target, workload)


def _set_decode_port(builder: ServiceBuilder, target: Location, workload: Node) -> None:
    """Set `enginePort` from `--port` if a decode pod runs neither vLLM nor SGLang."""
    command = _find_other_program(workload.get("template"))
    port = (
        None if command is None else parse_integer(get_flag_value(command.argv.texts(), PORT_FLAG))
    )
    if port not in (None, PORT):
        settings = {"enabled": False, "enginePort": port}
        builder.default((*target, "kvTransfer"), settings, workload.field)


def _find_other_program(pod: Node | None) -> EngineCommand | None:
    """Return the command of `main` if it is readable and starts neither vLLM nor SGLang."""
    for main in _find_main(pod):
        if main.get("command") is not None:
            command = parse_command(main.value)
            return command if command.engine is None and command.is_readable else None
    return None


def _has_kv_transfer(workload: Node) -> bool:
    """Return whether the pods configure KV cache transfer, or may do so in their own command."""
    pods = (workload.get("template"), workload.get("worker"))
    texts = [str(leaf.content) for pod in pods if pod is not None for _, leaf in pod.leaves()]
    has_command = any(map(_has_main_command, pods))
    return has_command or any(re.search("kv[-_]transfer", text) for text in texts)


def _convert_parallelism(builder: ServiceBuilder, target: Location, workload: Node) -> int:
    """Copy and check the sizes; return the number of pods of one replica."""
    block, worker = workload.get("parallelism"), workload.get("worker")
    sizes = block.value if block is not None else {}
    data, local, pipeline = (sizes.get(key) for key in ("data", "dataLocal", "pipeline"))
    field = block.field if block is not None else workload.field
    error = builder.report.error
    if pipeline is not None and (data is not None or local is not None):
        error(
            FIELD_INVALID,
            field,
            "cannot set both pipeline and data parallelism (data or dataLocal)",
        )
    elif data is not None and local is None:
        error(FIELD_INVALID, field, "dataLocal must be set when data is set")
    elif local is not None and data is None:
        error(FIELD_INVALID, field, "data must be set when dataLocal is set")
    elif worker is not None and data is None and pipeline is None:
        error(
            FIELD_INVALID,
            worker.field,
            "when worker is specified, parallelism must be configured for either data "
            "parallelism or pipeline parallelism",
        )
    if block is not None and _has_main_command(workload.get("template")):
        builder.report.translated(
            block.field,
            "sets only the number of pods of a replica; the container's command connects them",
        )
        builder.report.consume(*(leaf.field for _, leaf in block.leaves()))
    elif block is not None:
        copy_fields(builder, (*target, "parallelism"), block, *_PARALLELISM_FIELDS)
    pods = max(data // local, 1) if data and local else (pipeline or 1)
    if worker is None and pods > 1:
        error(FIELD_INVALID, field, f"a replica has {pods} pods, but worker is not set")
    return int(pods)


def _convert_templates(
    builder: ServiceBuilder, target: Location, workload: Node, pods: int, preset: Preset
) -> None:
    report = builder.report
    template, block = workload.get("template"), workload.get("parallelism")
    leader_pod = merge_preset(
        report, template if template is not None else make_node(workload.field, {}), preset
    )
    if not any(
        main.get("startupProbe") is not None or is_other_program(main)
        for main in _find_main(template)
    ):
        builder.default((*target, "startup", "timeout"), STARTUP_TIMEOUT, workload.field)
    worker = workload.get("worker")
    if worker is not None and pods == 1:
        report.left_out(worker.field, "has no effect, because a replica is one pod; ignored")
        worker = None
    if worker is None:
        _copy_template(builder, (*target, "template"), leader_pod, workload)
        return
    field = block.field if block is not None else workload.field
    builder.derive((*target, "multinode", "nodeCount"), pods, field)
    launcher = "data-parallel" if preset.has_ranks else "multiprocessing"
    if _has_main_command(template):
        launcher = "none"
    builder.derive((*target, "multinode", "launcher"), launcher, field)
    _copy_template(builder, (*target, "leaderTemplate"), leader_pod, workload)
    worker_pod = merge_preset(report, worker, replace(preset, is_leader=False))
    _copy_template(builder, (*target, "workerTemplate"), worker_pod, workload)


def _has_main_command(pod: Node | None) -> bool:
    """Return whether the user sets the command of the container `main`."""
    return any(main.get("command") is not None for main in _find_main(pod))


def _find_main(pod: Node | None) -> list[Node]:
    """Return the container `main` of a pod, if it has one."""
    containers = pod.list_at("containers") if pod is not None else []
    return [container for container in containers if container.text("name") == MAIN]


def _copy_template(builder: ServiceBuilder, target: Location, pod: Node, workload: Node) -> None:
    """Copy a pod spec, and the labels and annotations that KServe gives the pods."""
    copy_node(builder, (*target, "spec"), pod)
    is_multi_pod = target[-1] != "template"
    for field, prefixes in _PROPAGATED_PREFIXES.items():
        lws_prefixes = (_LWS_PREFIX,) if is_multi_pod and field == "annotations" else ()
        source_field = builder.main.at("metadata", field)
        for key, value in (builder.main.metadata.get(field) or {}).items():
            # Checks of the rendered objects reject other values.
            is_text = isinstance(value, str) or is_output(value)
            if field == "labels" and key == labels.KUEUE_QUEUE:
                continue  # the service's queue
            if is_text and str(key).startswith((*prefixes, *lws_prefixes)):
                builder.default((*target, "metadata", field, key), value, source_field / key)
        metadata = workload.get(field)
        if metadata is not None:
            _copy_metadata(builder, (*target, "metadata", field), metadata)


def _copy_metadata(builder: ServiceBuilder, target: Location, metadata: Node) -> None:
    """Copy a workload's labels or annotations, which take precedence over the service's."""
    if not isinstance(metadata.content, dict) or not metadata.content:
        builder.report.consume(metadata.field)
        return
    for key, node in metadata.content.items():
        if key == MODEL_ROUTING:
            builder.report.left_out(
                node.field, "set by KServe's presets; controls the header rule of the route"
            )
        else:
            copy_node(builder, (*target, key), node)


def _convert_rollout(builder: ServiceBuilder, target: Location, workload: Node) -> None:
    strategy = workload.get("rolloutStrategy")
    if strategy is None:
        return
    for key in ("maxUnavailable", "maxSurge"):
        field = strategy.get(key)
        if field is None:
            continue
        if field.content == "0%":
            builder.derive((*target, "rollout", key), 0, field.field)
        else:
            copy_node(builder, (*target, "rollout", key), field)
    surge = strategy.get("maxSurge")
    if surge is not None and surge.content not in (0, "0%"):
        # LeaderWorkerSets of one replica have no surge.
        builder.derive(("spec", "layout"), "PerRole", surge.field)


def convert_offloading(builder: ServiceBuilder, target: Location, workload: Node) -> None:
    """Convert the offloading of a workload's KV cache."""
    offloading = workload.get("kvCacheOffloading")
    if offloading is None:
        return
    offloading_target = (*target, "kvCacheOffloading")
    builder.set_origin(offloading_target, offloading.field)
    for key in ("cpu", "evictionPolicy"):
        field = offloading.get(key)
        if field is not None:
            _copy_quantity(builder, (*offloading_target, key), field)
    for index, tier in enumerate(offloading.list_at("secondary")):
        tier_target: Location = (*offloading_target, "secondary", index, "fileSystem")
        builder.set_origin(tier_target, tier.field / "fileSystem")
        size = tier.get("fileSystem", "emptyDir", "size")
        claim = tier.get("fileSystem", "pvc")
        if size is not None:
            _copy_quantity(builder, (*tier_target, "emptyDir", "size"), size)
        if claim is not None:
            copy_node(builder, (*tier_target, "pvc"), claim)
        if size is None and claim is None:
            copy_node(builder, tier_target, tier.get("fileSystem") or Node(tier.field, {}))
    if _has_main_command(workload.get("template")):
        builder.report.translated(
            offloading.field,
            "KServe applies it only to the preset's command; here it applies to the container's "
            "command too",
        )


def _copy_quantity(builder: ServiceBuilder, target: Location, field: Node) -> None:
    """Copy a quantity, which is a string in our manifests."""
    if isinstance(field.content, str):
        copy_node(builder, target, field)
    else:
        builder.derive(target, str(field.content), field.field)


def convert_devices(builder: ServiceBuilder) -> None:
    """Convert the annotations for dynamic resource allocation to a claim of every serving role."""
    settings = {
        key.removeprefix(DEVICE_PREFIX): value
        for key, value in (builder.main.metadata.get("annotations") or {}).items()
        if key.startswith(DEVICE_PREFIX)
    }
    if not settings:
        return

    def locate(name: str) -> SourceField:
        return builder.main.at("metadata", "annotations", f"{DEVICE_PREFIX}{name}")

    device_class = settings.pop("device-class", None)
    if device_class is None:
        for name in settings:
            message = f"has no effect without {DEVICE_PREFIX}device-class"
            builder.report.invalid(locate(name), message)
        return
    claim: dict[str, tuple[Any, SourceField]] = {
        "deviceClassName": (device_class, locate("device-class"))
    }
    count = settings.pop("device-count", None)
    if count is not None and not str(count).isdecimal():
        builder.report.invalid(locate("device-count"), f"must be a number of devices, got {count}")
    elif count is not None:
        claim["count"] = (int(count), locate("device-count"))
    selectors = settings.pop("cel-selector", None)
    if selectors is not None:
        lines = [line.strip() for line in str(selectors).splitlines() if line.strip()]
        claim["selectors"] = (lines, locate("cel-selector"))
    container = settings.pop("container-name", None)
    if container not in (None, MAIN):
        builder.report.unsupported(
            locate("container-name"), "is not supported; only the container main gets devices"
        )
    for name in settings:
        builder.report.unsupported(
            locate(name),
            "is not supported; the annotations are device-class, device-count and cel-selector",
        )
    for index, role in enumerate(builder.roles):
        if role["componentType"] == "router":
            continue
        target = ("spec", "roles", index, "resourceClaims", 0)
        builder.default((*target, "name"), CLAIM, locate("device-class"))
        for field, (value, subfield) in claim.items():
            builder.derive((*target, field), value, subfield)
