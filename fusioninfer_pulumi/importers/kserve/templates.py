"""Fills in the Go templates of configs, as far as they name fields of the service."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fusioninfer_pulumi.importers.kserve.merging import Node

_FIELD = re.compile(r"\{\{-?\s*(\.[A-Za-z.]+)\s*-?\}\}")


def filled(node: Node, values: Mapping[str, str]) -> Node:
    """A tree with its templates filled in.

    Args:
        node: The tree.
        values: Value of each field that a template may name, such as `.ObjectMeta.Name`.

    Returns:
        The tree; what is no plain field, such as a call of ChildName, stays as it is.
    """
    content = node.content
    if isinstance(content, dict):
        return Node(node.at, {key: filled(item, values) for key, item in content.items()})
    if isinstance(content, list):
        return Node(node.at, [filled(item, values) for item in content])
    if isinstance(content, str) and "{{" in content:
        return Node(node.at, _FIELD.sub(lambda it: values.get(it[1], it[0]), content))
    return node
