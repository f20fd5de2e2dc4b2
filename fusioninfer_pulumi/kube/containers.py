"""Completes containers and pod templates; functions return copies.

The user's entries take precedence over generated ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from fusioninfer_pulumi.kube.object_metadata import Manifest

#: Path of a container's shared memory, which has 64 MiB unless a volume is mounted there.
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount path

#: A container, a pod spec or another part of a manifest.
Fields = Mapping[str, Any]


def add_env(container: Fields, variables: Sequence[Fields]) -> Manifest:
    """Return a container with variables added, except those whose names it already has."""
    existing = list(container.get("env") or ())
    names = {variable.get("name") for variable in existing}
    added = [dict(variable) for variable in variables if variable["name"] not in names]
    return {**container, "env": [*existing, *added]} if added else dict(container)


def build_security_context(user: int | None = None, **fields: Any) -> Manifest:
    """Return a `securityContext` that the `restricted` Pod Security Standard accepts.

    If `user` is None, the pod's security context must set `runAsNonRoot` and `seccompProfile`.
    """
    if user is not None:
        fields |= {"runAsNonRoot": True, "runAsUser": user, "runAsGroup": user}
        fields["seccompProfile"] = {"type": "RuntimeDefault"}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, **fields}


def build_field_variable(name: str, path: str) -> Manifest:
    """Return an environment variable whose value is a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def add_mounts(container: Fields, mounts: Sequence[Fields]) -> Manifest:
    """Return a container with mounts appended."""
    if not mounts:
        return dict(container)
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}


def find_mount(container: Fields, path: str) -> Fields | None:
    """Return the container's mount at a path, or None if nothing is mounted there."""
    mounts: Iterable[Fields] = container.get("volumeMounts") or ()
    return next((item for item in mounts if str(item.get("mountPath")).rstrip("/") == path), None)


def choose_free_name(wanted: str, existing: Iterable[Fields] | None) -> str:
    """Return a wanted name, with a number appended if an existing item has the name."""
    taken = {item.get("name") for item in existing or ()}
    candidates = chain([wanted], (f"{wanted}-{number}" for number in count(2)))
    return next(name for name in candidates if name not in taken)


def build_shared_memory(
    spec: Fields, container: Fields, limit: str | None
) -> tuple[Manifest, Manifest] | None:
    """Return a volume at `/dev/shm` and its mount, for one container of a pod spec.

    Return None if the container already mounts a volume there, or if the pod uses the host's IPC
    namespace, and with it the host's shared memory. `limit` is the volume's size limit.
    """
    if spec.get("hostIPC"):
        return None
    source = {"medium": "Memory"} if limit is None else {"medium": "Memory", "sizeLimit": limit}
    return build_empty_dir(spec, container, name="shm", path=SHARED_MEMORY, source=source)


def build_empty_dir(
    spec: Fields, container: Fields, name: str, path: str, source: Fields
) -> tuple[Manifest, Manifest] | None:
    """Return an `emptyDir` volume and its mount, or None if the container mounts that path."""
    if find_mount(container, path) is not None:
        return None
    name = choose_free_name(name, spec.get("volumes"))
    return {"name": name, "emptyDir": dict(source)}, {"name": name, "mountPath": path}


def overlay(generated: Any, override: Any) -> Any:
    """Return a copy of the generated value with the user's value merged over it.

    Mappings merge by key, lists of named items (containers, volumes, env, mounts) by name. Any
    other value is replaced with the user's. A null in the user's mapping removes a generated key.
    """
    if isinstance(generated, Mapping) and isinstance(override, Mapping):
        merged = {key: overlay(generated.get(key), value) for key, value in override.items()}
        removed = {key for key in generated if key in override and override[key] is None}
        return {key: value for key, value in {**generated, **merged}.items() if key not in removed}
    if _is_list_of_named_items(generated) and _is_list_of_named_items(override):
        overrides = {item["name"]: item for item in override}
        merged_items = [
            overlay(item, overrides[item["name"]]) if item["name"] in overrides else item
            for item in generated
        ]
        names = {item["name"] for item in generated}
        return [*merged_items, *(item for item in override if item["name"] not in names)]
    return override


def _is_list_of_named_items(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in value
    )


def use_mirror(image: str, registry: str | None) -> str:
    """Return an image name with its registry replaced, or unchanged if `registry` is None."""
    if registry is None:
        return image
    host, slash, path = image.partition("/")
    # Without a dot or a port, the part before the slash belongs to a path on Docker Hub.
    has_registry = slash and ("." in host or ":" in host)
    return f"{registry}/{path if has_registry else image}"
