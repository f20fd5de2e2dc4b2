"""What engines need of their pods: accelerators, shared memory, disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.resources import is_accelerator, limit_of, meant_accelerator
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.launch import WRAPPING
from fusioninfer_pulumi.pods.pod import Context, Pod
from fusioninfer_pulumi.pods.validation.resources import is_extended

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
ACCELERATOR_NAME_UNKNOWN = Rule(
    "accelerator-name-unknown",
    ("warning", "error"),
    "Resource names are not nearly those of an accelerator.",
    remedy="Write the name of the device plugin, such as `nvidia.com/gpu`.",
    source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
)
SHARED_MEMORY_MISSING = Rule(
    "shared-memory-missing",
    "warning",
    "Ranks of one pod have more shared memory than a container's default of 64Mi.",
    remedy="Mount an `emptyDir` of medium `Memory` at /dev/shm.",
    source="https://docs.vllm.ai/en/stable/deployment/k8s/",
)
SHARED_MEMORY_BELOW_NEED = Rule(
    "shared-memory-below-need",
    "warning",
    "The volume at /dev/shm has room for the ranks of a pod.",
    remedy="Raise its `sizeLimit`.",
    source="vLLM's `shm_broadcast.py`, ten chunks of 16 or 24 MiB",
)
HOST_MEMORY_ABOVE_LIMIT = Rule(
    "host-memory-above-limit",
    "warning",
    "The memory limit holds the memory that --cpu-offload-gb or --kv-offloading-size takes.",
    remedy="Raise the limit, or offload less.",
    source="what the engine allocates counts as the container's memory",
)
MEMORY_VOLUME_ABOVE_LIMIT = Rule(
    "memory-volume-above-limit",
    "warning",
    "A volume in memory holds no more than the memory limit of the containers that mount it.",
    remedy="Lower its `sizeLimit`, or raise the limit.",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#emptydir",
)
DISK_LIMIT_BELOW_MODEL_SIZE = Rule(
    "disk-limit-below-model-size",
    "error",
    "The disk that a pod may use holds the model that it downloads.",
    remedy="Raise the limit of `ephemeral-storage`, or use `model.cache`.",
    source="https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/#local-ephemeral-storage",
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
        own = read_command(pod.own)
        yield from _vendor(pod, own)
        yield from _hidden(pod, pods, own)
        slips = list(_misspelt(pod))
        yield from slips
        engine = pods.command.engine if pod.leads or ctx.launcher in WRAPPING else None
        engine = engine or own.engine
        if engine is None or slips or _has_devices(pod) or _needs_none(pod, pods.command, own):
            continue
        held = [f"{name}: {amount}" for name, amount in _amounts(pod) if is_accelerator(name)]
        asks = f"asks for {held[0]}" if held else "asks for none"
        yield warning(
            ACCELERATORS_NOT_REQUESTED,
            (*pod.container_path, "resources"),
            f"{engine.title} needs accelerators, and the container {asks}; add limits such as "
            "nvidia.com/gpu: 1, or --device cpu if the image is built for processors",
        )


def _vendor(pod: Pod, own: EngineCommand) -> Iterator[Finding]:
    """Warns of accelerators that the engines' own images were not built for."""
    image = own.image
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


def _hidden(pod: Pod, pods: RolePods, own: EngineCommand) -> Iterator[Finding]:
    """Refuses a variable that hides accelerators which the engine's sizes need."""
    sizes = pods.command.parallelism
    for index, each in enumerate(pod.own.get("env") or ()):
        value = each.get("value")
        if each.get("name") == "NVIDIA_VISIBLE_DEVICES" and value in ("none", "void"):
            at = (*pod.container_path, "env", index, "value")
            message = f"{value} hides the accelerators that the device plugin gives; remove it"
            yield warning(ACCELERATORS_HIDDEN, at, message)
        if each.get("name") not in _HIDING or not isinstance(value, str) or "$" in value:
            continue
        listed = [part for part in value.split(",") if part.strip() not in ("", "-1")]
        need = sizes.tensor * sizes.pipeline if sizes is not None and pods.leader.leads else 1
        most = need if len(pods.each) == 1 else 1
        if own.engine is not None and len(listed) < most:
            yield error(
                ACCELERATORS_HIDDEN,
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


def _needs_none(pod: Pod, command: EngineCommand, own: EngineCommand) -> bool:
    image = command.image if pod.leads else own.image
    built = image.name is None or _NO_ACCELERATOR.search(image.name.lower()) is not None
    named = any(
        _CPU_VARIABLES.fullmatch(str(each.get("name"))) for each in pod.container.get("env") or ()
    )
    return built or named or command.value("--device") == "cpu"


def _misspelt(pod: Pod) -> Iterator[Finding]:
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
                        ACCELERATOR_NAME_UNKNOWN,
                        (*at, kind, str(name)),
                        f"is no known device, so no node has it; did you mean {meant}?",
                    )


#: vLLM's ranks share a ring of ten chunks of 16 or 24 MiB (`shm_broadcast.py`, `MessageQueue`), and
#: NCCL's segments come on top. vLLM's and LeaderWorkerSet's own manifests give 1 to 15 GiB.
LEAST_SHARED = quantity.parse("256Mi")
#: Arguments with GiB of host memory.
_HOST_MEMORY = ("--cpu-offload-gb", "--kv-offloading-size")


