"""Merges a service with the configs that it is based on, and remembers where each value stands.

KServe merges as the API server does (strategic merge patch): mappings field by field, lists of
named things by their name, other lists as a whole; what comes later wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.importers.carrier import Carrier
from fusioninfer_pulumi.importers.given import At, Path

#: Lists of a pod spec that are merged, by the field that names their items.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
}


@dataclass(frozen=True)
class Node:
    """A value, and the place that it comes from.

    Attributes:
        at: Where it stands; of what was merged, where it stands last.
        content: Nodes by key, a list of nodes, or a scalar.
        made: Whether no document has it; then it comes from what stands there.
    """

    at: At
    content: Any
    made: bool = False

    @property
    def value(self) -> Any:
        """The plain value."""
        if isinstance(self.content, dict):
            return {key: node.value for key, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.value for node in self.content]
        return self.content

    def get(self, *keys: str | int) -> Node | None:
        """The node below it, None where nothing stands there."""
        node = self
        for key in keys:
            content = node.content
            known = isinstance(content, dict) and key in content
            if known or (isinstance(content, list) and isinstance(key, int) and key < len(content)):
                node = content[key]
            else:
                return None
        return node

    @property
    def items(self) -> list[Node]:
        """The nodes of a list; none for what is no list, which our own rules refuse."""
        return list(self.content) if isinstance(self.content, list) else []

    def text(self, key: str) -> str | None:
        """The text below it, None for anything else."""
        found = self.get(key)
        return found.content if found is not None and isinstance(found.content, str) else None

    def leaves(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Every node that holds no other, with its path from here."""
        content = self.content
        if isinstance(content, dict) and content:
            for key, node in content.items():
                yield from node.leaves((*path, key))
        elif isinstance(content, list) and content:
            for index, node in enumerate(content):
                yield from node.leaves((*path, index))
        else:
            yield path, self


def node_of(at: At) -> Node:
    """The tree of what stands at a place, without nulls, which say nothing."""
    return _node(at, at.value)


def _node(at: At, value: Any) -> Node:
    if isinstance(value, Mapping):
        return Node(
            at, {key: _node(at / key, item) for key, item in value.items() if item is not None}
        )
    if isinstance(value, list):
        return Node(at, [_node(at / index, item) for index, item in enumerate(value)])
    return Node(at, value)


def merged(below: Node, above: Node, field: str = "") -> Node:
    """Merges two trees; `above` wins.

    Args:
        below: What holds where `above` says nothing.
        above: What is said last.
        field: Name of the field that holds them, by which lists are merged.

    Returns:
        The merged tree.
    """
    if isinstance(below.content, dict) and isinstance(above.content, dict):
        both = dict(below.content)
        for key, node in above.content.items():
            both[key] = merged(both[key], node, str(key)) if key in both else node
        return Node(above.at, both, above.made)
    if isinstance(below.content, list) and isinstance(above.content, list) and field in _KEYS:
        return Node(above.at, _by_name(below.content, above.content, _KEYS[field]), above.made)
    return above


def _by_name(below: list[Node], above: list[Node], key: str) -> list[Node]:
    def name(node: Node) -> Any:
        found = node.get(key)
        return None if found is None else found.content

    # One after the other, as the API server does: two items of one name become one.
    built = list(below)
    for node in above:
        wanted = name(node)
        position = next((i for i, each in enumerate(built) if name(each) == wanted), None)
        if position is None:
            built.append(node)
        else:
            built[position] = merged(built[position], node)
    return built


def carry(carrier: Carrier, target: Path, node: Node) -> None:
    """Carries a tree over as it is; findings about it name the places of its values.

    Args:
        carrier: The service.
        target: Where it stands in our manifest.
        node: The tree.
    """
    if all(_stands(node.at, path, leaf) for path, leaf in node.leaves()):
        carrier.put(target, node.value, node.at)
        return
    carrier.imply(target, node.value, node.at)
    _places(carrier, target, node)


def _places(carrier: Carrier, target: Path, node: Node) -> None:
    """Says of each node where it comes from."""
    carrier.origin(target, node.at, whole=not node.made)
    content = node.content
    parts: list[tuple[str | int, Node]] = []
    if isinstance(content, dict):
        parts = list(content.items())
    elif isinstance(content, list):
        parts = list(enumerate(content))
    for key, part in parts:
        _places(carrier, (*target, key), part)
    if not node.made and (not parts or node.at.value in ({}, [])):
        carrier.book.read(node.at)


def _stands(at: At, path: Path, leaf: Node) -> bool:
    return not leaf.made and leaf.at.document is at.document and leaf.at.path == (*at.path, *path)


def made(at: At, value: Any) -> Node:
    """The tree of a value that no document has.

    Args:
        at: The place that findings about it should name.
        value: The plain value.
    """
    if isinstance(value, dict):
        return Node(at, {key: made(at, item) for key, item in value.items()}, made=True)
    if isinstance(value, list):
        return Node(at, [made(at, item) for item in value], made=True)
    return Node(at, value, made=True)


def edited(node: Node, **fields: Node | None) -> Node:
    """A mapping with some of its fields replaced; None leaves a field out."""
    both = {**(node.content if isinstance(node.content, dict) else {}), **fields}
    kept = {key: item for key, item in both.items() if item is not None}
    return Node(node.at, kept, node.made)
