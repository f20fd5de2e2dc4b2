"""Resource requests of pods; recognizes accelerators, and nodes that are schedulable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from fusioninfer_pulumi.kube import labels, quantity

# Resource names of device plugins.
_ACCELERATORS = (
    "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu",
    "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi", "google.com/tpu",
    "aws.amazon.com/neuron", "aws.amazon.com/neurondevice", "aws.amazon.com/neuroncore",
    "huawei.com/Ascend910", "huawei.com/Ascend310P",
    "cambricon.com/mlu", "furiosa.ai/rngd", "rebellions.ai/ATOM",
)  # fmt: skip
_ACCELERATOR_PREFIXES = ("nvidia.com/mig-",)
# Real names, not misspelled accelerators: KubeVirt's devices, Huawei's other chips.
_OTHER_SUFFIXES = ("/vgpu", "/pgpu")
_OTHER_PREFIXES = ("huawei.com/Ascend",)
#: Cutoff for difflib, just above the similarity of `arm.com/gpu`, a real name, to `amd.com/gpu`.
_MIN_SIMILARITY = 0.92
#: Prefixes of accelerators whose number may differ from the engine's number of ranks.
_PREFIXES_WITHOUT_RANKS = ("aws.amazon.com/neuron", "nvidia.com/mig-")

Amounts = dict[str, Decimal]


def is_accelerator(resource: str) -> bool:
    """Return whether a resource is an accelerator."""
    return resource in _ACCELERATORS or resource.startswith(_ACCELERATOR_PREFIXES)


def is_extended(resource: str) -> bool:
    """Return whether a resource is an extended resource: qualified, and not Kubernetes' own."""
    return "/" in resource and "kubernetes.io/" not in resource


def suggest_accelerator(resource: str) -> str | None:
    """Return the accelerator that a misspelled name such as `nvidia.com/gpus` means, or None."""
    if is_accelerator(resource):
        return None
    if resource.startswith(_OTHER_PREFIXES) or resource.endswith(_OTHER_SUFFIXES):
        return None
    import difflib  # noqa: PLC0415  # startup time: few names get here

    names = {name.lower(): name for name in _ACCELERATORS}
    close = difflib.get_close_matches(resource.lower(), names, n=1, cutoff=_MIN_SIMILARITY)
    return names[close[0]] if close else None


def pod_requests(template: Mapping[str, Any]) -> Amounts:
    """Return the effective requests of one pod by resource name, as the scheduler counts them.

    A pod needs the larger of two amounts: the sum of its containers and all sidecars, or the sum of
    the largest init container and the sidecars before it (Kubernetes, "Init containers: resource
    sharing within containers"). Amounts in the pod's own `resources` replace this amount, and the
    pod's overhead is added. A missing request equals its limit.
    """
    spec = template.get("spec") or {}
    sidecars: Amounts = {}
    largest_init: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _sum((sidecars, _parse_requests(container)))
        if container.get("restartPolicy") == "Always":
            sidecars = amounts
        largest_init = _take_larger(largest_init, amounts)
    after_init = _sum((sidecars, *map(_parse_requests, spec["containers"])))
    requests = _take_larger(after_init, largest_init)
    if isinstance(spec.get("resources"), Mapping):
        requests = {**requests, **_parse_requests(spec)}
    overhead = {
        name: quantity.parse(amount) for name, amount in (spec.get("overhead") or {}).items()
    }
    return _sum((requests, overhead))


def count_accelerators(template: Mapping[str, Any]) -> int:
    """Return how many accelerators one pod requests as resources; DRA claims are not counted."""
    requests = pod_requests(template).items()
    return int(sum(amount for name, amount in requests if is_accelerator(name)))


def has_one_rank_per_accelerator(template: Mapping[str, Any]) -> bool:
    """Return whether an engine runs one rank on each accelerator that the pod requests."""
    return not any(name.startswith(_PREFIXES_WITHOUT_RANKS) for name in pod_requests(template))


def get_limit(container: Mapping[str, Any], resource: str) -> Any:
    """Return a container's limit of a resource as in the manifest, or None if there is none."""
    return ((container.get("resources") or {}).get("limits") or {}).get(resource)


def sum_requests(requests: Iterable[tuple[Amounts, int]]) -> dict[str, str]:
    """Return the total of `requests`: pairs of a pod's requests and the number of such pods."""
    amounts = _sum(
        {name: amount * pods for name, amount in per_pod.items()} for per_pod, pods in requests
    )
    return {name: quantity.write(amounts[name]) for name in sorted(amounts)}


def _parse_requests(container_or_pod: Mapping[str, Any]) -> Amounts:
    resources = container_or_pod.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {str(name): quantity.parse(amount) for name, amount in requests.items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    amounts: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            amounts[name] = amounts.get(name, Decimal(0)) + amount
    return amounts


def _take_larger(first: Amounts, second: Amounts) -> Amounts:
    return {
        name: max(first.get(name, Decimal(0)), second.get(name, Decimal(0)))
        for name in {**first, **second}
    }


def is_schedulable(node: Mapping[str, Any]) -> bool:
    """Return whether a node is ready, not cordoned, and has no taint of a node condition.

    Other taints are ignored, because pods may tolerate them.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    has_condition_taint = any(
        str(taint.get("key")).startswith(labels.NODE_CONDITION_TAINTS)
        and taint.get("effect") != "PreferNoSchedule"
        for taint in spec.get("taints") or ()
    )
    return ready and not has_condition_taint and not spec.get("unschedulable")
