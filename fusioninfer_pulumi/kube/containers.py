"""Adds to containers and pod templates, without changing them in place.

The user's entries take precedence: a variable, volume or mount of the same name is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

#: Where processes share memory: 64 MiB unless a volume is mounted there.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount path

Mapped = Mapping[str, Any]
Manifest = dict[str, Any]


def add_env(container: Mapped, variables: Sequence[Mapped]) -> Manifest:
    """Return a container with more variables; those whose names it already has are skipped."""
    existing = list(container.get("env") or ())
    names = {variable.get("name") for variable in existing}
    added = [dict(variable) for variable in variables if variable["name"] not in names]
    return {**container, "env": [*existing, *added]} if added else dict(container)


def restricted(user: int | None = None, **fields: Any) -> Manifest:
    """Return a container's `securityContext` that Pod Security's `restricted` level accepts.

    The user is explicit where a pod that runs its engine as root would pass that on.
    """
    if user is not None:
        fields |= {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user}
        fields["seccompProfile"] = {"type": "RuntimeDefault"}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **fields}


def field_variable(name: str, path: str) -> Manifest:
    """Return a variable with the value of a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def add_mounts(container: Mapped, mounts: Sequence[Mapped]) -> Manifest:
    """Return a container with more mounts after its own."""
    if not mounts:
        return dict(container)
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}


def mounted(container: Mapped, path: str) -> Mapped | None:
    """Return the mount at a path, None without one."""
    for mount in container.get("volumeMounts") or ():
        if str(mount.get("mountPath")).rstrip("/") == path:
            mapped: Mapped = mount
            return mapped
    return None


def choose_free_name(wanted: str, existing: Iterable[Mapped] | None) -> str:
    """Return a name that no existing volume or container has, numbered if it is taken."""
    taken = {existing_container.get("name") for existing_container in existing or ()}
    numbered = (f"{wanted}-{number}" for number in count(2))
    return wanted if wanted not in taken else next(name for name in numbered if name not in taken)


def shared_memory(
    spec: Mapped, container: Mapped, limit: str | None
) -> tuple[Manifest, Manifest] | None:
    """Return a volume at `/dev/shm` and its mount, for one container of a pod spec.

    None if the container mounts something there already, or if the pod uses the host's IPC
    namespace, which has the host's shared memory.
    """
    source = {"medium": "Memory", **({} if limit is None else {"sizeLimit": limit})}
    return None if spec.get("hostIPC") else empty_dir(spec, container, "shm", SHARED_MEMORY, source)


def empty_dir(
    spec: Mapped, container: Mapped, name: str, path: str, source: Mapped
) -> tuple[Manifest, Manifest] | None:
    """Return an `emptyDir` volume and its mount; None if the container mounts that path."""
    if mounted(container, path) is not None:
        return None
    name = choose_free_name(name, spec.get("volumes"))
    return {"name": name, "emptyDir": dict(source)}, {"name": name, "mountPath": path}


def overlay(generated: Any, override: Any) -> Any:
    """Return the generated value with the user's value merged over it; neither is changed.

    Mappings merge by key, lists of named items (containers, volumes, env, mounts) by name. Any
    other value is replaced by the user's. A null removes a key.
    """
    if isinstance(generated, Mapping) and isinstance(override, Mapping):
        merged = {
            key: overlay(generated[key], override[key]) if key in override else generated[key]
            for key in generated
            if override.get(key, "") is not None
        }
        added = {key: value for key, value in override.items() if key not in generated}
        return {**merged, **added}
    if isinstance(generated, list) and isinstance(override, list) and _named(generated + override):
        by_name = {item["name"]: item for item in override}
        kept = [
            overlay(item, by_name[item["name"]]) if item["name"] in by_name else item
            for item in generated
        ]
        names = {item["name"] for item in generated}
        return [*kept, *(item for item in override if item["name"] not in names)]
    return override


def _named(items: list[Any]) -> bool:
    return all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items)


def mirrored(image: str, registry: str | None) -> str:
    """Return an image at a mirror: the registry of its name is replaced, the path stays."""
    if registry is None:
        return image
    host, _, path = image.partition("/")
    # As in Docker's references: a first part without a dot or a port is a path of Docker Hub.
    return f"{registry}/{path if '.' in host or ':' in host else image}"
