"""Merges a pod and its container `main` over KServe's presets.

The presets (config/llmisvcconfig in KServe's sources, v0.20) run a shell script around
`vllm serve`. A container without a command gets `vllm serve` without the script, with the arguments
that the script appends: VLLM_ADDITIONAL_ARGS, then the container's args, both parsed by a shell.
docs/systems.md lists the parts of the presets that become other settings or have no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kserve._nodes import Node, make_node, merge, set_fields
from fusioninfer_importers.kserve._shell import split_container_args, split_shell_text
from fusioninfer_importers.rules import SHELL_EXPANSION_UNSUPPORTED
from fusioninfer_pulumi.plugins.importers import (
    SHARED_MEMORY,
    Rule,
    get_flag_value,
    parse_command,
    parse_integer,
)

RDMA_DEVICES_NOT_DETECTED = Rule("rdma-devices-not-detected")

MAIN = "main"
#: Variable whose arguments the presets' script puts before the container's own args.
EXTRA_ARGS = "VLLM_ADDITIONAL_ARGS"
#: Volumes by the paths at which `main` mounts them.
_VOLUMES = {"/home": "home", "/tmp": "tmp-dir", SHARED_MEMORY: "dshm", "/models": "model-cache"}  # noqa: S108  # paths in a pod
_PRESET_ENV = {"HOME": "/home", "HF_HUB_CACHE": "/models"}
_SECURITY_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
#: Further capabilities of data parallel ranks, for RDMA.
_RANK_CAPABILITIES = ["IPC_LOCK", "SYS_RAWIO", "NET_RAW"]
#: Shared memory of a replica of one pod, and of several.
_SMALL, _LARGE = "1Gi", "8Gi"
#: Port of the pool; behind a sidecar the engine uses another port.
PORT = 8000
#: Fields of the probes without their handlers.
_PROBES = {
    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 10},
    "readinessProbe": {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2},
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 60},
}
_PRE_STOP = {"exec": {"command": ["/bin/sleep", "15"]}}
_GRACE_SECONDS = 60
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
#: Image of the presets.
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.9.0"
SERVED_NAME = "--served-model-name"
INFER_ROCE = "KSERVE_INFER_ROCE"


@dataclass(frozen=True)
class Preset:
    """Properties of a pod that determine KServe's preset for it.

    Attributes:
        is_multi_pod: Whether a replica has several pods.
        has_ranks: Whether the pods are data parallel ranks.
        is_leader: Whether the pod answers requests.
        has_sidecar: Whether a sidecar uses the pool's port, and the engine the next one.
        has_offloading: Whether the KV cache is offloaded to host memory.
        model_arguments: Arguments of the preset's command that name the model.
        is_replaced: Whether a config in the service's namespace replaces the preset.
        has_script: Whether the pod runs KServe's script around `vllm serve`.
    """

    is_multi_pod: bool
    has_ranks: bool
    is_leader: bool
    has_sidecar: bool
    has_offloading: bool
    model_arguments: tuple[str, ...]
    is_replaced: bool
    has_script: bool


def name_preset(workload: Node, role: str) -> str:
    """Return the name of the preset for a role (main, prefill or decode), without its prefix."""
    sizes = workload.get("parallelism")
    has_ranks = sizes is not None and any(map(sizes.get, ("data", "dataLocal")))
    shape = "template"
    if workload.get("worker") is not None:
        shape = "worker-data-parallel" if has_ranks else "worker-pipeline-parallel"
    return shape if role == "main" else f"{role}-{shape}"


def name_serving_preset(spec: Node) -> str:
    """Return the name of the preset of the pods that answer requests, without its prefix."""
    return name_preset(spec, "main" if spec.get("prefill") is None else "decode")


def _add_preset_fields(report: ConversionReport, pod: Node, preset: Preset) -> Node:
    """Return a pod spec with the preset's fields that it does not set itself."""
    entries, volumes = pod.get("containers"), pod.get("volumes")
    if entries is None:
        entries = make_node(pod.field, [{"name": MAIN}])
    containers = [
        _merge_container(container, preset) if container.text("name") == MAIN else container
        for container in entries.items
    ]
    if entries.items:
        pod = set_fields(pod, containers=Node(entries.field, containers, entries.synthetic))
    runs_other_program = any(
        container.text("name") == MAIN and is_other_program(container)
        for container in entries.items
    )
    if runs_other_program and pod.get("terminationGracePeriodSeconds") is None:
        pod = set_fields(pod, terminationGracePeriodSeconds=make_node(pod.field, _GRACE_SECONDS))
    if volumes is None or isinstance(volumes.content, list):
        pod = set_fields(
            pod, volumes=_merge_volumes(report, volumes or make_node(pod.field, []), preset)
        )
    return pod


