"""Parses YAML texts, with limits that protect against huge or malicious input."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from fusioninfer_pulumi.api.field_types import TOO_DEEP
from fusioninfer_pulumi.findings import Rule
from fusioninfer_pulumi.rules.common import DUPLICATE_KEY, INPUT_TOO_LARGE, WRONG_TYPE
from fusioninfer_pulumi.schemas.schema_check import MAX_DEPTH

INVALID_YAML = Rule("invalid-yaml")

#: Maximum bytes of a file, and characters of a text; real manifests are far smaller.
MAX_BYTES = 16 * 1024 * 1024
TOO_LARGE = f"larger than {MAX_BYTES // 1024 // 1024} MiB"
#: Maximum number of values in a document with all aliases expanded.
MAX_VALUES = 500_000
TOO_MANY = f"more than {MAX_VALUES} values with all aliases expanded"

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlTextError(ValueError):
    """A text is not YAML, or is rejected; the message has the position and the reason.

    Attributes:
        rule: The rule that the text violates.
        line: Number of the line, from 1, or None if it is unknown.
    """

    def __init__(self, rule: Rule, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.line = line


class _Loader(_BaseLoader):  # type: ignore[misc]  # the base class is chosen at run time
    """Safe loader for JSON's types only, without YAML 1.1's dates and base-60 integers."""


# Tags such as `!!set` and `!!binary` are rejected, because Kubernetes accepts only JSON.
_JSON_KINDS = ("null", "bool", "int", "float", "str", "seq", "map")
_JSON_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in _JSON_KINDS}
_Loader.yaml_constructors = {
    tag: build for tag, build in _BaseLoader.yaml_constructors.items() if tag in _JSON_TAGS
}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int")
    ]
    for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(0b[01_]+|0[0-7_]*|0o[0-7]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)

_SURROGATES = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def _reject_tag(loader: Any, node: yaml.Node) -> Any:
    del loader
    raise _make_error(node, INVALID_YAML, f"unsupported tag {node.tag!r}")


_Loader.add_constructor(None, _reject_tag)


def parse_yaml(text: str) -> Iterator[Any]:
    """Yield the documents of a YAML text as plain Python values, except empty ones.

    Raises:
        YamlTextError: The text is not YAML, has tags of types that JSON does not have, repeats a
            key, or is too large or too deep.
    """
    if len(text) > MAX_BYTES:
        raise YamlTextError(INPUT_TOO_LARGE, TOO_LARGE)
    loader = None
    try:
        if text.lstrip().startswith(("{", "[")):
            # JSON escapes characters above U+FFFF as surrogate pairs, which YAML does not accept.
            text = _SURROGATES.sub(
                lambda pair: bytes.fromhex(pair[1] + pair[2]).decode("utf-16-be"), text
            )
        _check_size(text)
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            _check_document(node)
            value = loader.construct_document(node)
            if value is not None:
                yield value
    except yaml.YAMLError as exc:
        raise _convert_error(exc, text) from None
    except RecursionError:
        raise YamlTextError(INPUT_TOO_LARGE, TOO_DEEP) from None
    except YamlTextError:  # a ValueError, too
        raise
    except (LookupError, ValueError) as exc:
        # PyYAML raises these for values such as `!!bool maybe` and `!!int ""`.
        raise YamlTextError(INVALID_YAML, f"invalid YAML: {exc}") from None
    finally:
        if loader is not None:
            loader.dispose()


def parse_yaml_nodes(text: str) -> list[yaml.Node]:
    """Return the documents of a text as nodes with line numbers, except empty documents.

    The list is empty if the text cannot be parsed.
    """
    try:
        _check_size(text)
        nodes = yaml.compose_all(text, Loader=_BaseLoader)
        return [node for node in nodes if node.tag != "tag:yaml.org,2002:null"]
    except (yaml.YAMLError, RecursionError, YamlTextError):
        return []


def _check_size(text: str) -> None:
    """Reject a text that is too large or too deep, before nodes are built from it.

    One character of text may need hundreds of bytes as a node, and libyaml's composer, which is
    recursive C code, crashes if a text is nested too deep.
    """
    values = depth = 0
    try:
        for event in yaml.parse(text, Loader=_BaseLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                values = 0
            elif isinstance(event, yaml.NodeEvent):
                values += 1
                if isinstance(event, yaml.CollectionStartEvent):
                    depth += 1
                if values > MAX_VALUES:
                    raise YamlTextError(INPUT_TOO_LARGE, TOO_MANY)
                if depth > MAX_DEPTH:
                    raise YamlTextError(INPUT_TOO_LARGE, TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        # The loader finds the error again, after it has yielded the documents before the error.
        return


def _check_document(root: yaml.Node) -> None:
    """Reject a document that repeats a key, or is too large or deep once aliases are expanded."""
    # Maps the id of each node to its numbers of values and levels, with all aliases expanded.
    sizes: dict[int, tuple[int, int]] = {}
    open_nodes: set[int] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            raise _make_error(node, INVALID_YAML, "an alias refers to itself")
        open_nodes.add(id(node))
        items: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            items = [item for pair in node.value for item in pair]
        elif isinstance(node, yaml.SequenceNode):
            items = node.value
        values, levels = 1, 0
        for item in items:
            item_values, item_levels = measure(item)
            values += item_values
            levels = max(levels, item_levels + 1)
        open_nodes.discard(id(node))
        if values > MAX_VALUES:
            raise YamlTextError(INPUT_TOO_LARGE, TOO_MANY)
        if levels > MAX_DEPTH:
            raise YamlTextError(INPUT_TOO_LARGE, TOO_DEEP)
        sizes[id(node)] = values, levels
        return values, levels

    measure(root)


def _check_keys(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _make_error(key, WRONG_TYPE, "a key must be a string, not a list or mapping")
        if key.tag != "tag:yaml.org,2002:merge" and key.value in seen:
            raise _make_error(key, DUPLICATE_KEY, f'key "{key.value}" is duplicated')
        seen.add(key.value)


def _make_error(node: yaml.Node, rule: Rule, message: str) -> YamlTextError:
    mark = node.start_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}"
    return YamlTextError(rule, f"{place}: {message}", mark.line + 1)


def _convert_error(exc: yaml.YAMLError, text: str) -> YamlTextError:
    if isinstance(exc, yaml.MarkedYAMLError) and exc.problem_mark is not None:
        mark = exc.problem_mark
        reason = " ".join(str(exc.problem or exc.context).split())
        if text.startswith("\t", mark.index):
            reason = "a tab cannot start a value; indent with spaces"
        message = f"invalid YAML: {reason} (line {mark.line + 1}, column {mark.column + 1})"
        return YamlTextError(INVALID_YAML, message, mark.line + 1)
    return YamlTextError(INVALID_YAML, f"invalid YAML: {' '.join(str(exc).split())}")
