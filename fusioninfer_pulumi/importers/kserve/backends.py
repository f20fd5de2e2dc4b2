"""Turns the backends of KServe's routes, which its controller makes, into pools of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from fusioninfer_pulumi.importers.backends import pool_backend
from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.kserve.merging import Node, edited
from fusioninfer_pulumi.kube import names

#: What KServe's controller makes for each service, by kind (InferencePoolName of its API types,
#: workloadServiceName of its controller); its own route leads to both.
_SUFFIXES = {names.POOL_KIND: "-inference-pool", "Service": "-kserve-workload-svc"}
_LONGEST, _HEAD = 63, 31

#: Namespace, kind and name of what KServe makes: the service that it is made for.
Backends = Mapping[tuple[Any, str, str], str]


def backends_of(namespace: Any, service: Any) -> dict[tuple[Any, str, str], str]:
    """The backends that KServe makes for a service with a router.

    Args:
        namespace: The service's namespace.
        service: Its name.
    """
    name = str(service)
    return {(namespace, kind, _child(name, end)): name for kind, end in _SUFFIXES.items()}


def _child(parent: str, suffix: str) -> str:
    """A derived name, as knative's `kmeta.ChildName` shortens it."""
    if len(parent) > _LONGEST - len(suffix):
        digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
        parent = f"{parent[: _HEAD - len(suffix)]}{digest}"
    return f"{parent}{suffix}"


def with_our_pools(carrier: Carrier, rules: Node, known: Backends) -> Node:
    """The rules of a route with our pools in place of what KServe's controller makes.

    Args:
        carrier: The service whose route it is.
        rules: The rules as they were written.
        known: What KServe makes for the services of the input that have a router.
    """
    return _each(rules, lambda rule: _rule(carrier, rule, known))


def _rule(carrier: Carrier, rule: Node, known: Backends) -> Node:
    changed: dict[str, Node] = {}
    for key, change in (("backendRefs", _backend), ("filters", _mirror)):
        listed = rule.get(key)
        if listed is not None:
            changed[key] = _each(listed, lambda item, to=change: to(carrier, item, known))
    return edited(rule, **changed) if changed else rule


def _mirror(carrier: Carrier, item: Node, known: Backends) -> Node:
    mirror, backend = item.get("requestMirror"), item.get("requestMirror", "backendRef")
    if mirror is None or backend is None:
        return item
    return edited(item, requestMirror=edited(mirror, backendRef=_backend(carrier, backend, known)))


def _backend(carrier: Carrier, ref: Node, known: Backends) -> Node:
    kind, name = ref.text("kind") or "Service", ref.text("name")
    if name is None or "{{" in name or kind not in _SUFFIXES:
        return ref  # refused already, or no business of KServe's
    if kind == "Service" and ref.text("group"):
        return ref
    namespace = ref.text("namespace") or carrier.main.namespace
    service = known.get((namespace, kind, name))
    if service is None:
        if name not in {pool_backend(each)["name"] for each in known.values()}:
            carrier.book.warn(
                ref.at / "name",
                f"no {kind} {name} is made of this input: requests fail unless it is there already",
            )
        return ref
    ours = pool_backend(service)
    # A pool says itself on which port its pods serve.
    carrier.book.note(
        ref.at, f"KServe's {kind} {name} is the {names.POOL_KIND} {ours['name']} here"
    )
    made = {key: Node(ref.at / key, value) for key, value in ours.items()}
    return edited(ref, port=None, **made)


def _each(node: Node, change: Any) -> Node:
    """A list with each of its mappings changed; what is no list is refused by our own rules."""
    if not isinstance(node.content, list):
        return node
    made = [change(item) if isinstance(item.content, dict) else item for item in node.content]
    return Node(node.at, made)
