"""Findings are created from rules, and no code depends on the text of a message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from package_code import FILES, PLUGIN_FILES, name, nodes

ALL_FILES = [*FILES, *PLUGIN_FILES]
FINDINGS = ("fusioninfer_pulumi.findings", "fusioninfer_pulumi.plugins.importers")
#: Methods of strings and of compiled patterns that search a text.
SEARCHES = {
    "count", "endswith", "find", "findall", "finditer", "fullmatch", "index", "match",
    "partition", "removeprefix", "removesuffix", "replace", "rpartition", "search", "split",
    "startswith", "sub",
}  # fmt: skip


def imported(path: Path) -> set[str]:
    """Return names that a file imports from `findings`."""
    return {
        alias.name
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module in FINDINGS
        for alias in node.names
    }


def test_findings_are_created_from_rules() -> None:
    """`Finding` accepts any text as rule id, so it must come from a rule or another finding."""
    result = [
        (f"{name(path)}:{node.lineno}", ast.unparse(node.args[0]))
        for path in ALL_FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding" and node.args
    ]
    assert len(result) > 3
    assert [at for at, rule in result if rule.rpartition(".")[2] not in ("id", "rule")] == []


def is_message(node: ast.expr, attributes: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in attributes


def dependence_on_messages(path: Path) -> Iterator[int]:
    """Yield lines that compare a message or search in it."""
    # Shell words, YAML nodes and blocks of output have a `text` too.
    attributes = {"message", "text"} if {"Finding", "errors"} & imported(path) else {"message"}
    for node in nodes(path):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            parts = [node.subject]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in SEARCHES
        ):
            parts = [node.func.value, *node.args]
        if any(is_message(part, attributes) for part in parts):
            yield node.lineno


def test_no_code_depends_on_the_text_of_a_message() -> None:
    dependent = [
        f"{name(path)}:{line}" for path in ALL_FILES for line in dependence_on_messages(path)
    ]
    assert dependent == []
