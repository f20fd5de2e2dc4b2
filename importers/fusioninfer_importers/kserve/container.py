"""The container `main`, merged with KServe's presets for it and its pod.

The presets (config/llmisvcconfig in KServe's sources, v0.20) run a shell script around
`vllm serve`. A container without a command gets that program, with the arguments that
the script appends: those of VLLM_ADDITIONAL_ARGS, then its own args, both read by a shell.
docs/systems.md lists which parts of the presets are settings of ours or have no counterpart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ConversionReport
from fusioninfer_importers.kserve._nodes import Node, merge, synthetic, with_fields
from fusioninfer_importers.kserve._shell import container_arguments, shell_arguments
from fusioninfer_importers.rules import SHELL_EXPANSION_UNSUPPORTED
from fusioninfer_pulumi.plugins.importers import (
    SHARED_MEMORY,
    Rule,
    get_flag_value,
    integer,
    read_command,
)

RDMA_DEVICES_NOT_DETECTED = Rule("rdma-devices-not-detected")

MAIN = "main"
#: Variable whose arguments the presets' script puts before the container's own args.
ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
#: Volumes by the paths at which `main` mounts them.
_VOLUMES = {"/home": "home", "/tmp": "tmp-dir", SHARED_MEMORY: "dshm", "/models": "model-cache"}  # noqa: S108  # paths in a pod
_ENV = {"HOME": "/home", "HF_HUB_CACHE": "/models"}
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
#: Further capabilities of data parallel ranks, for RDMA.
_CAPABILITIES = ["IPC_LOCK", "SYS_RAWIO", "NET_RAW"]
#: Shared memory of a replica of one pod, and of several.
_SINGLE, _SEVERAL = "1Gi", "8Gi"
#: Port of the pool; behind a sidecar the engine has another.
PORT = 8000
#: Fields of the probes without their handlers.
_PROBES = {
    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 10},
    "readinessProbe": {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2},
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 60},
}
_PRE_STOP = {"exec": {"command": ["/bin/sleep", "15"]}}
_GRACE = 60
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
#: Image of the presets.
IMAGE = "ghcr.io/llm-d/llm-d-cuda:v0.9.0"
SERVED_NAME = "--served-model-name"
INFER_ROCE = "KSERVE_INFER_ROCE"


@dataclass(frozen=True)
class Preset:
    """Which preset KServe uses for a pod.

    Attributes:
        several: Whether a replica has several pods.
        ranks: Whether these are data parallel ranks.
        leads: Whether the pod answers requests.
        decodes: Whether a sidecar has the port of the pool, and the engine the next one.
        offloads: Whether the KV cache is offloaded into shared memory.
        arguments: What its command says of the model.
    """

    several: bool
    ranks: bool
    leads: bool
    decodes: bool
    offloads: bool
    arguments: tuple[str, ...]


def _with_preset(report: ConversionReport, pod: Node, preset: Preset) -> Node:
    """Return a pod spec merged over KServe's preset."""
    listed, volumes = pod.get("containers"), pod.get("volumes")
    if listed is None:
        listed = synthetic(pod.at, [{"name": MAIN}])
    containers = [
        _preset_container(container, preset) if container.text("name") == MAIN else container
        for container in listed.items
    ]
    if listed.items:
        pod = with_fields(pod, containers=Node(listed.at, containers, listed.synthetic))
    others = [
        container
        for container in listed.items
        if container.text("name") == MAIN and is_other_program(container)
    ]
    if others and pod.get("terminationGracePeriodSeconds") is None:
        pod = with_fields(pod, terminationGracePeriodSeconds=synthetic(pod.at, _GRACE))
    if volumes is None or isinstance(volumes.content, list):
        pod = with_fields(
            pod, volumes=_preset_volumes(report, volumes or synthetic(pod.at, []), preset)
        )
    return pod


def _security(preset: Preset) -> dict[str, Any]:
    if not preset.ranks:
        return _SECURITY
    return {**_SECURITY, "capabilities": {"add": _CAPABILITIES, "drop": ["ALL"]}}


