"""Containers that the API server takes and no kubelet starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, error, warning
from fusioninfer_pulumi.kube import quantity
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.kube.outputs import is_output
from fusioninfer_pulumi.kube.resources import limit_of
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context, Pod

ROOT_WITH_NON_ROOT = Rule(
    "root-with-non-root",
    ("error", "warning"),
    "With `runAsNonRoot` neither a container nor its image runs as user 0.",
    remedy="Set `runAsUser`, or use an image with a user of its own.",
    source="Kubernetes 1.35, pkg/kubelet/kuberuntime/security_context.go",
)
MEMORY_LIMIT_WITHOUT_UNIT = Rule(
    "memory-limit-without-unit",
    "error",
    "A memory limit is large enough for a container to start.",
    remedy="Add a unit such as Gi.",
    source="runc refuses less than 6 MiB",
)

ROOT_FILE_SYSTEM_READ_ONLY = Rule(
    "root-file-system-read-only",
    "warning",
    "An engine with `readOnlyRootFilesystem` has a volume that it can write to.",
    remedy="Mount an `emptyDir` at /tmp, and one at the cache of models.",
    source="vLLM and SGLang write sockets and temporary files to /tmp",
)

#: Container runtimes refuse less (runc: 6 MiB, CRI-O: 12 MiB); `512m` is half a byte.
_LEAST_MEMORY = quantity.parse("4Mi")


def kubelet_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Refuses containers that never start."""
    for pod in pods.written:
        shared = pod.written["spec"].get("securityContext") or {}
        for field in ("containers", "initContainers"):
            for index, container in enumerate(pod.written["spec"].get(field) or ()):
                at = (*pod.path, "spec", field, index)
                yield from _user(at, container, shared)
                yield from _memory(at, container)
        yield from _stock_image(pod)


def _stock_image(pod: Pod) -> Iterator[Finding]:
    """What the security context of the serving container takes from an engine's own image."""
    shared, container = pod.spec.get("securityContext") or {}, pod.container
    container_context = container.get("securityContext") or {}
    command = pod.own_command
    if is_output(container_context) or is_output(shared) or command.engine is None:
        return
    at = pod.container_path
    context = {
        **shared,
        **{key: value for key, value in container_context.items() if value is not None},
    }
    if command.image.stock and context.get("runAsNonRoot") is True and "runAsUser" not in context:
        where = (*at, "securityContext") if container_context.get("runAsNonRoot") is True else at
        message = f"the image {command.image.name} runs as root, which runAsNonRoot: true forbids"
        yield warning(ROOT_WITH_NON_ROOT, where, f"{message}; set runAsUser")
    if container_context.get("readOnlyRootFilesystem") is True and not _can_write(pod):
        yield warning(
            ROOT_FILE_SYSTEM_READ_ONLY,
            (*at, "securityContext", "readOnlyRootFilesystem"),
            f"{command.engine.title} writes to /tmp and to its caches, and no volume can be "
            "written to; mount an emptyDir at /tmp",
        )


def _can_write(pod: Pod) -> bool:
    mounts = pod.container.get("volumeMounts") or ()
    return any(
        mount.get("readOnly") is not True
        and str(mount.get("mountPath")).rstrip("/") != SHARED_MEMORY
        for mount in mounts
    )


def _user(at: Location, container: Mapping[str, Any], shared: Any) -> Iterator[Finding]:
    container_context = container.get("securityContext") or {}
    if is_output(container_context) or is_output(shared):
        return
    merged = {
        **shared,
        **{key: value for key, value in container_context.items() if value is not None},
    }
    if merged.get("runAsNonRoot") is True and merged.get("runAsUser") == 0:
        message = "0 is root, which runAsNonRoot: true forbids; change one of them"
        yield error(ROOT_WITH_NON_ROOT, (*at, "securityContext", "runAsUser"), message)


def _memory(at: Location, container: Mapping[str, Any]) -> Iterator[Finding]:
    limit = limit_of(container, "memory")
    if limit is None or is_output(limit):
        return
    amount = quantity.parse(limit)
    if 0 < amount < _LEAST_MEMORY:
        yield error(
            MEMORY_LIMIT_WITHOUT_UNIT,
            (*at, "resources", "limits", "memory"),
            f"{limit} is {quantity.write(amount)} bytes, with which no container starts; add a "
            "unit such as Gi",
        )