def _choose_security_context(preset: Preset) -> dict[str, Any]:
    if not preset.has_ranks:
        return _SECURITY_CONTEXT
    return {**_SECURITY_CONTEXT, "capabilities": {"add": _RANK_CAPABILITIES, "drop": ["ALL"]}}


def _merge_volumes(report: ConversionReport, volumes: Node, preset: Preset) -> Node:
    """Merge the user's volumes over the preset's; one of another type replaces the preset's."""
    preset_volumes: list[dict[str, Any]] = []
    for name in _VOLUMES.values():
        user_volume = next(
            (volume for volume in volumes.items if volume.text("name") == name), None
        )
        sources = (
            []
            if user_volume is None
            else [key for key in user_volume.content if key not in ("name", "emptyDir")]
        )
        if user_volume is not None and sources:
            report.translated(
                user_volume.field,
                f"replaces the emptyDir of KServe's presets with {sources[0]}; a volume has one "
                "source",
            )
        else:
            preset_volumes.append({"name": name, "emptyDir": _build_empty_dir(name, preset)})
    return merge(make_node(volumes.field, preset_volumes), volumes, "volumes")


def _build_empty_dir(name: str, preset: Preset) -> dict[str, Any]:
    if name != _VOLUMES[SHARED_MEMORY]:
        return {}
    # The preset's limit is too small for an offloaded cache, whose size has its own check.
    if preset.has_offloading:
        return {"medium": "Memory"}
    return {"medium": "Memory", "sizeLimit": _LARGE if preset.is_multi_pod else _SMALL}


def _merge_container(container: Node, preset: Preset) -> Node:
    mounts = [{"name": name, "mountPath": path} for path, name in _VOLUMES.items()]
    port = {"containerPort": PORT + 1 if preset.has_sidecar else PORT, "protocol": "TCP"}
    env = [{"name": name, "value": value} for name, value in _PRESET_ENV.items()]
    security = make_node(container.field, _choose_security_context(preset))
    user_security = container.get("securityContext")
    return set_fields(
        container,
        ports=container.get("ports") or make_node(container.field, [port]),
        env=_add_missing(container, "env", "name", env),
        volumeMounts=_add_missing(container, "volumeMounts", "mountPath", mounts),
        securityContext=security if user_security is None else merge(security, user_security),
        lifecycle=_merge_lifecycle(container, preset),
        **{probe: _merge_probe(container, probe, preset) for probe in _PROBES},
    )


def _merge_lifecycle(container: Node, preset: Preset) -> Node | None:
    """Return the lifecycle, with the preset's `preStop` where the library adds none."""
    lifecycle = container.get("lifecycle")
    if not preset.is_leader or not is_other_program(container):
        return lifecycle
    fallback = make_node(container.field, {"preStop": _PRE_STOP})
    if lifecycle is None:
        return fallback
    return lifecycle if lifecycle.get("preStop") is not None else merge(fallback, lifecycle)


def _add_missing(container: Node, field: str, key: str, items: list[dict[str, Any]]) -> Node:
    """Return a list field of the container, with the preset's items that it lacks in front."""
    entries = container.get(field)
    if entries is not None and not isinstance(entries.content, list):
        return entries  # our rules reject it
    user_items = entries.items if entries is not None else []
    keys = {(item.text(key) or "").rstrip("/") for item in user_items}
    missing = make_node(container.field, [item for item in items if item[key] not in keys])
    return (
        missing
        if entries is None
        else Node(entries.field, [*missing.items, *user_items], entries.synthetic)
    )


def _merge_probe(container: Node, name: str, preset: Preset) -> Node | None:
    """Return a probe merged over the preset's."""
    probe = container.get(name)
    if probe is not None and not isinstance(probe.content, dict):
        return probe  # our rules reject it
    if probe is None and not preset.is_leader:
        return None
    if probe is None and name != "livenessProbe" and not is_other_program(container):
        return None  # the role's settings generate it for known engines
    fields: dict[str, Any] = dict(_PROBES[name])
    if probe is None or not any(probe.get(handler) for handler in _HANDLERS):
        fields["httpGet"] = {"path": "/health", "port": _find_port(container, preset)}
    preset_probe = make_node(container.field, fields)
    return preset_probe if probe is None else merge(preset_probe, probe)


def is_other_program(container: Node) -> bool:
    """Return whether a container's own command starts neither vLLM nor SGLang."""
    return container.get("command") is not None and parse_command(container.value).engine is None


