"""Checks of pods' resources: accelerators, device claims, memory, shared memory, disk."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.api.kv_cache import KvCacheOffloadingArgs
from fusioninfer_pulumi.api.service_shape import VOLCANO
from fusioninfer_pulumi.checks.pods.template_checks import parse_amount
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.launchers import COMMAND_EDITING_LAUNCHERS
from fusioninfer_pulumi.findings import Finding, Location, Rule, error, format_path, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, find_mount
from fusioninfer_pulumi.kube.resource_requests import (
    get_limit,
    is_accelerator,
    is_extended,
    suggest_accelerator,
)
from fusioninfer_pulumi.pods.kv_cache import DISK, get_shared_memory_limit, sum_disk
from fusioninfer_pulumi.pods.model_files import plan_model_files
from fusioninfer_pulumi.pods.pod import Context, Pod, RolePods
from fusioninfer_pulumi.presets.model_catalogue import get_weights_size

ACCELERATORS_NOT_REQUESTED = Rule("accelerators-not-requested")

#: Names of network devices, which are extended resources, but not accelerators.
_NETWORK_DEVICE = re.compile(r"rdma|roce|infiniband|sriov|mlx|mlnx|efa$|nic")
#: Images of engines for CPUs, and of programs that simulate an engine.
_NO_ACCELERATOR = re.compile(r"(?<![a-z])(cpu|xeon|openvino|sim|simulator|mock|fake)(?![a-z])")
#: Variables of engines that are built for CPUs.
_CPU_VARIABLES = re.compile(r"VLLM_CPU_\w+|SGLANG_USE_CPU_ENGINE|VLLM_TARGET_DEVICE")


def check_accelerator_requests(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn about engines that have no accelerator."""
    for pod in pods.user_pods:
        # `template_checks` reports a misspelled resource.
        is_misspelled = any(suggest_accelerator(name) for name, _ in _list_resource_amounts(pod))
        # With a launcher that edits commands, workers run ranks of the leader's engine.
        runs_leader_engine = pod.is_leader or ctx.launcher in COMMAND_EDITING_LAUNCHERS
        leader_engine = pods.command.engine if runs_leader_engine else None
        engine = leader_engine or pod.initial_command.engine
        if engine is None or is_misspelled:
            continue
        if _has_devices(pod) or _may_run_on_cpu(pod, pods.command):
            continue
        requested = [
            f"{name}: {amount}"
            for name, amount in _list_resource_amounts(pod)
            if is_accelerator(name)
        ]
        request = f"requests {requested[0]}" if requested else "requests none"
        message = (
            f"{engine.title} needs accelerators, but the container {request}; add limits such as "
            "nvidia.com/gpu: 1, or --device cpu if the image is built for CPUs"
        )
        yield warning(ACCELERATORS_NOT_REQUESTED, (*pod.container_path, "resources"), message)


def _list_resource_amounts(pod: Pod) -> Iterator[tuple[str, Any]]:
    """Yield name and amount of each resource of the serving container; limits take precedence."""
    resources = pod.container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    yield from ((str(name), amount) for name, amount in amounts.items())


def _has_devices(pod: Pod) -> bool:
    """Return whether the serving container requests or claims devices, or is privileged."""
    if (pod.container.get("resources") or {}).get("claims"):
        return True
    for name, amount in _list_resource_amounts(pod):
        is_device = is_accelerator(name) or (is_extended(name) and not _NETWORK_DEVICE.search(name))
        if is_device and quantity.parse(amount) > 0:
            return True
    return (pod.container.get("securityContext") or {}).get("privileged") is True


def _may_run_on_cpu(pod: Pod, leader_command: EngineCommand) -> bool:
    image = (leader_command if pod.is_leader else pod.initial_command).image
    may_be_cpu_image = image.name is None or _NO_ACCELERATOR.search(image.name.lower()) is not None
    has_cpu_variable = any(
        _CPU_VARIABLES.fullmatch(str(variable.get("name")))
        for variable in pod.container.get("env") or ()
    )
    return may_be_cpu_image or has_cpu_variable or leader_command.value("--device") == "cpu"


VOLCANO_IGNORES_CLAIMS = Rule("volcano-ignores-claims")


