"""Checks of accelerators that pods request or claim."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.api.topology import VOLCANO
from fusioninfer_pulumi.checks.pods.resources import UNKNOWN_RESOURCE, is_known_form
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.resources import is_accelerator, is_extended, meant_accelerator
from fusioninfer_pulumi.pods.launch import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods

ACCELERATORS_NOT_REQUESTED = Rule(
    "accelerators-not-requested",
    "warning",
    "The container of an engine for accelerators asks for one.",
    remedy="Add limits such as `nvidia.com/gpu`, claim a device, or use an image that is built "
    "for processors.",
    source="https://docs.vllm.ai/en/stable/deployment/k8s/",
)
IMAGE_FOR_OTHER_ACCELERATOR = Rule(
    "image-for-other-accelerator",
    "warning",
    "The image is built for the accelerators that its container asks for.",
    remedy="Use an image for that device.",
    source="vLLM's and SGLang's documents, installation",
)
ACCELERATORS_HIDDEN = Rule(
    "accelerators-hidden",
    ("error", "warning"),
    "Variables such as CUDA_VISIBLE_DEVICES leave the engine the accelerators that it needs.",
    remedy="Remove the variable.",
    source="https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html",
)

ACCELERATORS_BESIDE_CLAIMS = Rule(
    "accelerators-beside-claims",
    "error",
    "Accelerators are asked for by claims or by resources, not both.",
    remedy="Remove one of them.",
)

#: Devices that no engine computes on.
_NETWORK = re.compile(r"rdma|roce|infiniband|sriov|mlx|mlnx|efa$|nic")
#: Images of engines for processors alone, and of programs that stand in for an engine.
_NO_ACCELERATOR = re.compile(r"(?<![a-z])(cpu|xeon|openvino|sim|simulator|mock|fake)(?![a-z])")
#: Variables that engines built for processors read.
_CPU_VARIABLES = re.compile(r"VLLM_CPU_\w+|SGLANG_USE_CPU_ENGINE|VLLM_TARGET_DEVICE")
#: Variables that hide devices from an engine.
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
#: Variables by which a container runtime hands out devices that nothing asked for.
_VISIBLE = re.compile(r"(?!CUDA_)\w+_VISIBLE_DEVICES")


def accelerator_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of pods whose engine gets no accelerator, as far as the pods say."""
    for pod in pods.written:
        command = pod.own_command
        yield from _vendor(pod, command)
        yield from _hidden(pod, pods, command)
        slips = list(_misspelt(pod))
        # Names that the API server refuses are findings of the template.
        yield from (slip for slip in slips if is_known_form(str(slip.location[-1])))
        engine = pods.command.engine if pod.leads or ctx.launcher in WRAPPING else None
        engine = engine or command.engine
        if engine is None or slips or _has_devices(pod) or _needs_none(pod, pods.command, command):
            continue
        requested = [f"{name}: {amount}" for name, amount in _amounts(pod) if is_accelerator(name)]
        asks = f"asks for {requested[0]}" if requested else "asks for none"
        yield warning(
            ACCELERATORS_NOT_REQUESTED,
            (*pod.container_path, "resources"),
            f"{engine.title} needs accelerators, and the container {asks}; add limits such as "
            "nvidia.com/gpu: 1, or --device cpu if the image is built for processors",
        )


def _vendor(pod: Pod, command: EngineCommand) -> Iterator[Finding]:
    """Warns of accelerators that the engines' own images were not built for."""
    image = command.image
    built = _BUILT_FOR.get(image.repository.removeprefix("docker.io/"))
    if built is None or _OTHER_BUILD.search(image.tag or ""):
        return
    names = [name for name, amount in _amounts(pod) if is_accelerator(name)]
    wrong = [name for name in names if not name.startswith(f"{built}/")]
    if wrong and len(wrong) == len(names):
        yield warning(
            IMAGE_FOR_OTHER_ACCELERATOR,
            (*pod.container_path, "resources"),
            f"the image {image.name} is built for {built}/gpu, and the container asks for "
            f"{wrong[0]}; use an image for that device",
        )


