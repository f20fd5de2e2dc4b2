"""Merges a service with its base configs, and keeps the source field of each value.

KServe merges as the API server does (strategic merge patch): mappings field by field, lists of
named items item by item, other lists as a whole; the later value takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fusioninfer_importers.conversion import ServiceBuilder
from fusioninfer_pulumi.plugins.importers import Location, SourceField

#: Lists of a pod spec that are merged, and the field that identifies their items.
_MERGE_KEYS = {
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
    """A value, and the field that it comes from.

    Attributes:
        field: The field that has the value; for a merged value, the one that takes precedence.
        content: Nodes by key, a list of nodes, or a scalar.
        synthetic: Whether the value is in no document; `field` is then the one it is derived from.
    """

    field: SourceField
    content: Any
    synthetic: bool = False

    @property
    def value(self) -> Any:
        """The plain value."""
        if isinstance(self.content, dict):
            return {key: node.value for key, node in self.content.items()}
        if isinstance(self.content, list):
            return [node.value for node in self.content]
        return self.content

    def get(self, *keys: str) -> Node | None:
        """Return the nested node, or None if it is not set."""
        node = self
        for key in keys:
            if not isinstance(node.content, dict) or key not in node.content:
                return None
            node = node.content[key]
        return node

    @property
    def items(self) -> list[Node]:
        """The nodes of a list; empty for other values, which our rules reject."""
        return list(self.content) if isinstance(self.content, list) else []

    def list_at(self, *keys: str) -> list[Node]:
        """Return the nodes of a nested list, or empty if it is not set."""
        node = self.get(*keys)
        return [] if node is None else node.items

    def text(self, key: str) -> str | None:
        """Return a nested string, or None for anything else."""
        text = self.get(key)
        return text.content if text is not None and isinstance(text.content, str) else None

    def leaves(self, path: Location = ()) -> Iterator[tuple[Location, Node]]:
        """Yield each leaf node with its path from here."""
        content = self.content
        if isinstance(content, dict) and content:
            for key, node in content.items():
                yield from node.leaves((*path, key))
        elif isinstance(content, list) and content:
            for index, node in enumerate(content):
                yield from node.leaves((*path, index))
        else:
            yield path, self


def read_node(field: SourceField) -> Node:
    """Return the tree of a field's value, without nulls, which mean unset fields."""
    return _parse(field, field.value)


def _parse(field: SourceField, value: Any) -> Node:
    if isinstance(value, Mapping):
        return Node(
            field,
            {key: _parse(field / key, item) for key, item in value.items() if item is not None},
        )
    if isinstance(value, list):
        return Node(field, [_parse(field / index, item) for index, item in enumerate(value)])
    return Node(field, value)


def merge(base: Node, top: Node, key: str = "") -> Node:
    """Merge two trees; values of `top` take precedence. `key` is the key of `base` and `top`."""
    if isinstance(base.content, dict) and isinstance(top.content, dict):
        merged = dict(base.content)
        for name, node in top.content.items():
            merged[name] = merge(merged[name], node, str(name)) if name in merged else node
        return Node(top.field, merged, top.synthetic)
    if isinstance(base.content, list) and isinstance(top.content, list) and key in _MERGE_KEYS:
        items = _merge_lists(base.content, top.content, _MERGE_KEYS[key])
        return Node(top.field, items, top.synthetic)
    return top


def _merge_lists(base: list[Node], top: list[Node], merge_key: str) -> list[Node]:
    def read_key(node: Node) -> Any:
        field = node.get(merge_key)
        return None if field is None else field.content

    # Item by item, as the API server does: two items of `top` with the same key become one.
    merged = list(base)
    for node in top:
        key = read_key(node)
        position = next((i for i, item in enumerate(merged) if read_key(item) == key), None)
        if position is None:
            merged.append(node)
        else:
            merged[position] = merge(merged[position], node)
    return merged


def copy_node(builder: ServiceBuilder, target: Location, node: Node) -> None:
    """Copy a tree; findings about a value in it name the field that the value comes from."""
    if all(_is_unchanged(node.field, path, leaf) for path, leaf in node.leaves()):
        builder.copy(target, node.value, node.field)
        return
    builder.default(target, node.value, node.field)
    _set_origins(builder, target, node)


def copy_fields(builder: ServiceBuilder, target: Location, node: Node, *keys: str) -> None:
    """Copy those fields of a mapping that are set."""
    for key in keys:
        field = node.get(key)
        if field is not None:
            copy_node(builder, (*target, key), field)


def _set_origins(builder: ServiceBuilder, target: Location, node: Node) -> None:
    builder.set_origin(target, node.field, copied=not node.synthetic)
    content = node.content
    parts: list[tuple[str | int, Node]] = []
    if isinstance(content, dict):
        parts = list(content.items())
    elif isinstance(content, list):
        parts = list(enumerate(content))
    for key, part in parts:
        _set_origins(builder, (*target, key), part)
    # Leaves, and values that are empty in their document but not after the merge.
    if not node.synthetic and (not parts or node.field.value in ({}, [])):
        builder.report.consume(node.field)


def _is_unchanged(field: SourceField, path: Location, leaf: Node) -> bool:
    return (
        not leaf.synthetic
        and leaf.field.document is field.document
        and leaf.field.path == (*field.path, *path)
    )


def make_node(field: SourceField, value: Any) -> Node:
    """Return the tree of a value that no document has; findings about it are at `field`."""
    if isinstance(value, dict):
        return Node(
            field, {key: make_node(field, item) for key, item in value.items()}, synthetic=True
        )
    if isinstance(value, list):
        return Node(field, [make_node(field, item) for item in value], synthetic=True)
    return Node(field, value, synthetic=True)


def set_fields(node: Node, **fields: Node | None) -> Node:
    """Return a mapping with some of its fields replaced; None removes a field."""
    merged = {**(node.content if isinstance(node.content, dict) else {}), **fields}
    kept = {key: item for key, item in merged.items() if item is not None}
    return Node(node.field, kept, node.synthetic)