def _preset_volumes(report: ConversionReport, volumes: Node, preset: Preset) -> Node:
    """Return the preset's volumes merged with the user's, which replace those of another source."""
    below: list[dict[str, Any]] = []
    for name in _VOLUMES.values():
        user_volume = next(
            (volume for volume in volumes.items if volume.text("name") == name), None
        )
        others = (
            []
            if user_volume is None
            else [key for key in user_volume.content if key not in ("name", "emptyDir")]
        )
        if user_volume is not None and others:
            report.translated(
                user_volume.at,
                f"replaces the emptyDir of KServe's presets with {others[0]}; a volume has one "
                "source",
            )
        else:
            below.append({"name": name, "emptyDir": _empty_dir(name, preset)})
    return merge(synthetic(volumes.at, below), volumes, "volumes")


def _empty_dir(name: str, preset: Preset) -> dict[str, Any]:
    if name != _VOLUMES[SHARED_MEMORY]:
        return {}
    # The preset's limit is too small for an offloaded cache, whose size has its own check.
    limit = {} if preset.offloads else {"sizeLimit": _SEVERAL if preset.several else _SINGLE}
    return {"medium": "Memory", **limit}


def _preset_container(container: Node, preset: Preset) -> Node:
    mounts = [{"name": name, "mountPath": path} for path, name in _VOLUMES.items()]
    port = {"containerPort": PORT + 1 if preset.decodes else PORT, "protocol": "TCP"}
    env = [{"name": name, "value": value} for name, value in _ENV.items()]
    security, user_security = (
        synthetic(container.at, _security(preset)),
        container.get("securityContext"),
    )
    return with_fields(
        container,
        ports=container.get("ports") or synthetic(container.at, [port]),
        env=_below(container, "env", "name", env),
        volumeMounts=_below(container, "volumeMounts", "mountPath", mounts),
        securityContext=security if user_security is None else merge(security, user_security),
        lifecycle=_lifecycle(container, preset),
        **{probe: _preset_probe(container, probe, preset) for probe in _PROBES},
    )


def _lifecycle(container: Node, preset: Preset) -> Node | None:
    """Return the preset's `preStop` for programs that get none of ours."""
    lifecycle = container.get("lifecycle")
    if not preset.leads or not is_other_program(container):
        return lifecycle
    below = synthetic(container.at, {"preStop": _PRE_STOP})
    if lifecycle is None:
        return below
    return lifecycle if lifecycle.get("preStop") is not None else merge(below, lifecycle)


def _below(container: Node, field: str, key: str, items: list[dict[str, Any]]) -> Node:
    """Return a list of the container with the preset's missing items before it."""
    listed = container.get(field)
    if listed is not None and not isinstance(listed.content, list):
        return listed  # our rules reject it
    user_items = listed.items if listed is not None else []
    taken = {(item.text(key) or "").rstrip("/") for item in user_items}
    free = synthetic(container.at, [item for item in items if item[key] not in taken])
    return free if listed is None else Node(listed.at, [*free.items, *user_items], listed.synthetic)


def _preset_probe(container: Node, name: str, preset: Preset) -> Node | None:
    """Return a probe merged over the preset's."""
    probe = container.get(name)
    if not isinstance(probe.content if probe is not None else {}, dict):
        return probe
    if probe is None and not preset.leads:
        return None
    if probe is None and name != "livenessProbe" and not is_other_program(container):
        return None  # settings of the role, where the engine is known
    below: dict[str, Any] = dict(_PROBES[name])
    if probe is None or not any(probe.get(handler) for handler in _HANDLERS):
        below["httpGet"] = {"path": "/health", "port": _port(container, preset)}
    preset_probe = synthetic(container.at, below)
    return preset_probe if probe is None else merge(preset_probe, probe)


def is_other_program(container: Node) -> bool:
    """Return whether a container's own command starts neither vLLM nor SGLang."""
    return container.get("command") is not None and read_command(container.value).engine is None