def _find_port(container: Node, preset: Preset) -> int:
    """Return the port in the engine's arguments, else the preset's."""
    variables = container.list_at("env")
    texts = [
        variable.text("value") or ""
        for variable in variables
        if variable.text("name") == EXTRA_ARGS
    ]
    texts += [str(argument.content) for argument in container.list_at("args")]
    arguments = [part for text in texts for part in text.split()]
    preset_port = PORT + 1 if preset.has_sidecar and is_other_program(container) else PORT
    return parse_integer(get_flag_value(arguments, "--port")) or preset_port


def merge_preset(report: ConversionReport, pod: Node, preset: Preset) -> Node:
    """Return a pod spec merged over its preset, with a command instead of KServe's script."""
    if not preset.is_replaced:
        pod = _add_preset_fields(report, _add_main(report, pod), preset)
    entries = pod.get("containers")
    if entries is None:
        return pod  # our rules reject it
    items = [
        _complete_engine(report, node, preset) if node.text("name") == MAIN else node
        for node in entries.items
    ]
    return set_fields(pod, containers=Node(entries.field, items, entries.synthetic))


def _add_main(report: ConversionReport, pod: Node) -> Node:
    """Return a pod spec with the preset's container `main`, which KServe adds if it is missing."""
    entries = pod.get("containers")
    if entries is None or not isinstance(entries.content, list):
        return pod
    if MAIN in [node.text("name") for node in entries.items]:
        return pod
    report.consume(entries.field)
    preset_main = make_node(entries.field, {"name": MAIN})
    return set_fields(pod, containers=Node(entries.field, [preset_main, *entries.items]))


def _complete_engine(report: ConversionReport, container: Node, preset: Preset) -> Node:
    """Return `main` with an image, and with the command and arguments of KServe's script."""
    if container.get("image") is None and preset.is_replaced:
        report.invalid(
            container.field, "image is required, because a config replaces KServe's preset"
        )
    if not preset.has_script:
        return container
    if container.get("image") is None:
        report.chosen(container.field, f"image is not set; uses that of KServe's presets, {IMAGE}")
        container = set_fields(container, image=make_node(container.field, IMAGE))
    env = container.get("env")
    variables = env.items if env is not None else []
    for variable in variables:
        _check_rdma(report, variable)
    if container.get("command") is not None:
        return container
    names = {variable.text("name") or "" for variable in variables}
    arguments: list[Node] = []
    other_variables: list[Node] = []
    for variable in variables:
        value = variable.get("value")
        if variable.text("name") != EXTRA_ARGS:
            other_variables.append(variable)
        elif value is None:
            report.error(
                SHELL_EXPANSION_UNSUPPORTED,
                variable.field,
                f"{EXTRA_ARGS} must have a value, because a shell expands it",
            )
        else:
            report.consume(variable.field)
            # In a variable's value the kubelet expands only the variables before it.
            arguments += split_shell_text(
                report, value, names, [earlier.text("name") or "" for earlier in other_variables]
            )
    args = container.get("args")
    if args is not None and args.items:
        arguments += split_container_args(report, args, names)
    field = container.field
    has_served_name = any(str(word.content).startswith(SERVED_NAME) for word in arguments)
    # User-defined served names replace the generated ones, but not the path of a mounted model.
    model_arguments = [
        make_node(field, word)
        for word in preset.model_arguments
        if not has_served_name or word.startswith("/")
    ]
    arguments = model_arguments + arguments
    container = set_fields(
        container,
        command=make_node(field, ["vllm", "serve"]),
        args=Node((args or container).field, arguments, args is None) if arguments else None,
        env=Node(env.field, other_variables, env.synthetic) if env and variables else env,
    )
    for probe in _PROBES:
        container = _use_plain_http(report, container, probe)
    return container


def _check_rdma(report: ConversionReport, variable: Node) -> None:
    if variable.text("name") == INFER_ROCE and variable.text("value") == "true":
        report.warning(
            RDMA_DEVICES_NOT_DETECTED,
            variable.field,
            "RoCE devices are detected only by the script of KServe's presets; set NCCL_IB_HCA, "
            "NCCL_IB_GID_INDEX and UCX_NET_DEVICES in env",
        )


def _use_plain_http(report: ConversionReport, container: Node, probe: str) -> Node:
    scheme = container.get(probe, "httpGet", "scheme")
    if scheme is None or scheme.content != "HTTPS":
        return container
    report.translated(
        scheme.field,
        "changed to HTTP: KServe gives the engine a certificate, the engine here serves plain HTTP",
    )
    probe_node, http = container.get(probe), container.get(probe, "httpGet")
    assert probe_node is not None
    assert http is not None
    plain_http = set_fields(http, scheme=Node(scheme.field, "HTTP"))
    return set_fields(container, **{probe: set_fields(probe_node, httpGet=plain_http)})
