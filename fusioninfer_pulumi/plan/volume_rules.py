"""Volumes and mounts of a pod that an API server refuses, as pod validation of Kubernetes does."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, error, shown
from fusioninfer_pulumi.plan.completion.templates import places
from fusioninfer_pulumi.plan.pod_edits import shared_memory
from fusioninfer_pulumi.plan.records import RolePlan
from fusioninfer_pulumi.spec.role import RoleArgs

#: Fields of core/v1 `VolumeSource` in Kubernetes 1.36.
_NAMES = """
    awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir
    ephemeral fc flexVolume flocker gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs
    persistentVolumeClaim photonPersistentDisk portworxVolume projected quobyte rbd scaleIO secret
    storageos vsphereVolume
"""
_SOURCES = frozenset(_NAMES.split())


def volume_findings(role: RoleArgs, plan: RolePlan) -> Iterator[Finding]:
    """Checks the pods of a role.

    Args:
        role: The role with complete pod templates.
        plan: Its plan.

    Yields:
        Errors about volumes and mounts that no API server takes.
    """
    for place in places(plan.position, role):
        spec = place.template["spec"]
        ours: list[str] = []
        if plan.wiring is not None and plan.wiring.shared_memory is not None:
            added = shared_memory(spec, place.container, plan.wiring.shared_memory)
            ours = [] if added is None else [added[0]["name"]]
        yield from pod_volume_findings(f"{place.at}.spec", spec, ours)


def pod_volume_findings(
    at: str, spec: Mapping[str, Any], others: Collection[str] = ()
) -> Iterator[Finding]:
    """Checks the volumes of one pod, and that its containers mount no others.

    Args:
        at: Where the pod spec stands.
        spec: The pod spec.
        others: Names of volumes that the pod gets besides.

    Yields:
        Errors about what no API server takes.
    """
    listed = spec.get("volumes") or ()
    names: list[Any] = []
    for index, volume in _mappings(listed):
        here, name = f"{at}.volumes[{index}]", volume.get("name")
        if isinstance(name, str) and name in names:
            yield error(f"{here}.name", f"{shown(name)} names two volumes of the pod")
        names.append(name)
        sources = [key for key, value in volume.items() if key in _SOURCES and value is not None]
        if len(sources) > 1:
            yield error(here, f"takes one source, got {' and '.join(sources)}; remove one of them")
    if not isinstance(listed, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return  # an Output, or for the API server to judge
    known = {*names, *others}
    for field in ("initContainers", "containers"):
        for index, container in _mappings(spec.get(field)):
            for key in ("volumeMounts", "volumeDevices"):
                yield from _mounts(f"{at}.{field}[{index}].{key}", container.get(key), known)


def _mounts(at: str, mounts: Any, known: Collection[str]) -> Iterator[Finding]:
    for index, mount in _mappings(mounts):
        name = mount.get("name")
        if isinstance(name, str) and name not in known:
            have = f"; it has {', '.join(sorted(known))}" if known else ""
            yield error(
                f"{at}[{index}].name",
                f"the pod has no volume {shown(name)}{have}: add it to its volumes",
            )


def _mappings(items: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings of a list with their indexes; anything else is checked by others."""
    for index, item in enumerate(items if isinstance(items, (list, tuple)) else ()):
        if isinstance(item, Mapping):
            yield index, item