def _port(container: Node, preset: Preset) -> int:
    """Return the port in the engine's arguments, else the preset's."""
    variables = container.list_at("env")
    texts = [
        variable.text("value") for variable in variables if variable.text("name") == ADDITIONAL
    ]
    texts += [str(argument.content) for argument in container.list_at("args")]
    arguments = [part for text in texts if text is not None for part in text.split()]
    preset_port = PORT + 1 if preset.decodes and is_other_program(container) else PORT
    return integer(get_flag_value(arguments, "--port")) or preset_port


def with_engine(report: ConversionReport, pod: Node, preset: Preset) -> Node:
    """Return a pod spec with the preset, and with a command in its container `main`."""
    listed = pod.get("containers")
    valid = listed is not None and isinstance(listed.content, list)
    if listed is not None and valid and MAIN not in [node.text("name") for node in listed.items]:
        # KServe merges lists of containers by name, so that the preset's container stays.
        preset_main = synthetic(listed.at, {"name": MAIN})
        pod = with_fields(pod, containers=Node(listed.at, [preset_main, *listed.items]))
        report.consume(listed.at)
    pod = _with_preset(report, pod, preset)
    listed = pod.get("containers")
    assert listed is not None, "the preset has them"
    items = [
        _engine(report, node, preset) if node.text("name") == MAIN else node
        for node in listed.items
    ]
    return with_fields(pod, containers=Node(listed.at, items, listed.synthetic))


def _engine(report: ConversionReport, container: Node, preset: Preset) -> Node:
    if container.get("image") is None:
        report.chosen(container.at, f"not set; uses the image of KServe's presets, {IMAGE}")
        container = with_fields(container, image=synthetic(container.at, IMAGE))
    env = container.get("env")
    variables = env.items if env is not None else []
    for variable in variables:
        _check_rdma(report, variable)
    if container.get("command") is not None:
        return container
    names = {variable.text("name") or "" for variable in variables}
    arguments: list[Node] = []
    kept: list[Node] = []
    for variable in variables:
        value = variable.get("value")
        if variable.text("name") != ADDITIONAL:
            kept.append(variable)
        elif value is None:
            report.error(
                SHELL_EXPANSION_UNSUPPORTED,
                variable.at,
                f"{ADDITIONAL} must have a value, because a shell expands it",
            )
        else:
            report.consume(variable.at)
            # In a variable's value the kubelet expands only the variables before it.
            arguments += shell_arguments(
                report, value, names, [variable.text("name") or "" for variable in kept]
            )
    args = container.get("args")
    if args is not None and args.items:
        arguments += container_arguments(report, args, names)
    at = container.at
    said = [word for word in preset.arguments if word.startswith("/")]
    if not any(str(word.content).startswith(SERVED_NAME) for word in arguments):
        said = list(preset.arguments)
    arguments = [synthetic(at, word) for word in said] + arguments
    container = with_fields(
        container,
        command=synthetic(at, ["vllm", "serve"]),
        args=Node(args.at if args is not None else at, arguments, args is None)
        if arguments
        else None,
        env=Node(env.at, kept, env.synthetic) if env is not None and variables else env,
    )
    for probe in _PROBES:
        container = _plain_http(report, container, probe)
    return container


def _check_rdma(report: ConversionReport, variable: Node) -> None:
    if variable.text("name") == INFER_ROCE and variable.text("value") == "true":
        report.warning(
            RDMA_DEVICES_NOT_DETECTED,
            variable.at,
            "RoCE devices are detected only by the script of KServe's presets; set NCCL_IB_HCA, "
            "NCCL_IB_GID_INDEX and UCX_NET_DEVICES in env",
        )


def _plain_http(report: ConversionReport, container: Node, probe: str) -> Node:
    scheme = container.get(probe, "httpGet", "scheme")
    if scheme is None or scheme.content != "HTTPS":
        return container
    report.translated(
        scheme.at,
        "changed to HTTP: KServe gives the engine a certificate, the engine here serves plain HTTP",
    )
    whole, http = container.get(probe), container.get(probe, "httpGet")
    assert whole is not None
    assert http is not None
    plain = with_fields(http, scheme=Node(scheme.at, "HTTP"))
    return with_fields(container, **{probe: with_fields(whole, httpGet=plain)})
