"""What a user says of KServe's storage-initializer, as settings of the container that fetches."""

from __future__ import annotations

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import Path
from fusioninfer_pulumi.importers.kserve.merging import Node, carry, edited, made, merged

NAME = "storage-initializer"
_FETCHER: Path = ("spec", "model", "fetcher")
#: Fields that the container has with us, too.
_KNOWN = ("image", "env", "resources", "securityContext")
#: What the container asks for unless a user says otherwise (KServe's inferenceservice-config).
_REQUESTS = {"cpu": "100m", "memory": "100Mi"}
#: Fields that KServe's controller sets, whatever is written (its event StorageInitializerOverride).
_CONTROLLED = ("name", "args", "command")


def fetches(spec: Node) -> bool:
    """Whether KServe's controller adds the container to the pods of a service."""
    enabled, uri = spec.get("storageInitializer", "enabled"), spec.get("model", "uri")
    source = str(uri.content) if uri is not None else ""
    disabled = enabled is not None and enabled.content is False
    return source.startswith(("hf://", "s3://")) and not disabled


def without_initializers(carrier: Carrier, spec: Node) -> Node:
    """Carries over what pods say of the container, and leaves it out of them.

    Args:
        carrier: The service.
        spec: Its merged spec.

    Returns:
        The spec; as it was where nothing is fetched, so that such a container is the user's own.
    """
    if not fetches(spec):
        return spec
    prefill = spec.get("prefill")
    spec = _workload(carrier, spec)
    return spec if prefill is None else edited(spec, prefill=_workload(carrier, prefill))


def _workload(carrier: Carrier, workload: Node) -> Node:
    pods = {
        field: _pod(carrier, pod)
        for field in ("template", "worker")
        if (pod := workload.get(field)) is not None
    }
    return edited(workload, **pods) if pods else workload


def _pod(carrier: Carrier, pod: Node) -> Node:
    listed = pod.get("initContainers")
    items = listed.items if listed is not None else []
    kept = [each for each in items if each.text("name") != NAME]
    if listed is None or len(kept) == len(items):
        return pod
    for container in items:
        if container.text("name") == NAME:
            _carried(carrier, container)
    return edited(pod, initContainers=Node(listed.at, kept) if kept else None)


def _carried(carrier: Carrier, container: Node) -> None:
    book = carrier.book
    for key, given in container.content.items():
        target = (*_FETCHER, key)
        # Otherwise limits alone would be requests, too.
        asked = key == "resources" and isinstance(given.content, dict)
        field = merged(made(given.at, {"requests": _REQUESTS}), given) if asked else given
        held = carrier.held(target)
        if key == "name":
            book.read(field.at)
        elif key in _CONTROLLED:
            book.note(field.at, "KServe's controller sets it whatever is written; left out")
        elif key not in _KNOWN:
            book.lost(
                field.at,
                f"the container that fetches the model has {', '.join(_KNOWN)} (model.fetcher)",
            )
        elif held is None:
            carry(carrier, target, field)
        elif held == field.value:
            book.read(*(leaf.at for _, leaf in given.leaves()))
        else:
            book.lost(field.at, "one container fetches for all pods of a service; say it once")
