"""Changes of containers and pod specs, which are never changed in place.

What the author of a template wrote is never replaced: a variable, a volume or a mount of the same
name stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

#: Where processes share memory: 64 MiB unless a volume is mounted there.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount path

Mapped = Mapping[str, Any]
Manifest = dict[str, Any]


def with_env(container: Mapped, variables: Sequence[Mapped]) -> Manifest:
    """A container with more variables behind its own, those of the same names left out."""
    given = list(container.get("env") or ())
    names = {each.get("name") for each in given}
    added = [dict(each) for each in variables if each["name"] not in names]
    return {**container, "env": [*given, *added]} if added else dict(container)


def with_mounts(container: Mapped, mounts: Sequence[Mapped]) -> Manifest:
    """A container with more mounts behind its own."""
    if not mounts:
        return dict(container)
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}


def with_volumes(spec: Mapped, volumes: Sequence[Mapped]) -> Manifest:
    """A pod spec with more volumes behind its own."""
    if not volumes:
        return dict(spec)
    return {**spec, "volumes": [*(spec.get("volumes") or ()), *volumes]}


def mounted(container: Mapped, path: str) -> Mapped | None:
    """What a container mounts at a path."""
    for mount in container.get("volumeMounts") or ():
        if str(mount.get("mountPath")).rstrip("/") == path:
            found: Mapped = mount
            return found
    return None


def free_name(wanted: str, given: Iterable[Mapped] | None) -> str:
    """A name that none of the volumes, or of the containers, of a template has.

    Args:
        wanted: The name, if nothing has it; else a number is put behind it.
        given: What the template has.
    """
    taken = {each.get("name") for each in given or ()}
    numbered = (f"{wanted}-{number}" for number in count(2))
    return wanted if wanted not in taken else next(each for each in numbered if each not in taken)


def memory(limit: str | None) -> Manifest:
    """The `emptyDir` of shared memory.

    Args:
        limit: Its size limit, None for the pod's memory.
    """
    return {"medium": "Memory", **({} if limit is None else {"sizeLimit": limit})}


def shared_memory(
    spec: Mapped, container: Mapped, source: Mapped
) -> tuple[Manifest, Manifest] | None:
    """The volume at the path where the processes of a container share memory.

    Args:
        spec: The pod spec of the template.
        container: Its serving container.
        source: The volume's `emptyDir`.

    Returns:
        The volume and its mount; None where the container has something at that path already, or
        the host's shared memory, which comes with its IPC namespace.
    """
    if spec.get("hostIPC") or mounted(container, SHARED_MEMORY) is not None:
        return None
    name = free_name("shm", spec.get("volumes"))
    return {"name": name, "emptyDir": dict(source)}, {"name": name, "mountPath": SHARED_MEMORY}
