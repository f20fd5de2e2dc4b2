"""What KServe's presets lay below every pod that serves, beside the script that starts the engine.

From config/llmisvcconfig of KServe's sources, v0.20. `docs/systems.md` lists what is left to
settings of ours (the end of a pod, readiness) or has no counterpart (certificates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.facts import SHARED_MEMORY
from fusioninfer_pulumi.engines.flags import flag_value, integer
from fusioninfer_pulumi.importers.carrier import Book
from fusioninfer_pulumi.importers.kserve.merging import Node, edited, made, merged

MAIN = "main"
#: Variable whose words the presets' script puts before the container's own args.
ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
#: Volumes by the paths at which `main` mounts them.
_VOLUMES = {"/home": "home", "/tmp": "tmp-dir", SHARED_MEMORY: "dshm", "/models": "model-cache"}  # noqa: S108  # paths in a pod
_ENV = {"HOME": "/home", "HF_HUB_CACHE": "/models"}
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
#: What pods of data parallel ranks may do besides, for RDMA.
_CAPABILITIES = ["IPC_LOCK", "SYS_RAWIO", "NET_RAW"]
_SINGLE, _SEVERAL = "1Gi", "8Gi"
_PORT = 8000
#: What a probe says beside its handler.
_PACE = {
    "livenessProbe": {"periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 10},
    "readinessProbe": {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2},
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 60},
}
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")


@dataclass(frozen=True)
class Preset:
    """Which of the presets holds for a pod.

    Attributes:
        several: Whether a replica has several pods.
        ranks: Whether these are data parallel ranks.
        leads: Whether the pod answers requests.
        offloads: Whether the KV cache is offloaded into shared memory.
    """

    several: bool
    ranks: bool
    leads: bool
    offloads: bool


def with_preset(book: Book, pod: Node, preset: Preset) -> Node:
    """A pod spec with what KServe's presets lay below it.

    Args:
        book: Where is noted what becomes of the fields.
        pod: The pod spec as the user wrote it; without containers it gets `main`.
        preset: Which of them.
    """
    listed, volumes = pod.get("containers"), pod.get("volumes")
    if listed is None:
        listed = made(pod.at, [{"name": MAIN}])
    containers = [
        _container(each, preset) if each.text("name") == MAIN else each for each in listed.items
    ]
    if listed.items:
        pod = edited(pod, containers=Node(listed.at, containers, listed.made))
    if volumes is None or isinstance(volumes.content, list):
        pod = edited(pod, volumes=_volumes(book, volumes or made(pod.at, []), preset))
    return pod


def _security(preset: Preset) -> dict[str, Any]:
    if not preset.ranks:
        return _SECURITY
    return {**_SECURITY, "capabilities": {"add": _CAPABILITIES, "drop": ["ALL"]}}


def _volumes(book: Book, given: Node, preset: Preset) -> Node:
    """The volumes; one of the user's with another source stands alone."""
    below: list[dict[str, Any]] = []
    for name in _VOLUMES.values():
        own = next((each for each in given.items if each.text("name") == name), None)
        others = (
            [] if own is None else [key for key in own.content if key not in ("name", "emptyDir")]
        )
        if own is not None and others:
            book.note(
                own.at,
                f"KServe's presets have an emptyDir of this name, and API servers take no volume "
                f"with two sources; here {others[0]} holds alone",
            )
        else:
            below.append({"name": name, "emptyDir": _empty_dir(name, preset)})
    return merged(made(given.at, below), given, "volumes")


def _empty_dir(name: str, preset: Preset) -> dict[str, Any]:
    if name != _VOLUMES[SHARED_MEMORY]:
        return {}
    # The presets' limit has no room for an offloaded cache; its size is checked where it is stated.
    limit = {} if preset.offloads else {"sizeLimit": _SEVERAL if preset.several else _SINGLE}
    return {"medium": "Memory", **limit}


def _container(container: Node, preset: Preset) -> Node:
    mounts = [{"name": name, "mountPath": path} for path, name in _VOLUMES.items()]
    env = [{"name": name, "value": value} for name, value in _ENV.items()]
    security, own = made(container.at, _security(preset)), container.get("securityContext")
    return edited(
        container,
        env=_below(container, "env", "name", env),
        volumeMounts=_below(container, "volumeMounts", "mountPath", mounts),
        securityContext=security if own is None else merged(security, own),
        **{probe: _probe(container, probe, preset) for probe in _PACE},
    )


def _below(container: Node, field: str, key: str, items: list[dict[str, Any]]) -> Node:
    """A list of a container with those items in front of it that it has no other for."""
    own = container.get(field)
    if own is not None and not isinstance(own.content, list):
        return own  # our own rules refuse it
    given = own.items if own is not None else []
    taken = {(each.text(key) or "").rstrip("/") for each in given}
    free = made(container.at, [each for each in items if each[key] not in taken])
    return free if own is None else Node(own.at, [*free.items, *given], own.made)


def _probe(container: Node, name: str, preset: Preset) -> Node | None:
    """A probe with what the user left to the presets'."""
    own = container.get(name)
    if not isinstance(own.content if own is not None else {}, dict):
        return own
    if own is None and (name != "livenessProbe" or not preset.leads or container.get("command")):
        # How long a start may take, and when a pod is ready, are settings of the role.
        return None
    below: dict[str, Any] = dict(_PACE[name])
    if own is None or not any(own.get(handler) for handler in _HANDLERS):
        below["httpGet"] = {"path": "/health", "port": _port(container)}
    laid = made(container.at, below)
    return laid if own is None else merged(laid, own)


def _port(container: Node) -> int:
    """The port of the engine: that of the presets, unless the words say otherwise."""
    env, args = container.get("env"), container.get("args")
    variables = env.items if env is not None else []
    texts = [each.text("value") for each in variables if each.text("name") == ADDITIONAL]
    texts += [str(each.content) for each in (args.items if args is not None else [])]
    words = [word for text in texts if text is not None for word in text.split()]
    return integer(flag_value(words, "--port")) or _PORT