def check_volcano_claims(roles: Iterable[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warn if Volcano schedules pods that have device claims.

    By default Volcano 1.14.1 ignores claims (pkg/scheduler/plugins/predicates). It binds pods
    without allocating their devices, and kubelets do not start them (e2e/test_claims.py).
    """
    for ctx, pods in roles:
        if ctx.shape.scheduler != VOLCANO:
            return  # all roles have the service's scheduler
        locations = [ctx.locate("resourceClaims")] if ctx.role.resource_claims else []
        locations += [
            (*pod.path, "spec", "resourceClaims")
            for pod in pods.user_pods
            if pod.initial_template["spec"].get("resourceClaims")
        ]
        if locations:
            message = (
                "Volcano binds these pods without the devices that they claim, so they never "
                "start, unless its predicates plugin has "
                "predicate.DynamicResourceAllocationEnable: true (1.14.1: false by default); set "
                "it, turn gangs off (gangPolicy.mode), or choose another schedulerName"
            )
            yield warning(VOLCANO_IGNORES_CLAIMS, locations[0], message)
            return


DISK_LIMIT_TOO_SMALL = Rule("disk-limit-too-small")
MEMORY_LIMIT_TOO_SMALL = Rule("memory-limit-too-small")
SHARED_MEMORY_MISSING = Rule("shared-memory-missing")


def check_shared_memory(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Warn about missing shared memory, or shared memory above the container's memory limit."""
    has_several_ranks = _count_communicating_ranks(pods, ctx) > 1
    shared_memory = parse_amount(get_shared_memory_limit(ctx.role))
    for pod in pods.user_pods:
        limit = parse_amount(get_limit(pod.container, "memory"))
        if shared_memory is not None and limit is not None and shared_memory > limit:
            message = (
                f"must be at most the container's memory limit ({quantity.write(limit)}), got "
                f"{quantity.write(shared_memory)}: files in shared memory count against the limit"
            )
            yield warning(MEMORY_LIMIT_TOO_SMALL, ctx.locate("kvTransfer", "sharedMemory"), message)
        has_engine = (
            pod.is_leader
            or ctx.launcher in COMMAND_EDITING_LAUNCHERS
            or bool(pod.initial_command.engine)
        )
        # Ranks on TPUs and Neuron devices do not communicate by shared memory.
        is_exempt = any(name.startswith(_EXEMPT_DEVICES) for name, _ in _list_resource_amounts(pod))
        is_missing = not pod.spec.get("hostIPC") and not find_mount(pod.container, SHARED_MEMORY)
        if has_several_ranks and has_engine and not is_exempt and is_missing:
            message = (
                "ranks of one pod need more shared memory than the default of 64Mi; mount an "
                f"emptyDir of medium Memory at {SHARED_MEMORY}"
            )
            yield warning(SHARED_MEMORY_MISSING, (*pod.container_path, "volumeMounts"), message)


_EXEMPT_DEVICES = ("google.com/tpu", "aws.amazon.com/neuron")


def _count_communicating_ranks(pods: RolePods, ctx: Context) -> int:
    """Return how many ranks of one copy of the model run in a pod."""
    sizes = pods.command.parallelism
    if sizes is None:
        return 1
    ranks = sizes.tensor * sizes.pipeline * sizes.context
    return min(ranks, sizes.count_accelerators(ctx.role.nodes) // ctx.role.nodes)


def check_disk_limits(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Report `ephemeral-storage` limits below the model's size: the kubelet evicts such pods.

    The kubelet compares files in an emptyDir with the sum of all containers' limits, and other
    files with the limit of the container that writes them (`pkg/kubelet/eviction`).
    """
    model = ctx.args.model
    if model is None or model.cache is not None:
        return
    files, served_model = plan_model_files(ctx.meta.service, model)
    for pod in pods.user_pods:
        if files.init_downloads:
            containers = [*pod.spec["containers"], *(pod.spec.get("initContainers") or ())]
        elif not served_model.model.startswith("/") and pod.is_leader:
            # The engine may download to any volume that it mounts. All but a plain emptyDir may be
            # somewhere other than the node's disk.
            disk_volumes = {
                v.get("name") for v in pod.spec.get("volumes") or () if v.get("emptyDir") == {}
            }
            mounted_volumes = {
                mount.get("name")
                for mount in pod.container.get("volumeMounts") or ()
                if str(mount.get("mountPath")).rstrip("/") != SHARED_MEMORY
            }
            containers = [pod.container] if mounted_volumes <= disk_volumes else []
        else:
            continue
        amounts = (parse_amount(get_limit(container, DISK)) for container in containers)
        limits = [limit for limit in amounts if limit is not None]
        size = get_weights_size(model) if limits else None
        if size is not None and sum(limits) < size:
            # If the size is from the model catalogue, the weights may have another precision.
            make_finding = error if model.size is not None else warning
            yield make_finding(
                DISK_LIMIT_TOO_SMALL,
                (*pod.container_path, "resources", "limits", DISK),
                f"{quantity.write(Decimal(sum(limits)))} of disk is smaller than the model "
                f"({size / 2**30:.0f} GiB): the kubelet evicts the pod; raise it, "
                "or use model.cache",
            )


def check_kv_cache_offloading(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Check the pods of a role that offloads its KV cache."""
    args, offload = ctx.role.kv_cache_offloading, pods.offload
    if args is None or offload is None:
        return
    for pod in pods.user_pods:
        yield from _check_offload_disk(pod, args)
        yield from _check_host_memory(ctx.locate("kvCacheOffloading", "cpu"), pod, offload.memory)


def _check_offload_disk(pod: Pod, args: KvCacheOffloadingArgs) -> Iterator[Finding]:
    resources = pod.initial_container.get("resources") or {}
    limit = parse_amount((resources.get("limits") or {}).get(DISK))
    needed = sum_disk(args) + quantity.parse((resources.get("requests") or {}).get(DISK, 0))
    if sum_disk(args) and limit is not None and limit < needed:
        yield error(
            DISK_LIMIT_TOO_SMALL,
            (*pod.container_path, "resources", "limits", DISK),
            f"{quantity.write(limit)} is too small for the emptyDirs of kvCacheOffloading: with "
            f"them the container requests {quantity.write(needed)}",
        )


def _check_host_memory(location: Location, pod: Pod, needed: Decimal) -> Iterator[Finding]:
    limit = get_limit(pod.container, "memory")
    amount, container = quantity.write(needed), format_path(pod.container_path)
    if limit is not None and needed >= quantity.parse(limit):
        message = (
            f"uses {amount} of host memory in each pod, but {container} is limited to {limit}; "
            "raise its memory limit, or offload less"
        )
        yield error(MEMORY_LIMIT_TOO_SMALL, location, message)
