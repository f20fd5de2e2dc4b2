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
_VISIBLE = re.compile(r"(?!CUDA_)\w+_VISIBLE_DEVICES")


def accelerator_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of pods whose engine gets no accelerator, as far as the pods say."""
    for pod in pods.written:
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
