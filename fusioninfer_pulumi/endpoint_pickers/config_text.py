"""Reads the text of an EndpointPickerConfig as an endpoint picker reads it.

Go's YAML reader knows no dates and no base-60 numbers, takes a repeated key for an error, ignores
tags that it does not know, and stops after the first document. (The loader of manifests does nearly
the same, but it must refuse what would be lost of a manifest.)
"""

from __future__ import annotations

import re
from typing import Any

import yaml

#: Size limit of a ConfigMap.
MAX_CHARACTERS = 1024 * 1024
_MAX_DEPTH = 60
#: Limit of values, with every alias written out.
_MAX_VALUES = 100_000

_TAG = "tag:yaml.org,2002:"
_INT = re.compile(r"[-+]?(0b[01_]+|0[0-7_]*|0o[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*)$")
# PyYAML only calls this a number with a dot and a sign.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")


class UnreadableError(ValueError):
    """An endpoint picker cannot read the text; the message says where and why."""


class _Resolver(yaml.SafeLoader):
    """Resolves the types of unquoted scalars as Go's reader does."""


_Resolver.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] not in (f"{_TAG}timestamp", f"{_TAG}int")]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Resolver.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Resolver.add_implicit_resolver(f"{_TAG}float", _EXPONENT, list("-+0123456789"))


def read_config(text: str) -> tuple[Any, bool]:
    """The first document of a text as plain values, and whether more documents follow.

    Raises UnreadableError where an endpoint picker cannot read it.
    """
    if len(text) > MAX_CHARACTERS:
        raise UnreadableError("larger than 1 MiB, which is what a ConfigMap holds")
    try:
        loader = _Resolver(text)
    except yaml.YAMLError as problem:
        raise UnreadableError(_reason(problem)) from None
    try:
        if not loader.check_node():
            return None, False
        value = _Values(loader).value(loader.get_node())
        return value, _more(loader)
    except yaml.YAMLError as problem:
        raise UnreadableError(_reason(problem)) from None
    except RecursionError:
        raise UnreadableError(f"nested deeper than {_MAX_DEPTH} levels") from None
    finally:
        loader.dispose()


def _more(loader: _Resolver) -> bool:
    try:
        while loader.check_node():
            node = loader.get_node()
            if not (isinstance(node, yaml.ScalarNode) and node.value == ""):
                return True
    except yaml.YAMLError:
        return True
    return False


class _Values:
    """Turns nodes into values, within bounds."""

    def __init__(self, loader: _Resolver) -> None:
        self._loader = loader
        self._count = 0
        self._open: set[int] = set()

    def value(self, node: yaml.Node | None, depth: int = 0) -> Any:
        """The plain value of a node."""
        self._count += 1
        if depth > _MAX_DEPTH:
            raise UnreadableError(f"nested deeper than {_MAX_DEPTH} levels")
        if self._count > _MAX_VALUES:
            raise UnreadableError(f"more than {_MAX_VALUES} values with every alias written out")
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise UnreadableError(f"{_place(node)}: an alias refers to itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, depth + 1) for item in node.value]
            return self._mapping(node, depth)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise UnreadableError(f"{_place(key)}: a key must be a plain word")
            value = self.value(item, depth + 1)
            if key.tag == f"{_TAG}merge":
                for source in value if isinstance(value, list) else [value]:
                    merged = {**(source if isinstance(source, dict) else {}), **merged}
            elif key.value in values:
                raise UnreadableError(f'{_place(key)}: key "{key.value}" already set in this map')
            else:
                values[key.value] = value
        return {**merged, **values}

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        kind = node.tag.removeprefix(_TAG)
        if kind not in ("null", "bool", "int", "float"):
            return str(node.value)
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError, TypeError, OverflowError):
            raise UnreadableError(f"{_place(node)}: {node.value!r} is no {kind}") from None


def _place(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


def _reason(problem: yaml.YAMLError) -> str:
    mark = getattr(problem, "problem_mark", None)
    text = getattr(problem, "problem", None) or getattr(problem, "context", None) or str(problem)
    text = " ".join(str(text).split())
    if mark is None:
        return f"not YAML: {text}"
    return f"not YAML: line {mark.line + 1}, column {mark.column + 1}: {text}"
