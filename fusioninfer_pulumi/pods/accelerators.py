"""Whether engines ask for accelerators, and by names that device plugins have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resources import is_accelerator, meant_accelerator
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.launch import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod
from fusioninfer_pulumi.pods.validation.resources import is_extended

#: Devices that no engine computes on.
_NETWORK = re.compile(r"rdma|roce|infiniband|sriov|mlx|mlnx|efa$|nic")
#: Images of engines for processors alone, and of programs that stand in for an engine.
_WITHOUT = re.compile(r"(?<![a-z])(cpu|xeon|openvino|sim|simulator|mock|fake)(?![a-z])")
#: Variables that engines built for processors read.
_CPU_VARIABLES = re.compile(r"VLLM_CPU_\w+|SGLANG_USE_CPU_ENGINE|VLLM_TARGET_DEVICE")
#: Variables by which a container runtime hands out devices that nothing asked for.
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
#: The vendor of the devices that the projects' own images run on, and other builds by their tags.
_BUILT_FOR = {
    "vllm/vllm-openai": "nvidia.com",
    "vllm/vllm-openai-rocm": "amd.com",
    "rocm/vllm": "amd.com",
    "rocm/sgl-dev": "amd.com",
    "lmsysorg/sglang": "nvidia.com",
}
_OTHER_BUILD = re.compile(r"rocm|mi\d|xeon|xpu|npu|cann|gaudi|cpu|tpu|musa")
_VISIBLE = re.compile(r"(?!CUDA_)\w+_VISIBLE_DEVICES")


def accelerator_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of pods whose engine gets no accelerator, as far as the pods say."""
    for pod in pods.written:
        yield from _vendor(pod)
        yield from _hidden(pod, pods)
        slips = list(_names(pod))
        yield from slips
        engine = pods.command.engine if pod.leads or ctx.launcher in WRAPPING else None
        engine = engine or read_command(pod.own).engine
        if engine is None or slips or _has_devices(pod) or _needs_none(pod, pods.command):
            continue
        held = [f"{name}: {amount}" for name, amount in _amounts(pod) if is_accelerator(name)]
        asks = f"asks for {held[0]}" if held else "asks for none"
        yield warning(
            "accelerators-not-requested",
            (*pod.container_path, "resources"),
            f"{engine.title} needs accelerators, and the container {asks}; add limits such as "
            "nvidia.com/gpu: 1, or --device cpu if the image is built for processors",
        )


def _vendor(pod: Pod) -> Iterator[Finding]:
    """Warns of accelerators that the engines' own images were not built for."""
    image = read_command(pod.own).image
    built = _BUILT_FOR.get(_repository(image.name)) if image.name else None
    if built is None or _OTHER_BUILD.search(image.tag or ""):
        return
    names = [name for name, amount in _amounts(pod) if is_accelerator(name)]
    wrong = [name for name in names if not name.startswith(f"{built}/")]
    if wrong and len(wrong) == len(names):
        yield warning(
            "image-for-other-accelerator",
            (*pod.container_path, "resources"),
            f"the image {image.name} is built for {built}/gpu, and the container asks for "
            f"{wrong[0]}; use an image for that device",
        )


def _repository(name: str) -> str:
    return re.sub(r"(:[^/]*)?(@.*)?$", "", name).removeprefix("docker.io/")


def _hidden(pod: Pod, pods: RolePods) -> Iterator[Finding]:
    """Refuses a variable that hides accelerators which the engine's sizes need."""
    sizes = pods.command.parallelism
    for index, each in enumerate(pod.own.get("env") or ()):
        value = each.get("value")
        if each.get("name") == "NVIDIA_VISIBLE_DEVICES" and value in ("none", "void"):
            at = (*pod.container_path, "env", index, "value")
            message = f"{value} hides the accelerators that the device plugin gives; remove it"
            yield warning("accelerators-hidden", at, message)
        if each.get("name") not in _HIDING or not isinstance(value, str) or "$" in value:
            continue
        listed = [part for part in value.split(",") if part.strip() not in ("", "-1")]
        need = sizes.tensor * sizes.pipeline if sizes is not None and pods.leader.leads else 1
        most = need if len(pods.each) == 1 else 1
        if read_command(pod.own).engine is not None and len(listed) < most:
            yield error(
                "accelerators-hidden",
                (*pod.container_path, "env", index, "value"),
                f"{each['name']} leaves {len(listed)} of the accelerators, and the engine needs "
                f"{most}; remove it",
            )


def _amounts(pod: Pod) -> Iterator[tuple[str, Any]]:
    resources = pod.container.get("resources") or {}
    asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    yield from ((str(name), amount) for name, amount in asked.items())


def _has_devices(pod: Pod) -> bool:
    """Whether the serving container has a device: asked for, claimed, or taken from the node."""
    if (pod.container.get("resources") or {}).get("claims"):
        return True
    for name, amount in _amounts(pod):
        device = is_accelerator(name) or (is_extended(name) and not _NETWORK.search(name))
        if device and quantity.parse(amount) > 0:
            return True
    if (pod.container.get("securityContext") or {}).get("privileged") is True:
        return True
    paths = [
        (volume.get("hostPath") or {}).get("path")
        for volume in pod.spec.get("volumes") or ()
        if isinstance(volume.get("hostPath"), Mapping)
    ]
    return any(str(path).startswith("/dev/") for path in paths) or any(
        _VISIBLE.fullmatch(str(each.get("name"))) for each in pod.container.get("env") or ()
    )


def _needs_none(pod: Pod, command: EngineCommand) -> bool:
    image = command.image if pod.leads else read_command(pod.own).image
    built = image.name is None or _WITHOUT.search(image.name.lower()) is not None
    named = any(
        _CPU_VARIABLES.fullmatch(str(each.get("name"))) for each in pod.container.get("env") or ()
    )
    return built or named or command.value("--device") == "cpu"


def _names(pod: Pod) -> Iterator[Finding]:
    """The resource names that are nearly those of accelerators."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(pod.written["spec"].get(field) or ()):
            at = (*pod.path, "spec", field, index, "resources")
            found: set[str] = set()
            for kind in ("limits", "requests"):
                for name in (container.get("resources") or {}).get(kind) or ():
                    meant = meant_accelerator(str(name))
                    if meant is None or name in found:
                        continue
                    found.add(name)
                    # The API server takes no other name without a slash.
                    say = warning if "/" in str(name) else error
                    yield say(
                        "accelerator-name-unknown",
                        (*at, kind, str(name)),
                        f"is no known device, so no node has it; did you mean {meant}?",
                    )
