"""Every finding has a rule id, and no code depends on the text of a message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from package_code import name, nodes
from rules_in_code import FILES, FINDINGS, RULE_ID, positions

#: Arguments of each constructor without which a finding has no rule.
CONSTRUCTORS = {"error": 3, "warning": 3, "info": 3, "Finding": 4}
#: Methods of strings and of compiled patterns that search a text.
SEARCHES = {
    "count", "endswith", "find", "findall", "finditer", "fullmatch", "index", "match",
    "partition", "removeprefix", "removesuffix", "replace", "rpartition", "search", "split",
    "startswith", "sub",
}  # fmt: skip


@cache
def imported(path: Path) -> dict[str, str]:
    """Names from `findings` by the names that a file uses for them, conditional aliases too."""
    found = {
        alias.asname or alias.name: alias.name
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == FINDINGS
        for alias in node.names
    }
    for node in nodes(path):
        # `make = warning if certain else info`
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.IfExp):
            chosen = [node.value.body, node.value.orelse]
            names = {each.id for each in chosen if isinstance(each, ast.Name)}
            if len(names) == len(chosen) and names <= found.keys() & CONSTRUCTORS.keys():
                targets = [each.id for each in node.targets if isinstance(each, ast.Name)]
                found |= dict.fromkeys(targets, "/".join(sorted(names)))
    return found


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """Calls that create findings, each with the names of what it calls, joined by slashes."""
    names = imported(path)
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = names.get(node.func.id, "")
            if set(called.split("/")) <= CONSTRUCTORS.keys():
                yield node, called


def rule_of(call: ast.Call, called: str) -> ast.expr | None:
    """The expression of the rule, None without one."""
    for keyword in call.keywords:
        if keyword.arg == "rule":
            return keyword.value
    needed = CONSTRUCTORS[called.partition("/")[0]]
    return call.args[0] if len(call.args) + len(call.keywords) >= needed else None


def test_the_calls_are_found() -> None:
    assert sum(1 for path in FILES for _ in calls(path)) > 300


def test_every_finding_has_a_rule() -> None:
    without = [
        f"{name(path)}:{call.lineno}"
        for path in FILES
        for call, called in calls(path)
        if not isinstance(rule_of(call, called), (ast.Constant, ast.Name, ast.Attribute))
    ]
    assert without == []


def test_rule_ids_are_lower_case_words_with_hyphens() -> None:
    given: dict[str, str] = {}
    taking = positions()
    for path in FILES:
        rules = [rule_of(call, called) for call, called in calls(path)]
        for node in nodes(path):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                position = taking.get(called or "", len(node.args))
                rules += node.args[position : position + 1]
        for rule in rules:
            if isinstance(rule, ast.Constant) and isinstance(rule.value, str):
                given[rule.value] = f"{name(path)}:{rule.lineno}"
    assert len(given) > 200
    # An empty rule is a finding without one: the test above.
    wrong = {rule: at for rule, at in given.items() if not RULE_ID.fullmatch(rule)}
    assert wrong == {}


def is_message(node: ast.expr, attributes: set[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in attributes


def dependence_on_messages(path: Path) -> Iterator[int]:
    """Lines that compare a message or search in it."""
    # Shell words, YAML nodes and blocks of output have a `text` too.
    attributes = (
        {"message", "text"} if {"Finding", "errors"} & imported(path).keys() else {"message"}
    )
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
    dependent = [f"{name(path)}:{line}" for path in FILES for line in dependence_on_messages(path)]
    assert dependent == []