def _hidden(pod: Pod, pods: RolePods, command: EngineCommand) -> Iterator[Finding]:
    """Refuses a variable that hides accelerators which the engine's sizes need."""
    sizes = pods.command.parallelism
    for index, variable in enumerate(pod.own.get("env") or ()):
        value = variable.get("value")
        if variable.get("name") == "NVIDIA_VISIBLE_DEVICES" and value in ("none", "void"):
            at = (*pod.container_path, "env", index, "value")
            message = f"{value} hides the accelerators that the device plugin gives; remove it"
            yield warning(ACCELERATORS_HIDDEN, at, message)
        if variable.get("name") not in _HIDING or not isinstance(value, str) or "$" in value:
            continue
        listed = [part for part in value.split(",") if part.strip() not in ("", "-1")]
        need = sizes.tensor * sizes.pipeline if sizes is not None and pods.leader.leads else 1
        most = need if len(pods.each) == 1 else 1
        if command.engine is not None and len(listed) < most:
            yield error(
                ACCELERATORS_HIDDEN,
                (*pod.container_path, "env", index, "value"),
                f"{variable['name']} leaves {len(listed)} of the accelerators, and the engine "
                f"needs {most}; remove it",
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
        _VISIBLE.fullmatch(str(variable.get("name"))) for variable in pod.container.get("env") or ()
    )


def _needs_none(pod: Pod, command: EngineCommand, written: EngineCommand) -> bool:
    image = command.image if pod.leads else written.image
    built = image.name is None or _NO_ACCELERATOR.search(image.name.lower()) is not None
    named = any(
        _CPU_VARIABLES.fullmatch(str(variable.get("name")))
        for variable in pod.container.get("env") or ()
    )
    return built or named or command.value("--device") == "cpu"


def _misspelt(pod: Pod) -> Iterator[Finding]:
    """The resource names that are nearly those of accelerators."""
    for field in ("containers", "initContainers"):
        for index, container in enumerate(pod.written["spec"].get(field) or ()):
            at = (*pod.path, "spec", field, index, "resources")
            names: set[str] = set()
            for kind in ("limits", "requests"):
                for name in (container.get("resources") or {}).get(kind) or ():
                    meant = meant_accelerator(str(name))
                    if meant is None or name in names:
                        continue
                    names.add(name)
                    # No other device has such a name in the plural.
                    plain = str(name).lower().removesuffix("s")
                    same = plain == meant.lower().removesuffix("s")
                    say = error if same else warning
                    yield say(
                        UNKNOWN_RESOURCE,
                        (*at, kind, str(name)),
                        f"is no known device, so no node has it; did you mean {meant}?",
                    )


def claim_and_limit_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Refuses accelerators that a template asks for beside the role's claims."""
    if not any(claim.made for claim in ctx.role.resource_claims or ()):
        return
    for pod in pods.written:
        limits = (pod.container.get("resources") or {}).get("limits") or {}
        for resource in limits:
            if is_accelerator(str(resource)):
                yield error(
                    ACCELERATORS_BESIDE_CLAIMS,
                    (*pod.container_path, "resources", "limits", str(resource)),
                    "asks for accelerators beside resourceClaims, so the pod would get both; "
                    "remove one",
                )


VOLCANO_IGNORES_CLAIMS = Rule(
    "volcano-ignores-claims",
    "warning",
    "Volcano allocates the devices that pods claim.",
    remedy="Set `predicate.DynamicResourceAllocationEnable: true` for its plugin predicates.",
    source="Volcano 1.14.1",
)


def claim_findings(roles: Iterable[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warns of pods with claims that Volcano places: as it is installed, it ignores claims.

    Volcano 1.14.1, pkg/scheduler/plugins/predicates: the plugin for claims is off by default, and
    pods are bound without an allocation, which no kubelet starts (e2e/test_claims.py).
    """
    for ctx, pods in roles:
        if ctx.shape.scheduler != VOLCANO:
            return
        out = (
            "gangPolicy.mode to Off"
            if ctx.shape.needs_gang
            else "schedulerName to another scheduler"
        )
        by_hand = (
            (*pod.path, "spec", "resourceClaims")
            for pod in pods.written
            if pod.written["spec"].get("resourceClaims")
        )
        at = ctx.at("resourceClaims") if ctx.role.resource_claims else next(by_hand, None)
        if at is not None:
            yield warning(
                VOLCANO_IGNORES_CLAIMS,
                at,
                "Volcano binds such pods without the devices that they claim, and they never "
                "start, unless the arguments of its plugin predicates say "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); say "
                f"so there, or set schedulingStrategy.{out}",
            )
            return