def memory_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warns of too little shared memory, and of volumes in memory that containers cannot fill."""
    shares = _ranks_in_pod(pods, ctx) > 1
    for pod in pods.written:
        runs = pod.leads or ctx.launcher in WRAPPING or read_command(pod.own).engine is not None
        if shares and runs:
            yield from _shared_memory(pod)
        yield from _above_limits(pod, ctx)
    yield from _offloaded(pods)


def _ranks_in_pod(pods: RolePods, ctx: Context) -> int:
    """Ranks of one copy of the model that run in one pod, 1 where that is not known."""
    sizes = pods.command.parallelism
    if sizes is None:
        return 1
    copy = sizes.tensor * sizes.pipeline * sizes.context
    return min(copy, sizes.devices(ctx.nodes) // ctx.nodes)


def _shared_memory(pod: Pod) -> Iterator[Finding]:
    if pod.spec.get("hostIPC"):
        return
    mount = mounted(pod.container, SHARED_MEMORY)
    if mount is None:
        yield warning(
            SHARED_MEMORY_MISSING,
            (*pod.container_path, "volumeMounts"),
            f"ranks of one pod need more shared memory than the default of 64Mi; mount an "
            f"emptyDir of medium Memory at {SHARED_MEMORY}",
        )
        return
    at, limit = _memory_volumes(pod).get(str(mount.get("name")), ((), None))
    if at and limit is not None and limit < LEAST_SHARED:
        yield warning(
            SHARED_MEMORY_BELOW_NEED,
            (*at, "sizeLimit"),
            f"{quantity.write(limit)} of shared memory is too little for the ranks of one pod; "
            f"give at least {quantity.write(LEAST_SHARED)}, such as 2Gi",
        )


def _offloaded(pods: RolePods) -> Iterator[Finding]:
    """Warns of host memory that the engine takes by an argument and the container does not have."""
    command, pod = pods.command, pods.leader
    limit = _amount(limit_of(pod.container, "memory"))
    if limit is None or command.engine is None or not command.readable:
        return
    for flag in _HOST_MEMORY:
        text = command.value(flag)
        if text is None or re.fullmatch(r"\d{1,6}(\.\d+)?", text) is None:
            continue
        if quantity.parse(text) * 2**30 > limit:
            yield warning(
                HOST_MEMORY_ABOVE_LIMIT,
                pod.command_path,
                f"{flag} {text} takes {text} GiB of memory, more than the container's limit of "
                f"{quantity.write(limit)}; lower it, or raise the limit",
            )


def _memory_volumes(pod: Pod) -> dict[str, tuple[Location, Decimal | None]]:
    """The volumes in memory: where each stands, and how much it may hold."""
    found: dict[str, tuple[Location, Decimal | None]] = {}
    for index, volume in enumerate(pod.spec.get("volumes") or ()):
        source = volume.get("emptyDir")
        if isinstance(source, Mapping) and source.get("medium") == "Memory":
            at = (*pod.path, "spec", "volumes", index, "emptyDir")
            found[str(volume.get("name"))] = at, _amount(source.get("sizeLimit"))
    return found


def _amount(value: Any) -> Decimal | None:
    return None if value is None or is_output(value) else quantity.parse(value)


def _above_limits(pod: Pod, ctx: Context) -> Iterator[Finding]:
    """Volumes in memory that may hold more than the containers that mount them.

    What is written there counts as memory of the container that writes it.
    """
    containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
    written = len(pod.written["spec"].get("volumes") or ())
    for name, (at, size) in _memory_volumes(pod).items():
        limits = [
            _amount(limit_of(each, "memory"))
            for each in containers
            if any(mount.get("name") == name for mount in each.get("volumeMounts") or ())
        ]
        known = [limit for limit in limits if limit is not None]
        if size is None or not known or len(known) < len(limits) or size <= max(known):
            continue
        index = at[-2]
        own = isinstance(index, int) and index < written
        yield warning(
            MEMORY_VOLUME_ABOVE_LIMIT,
            (*at, "sizeLimit") if own else ctx.at("kvTransfer", "sharedMemory"),
            f"{quantity.write(size)} in memory is more than {quantity.write(max(known))}, the "
            "memory limit of the containers that mount it; lower it, or raise the limit",
        )


_DISK = "ephemeral-storage"


def disk_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Refuses limits of `ephemeral-storage` below the model's size: the kubelet evicts such pods.

    It holds an emptyDir against the sum of the containers' limits, and what a container writes
    elsewhere against its own (`pkg/kubelet/eviction`).
    """
    model, files = ctx.model, ctx.files
    if model is None or files is None or model.size is None or model.cache is not None:
        return
    for pod in pods.written:
        if files.fetched:
            containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
        elif not files.model.startswith("/") and pod.leads and not _writes_to_volume(pod):
            containers = [pod.container]
        else:
            continue
        asked = (_amount(limit_of(each, _DISK)) for each in containers)
        limits = [limit for limit in asked if limit is not None]
        if limits and sum(limits) < quantity.parse(model.size):
            yield error(
                DISK_LIMIT_BELOW_MODEL_SIZE,
                (*pod.container_path, "resources", "limits", _DISK),
                f"{quantity.write(Decimal(sum(limits)))} of disk is less than the model, which has "
                f"{model.size} (model.size): the kubelet evicts the pod; raise it, or use "
                "model.cache",
            )


def _writes_to_volume(pod: Pod) -> bool:
    """Whether the serving container may write to a volume."""
    paths = [str(each.get("mountPath")) for each in pod.container.get("volumeMounts") or ()]
    return any(path.rstrip("/") != SHARED_MEMORY for path in paths)
