"""Ids of the rules in the code, with the severities that stand beside them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import package_code
from package_code import name, nodes

FINDINGS = "fusioninfer_pulumi.findings"
RULE_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")

#: What creates findings, and the severity that it gives them.
CONSTRUCTORS = {"error": "error", "warning": "warning", "info": "info"}
#: Functions with a parameter `rule`, and the severity of what they create.
FORWARDERS = {
    **CONSTRUCTORS,
    "unsupported": "error", "rule_error": "error", "refused": "error", "refused_input": "error",
    "mismatch": "error", "UnreadableError": "error", "_at": "error", "failed": "error",
    "exactly_one": "error", "_remark": "info", "warn": "warning",
    # Of a severity that depends on what is known.
    "say": "?",
}  # fmt: skip


FILES = [
    path
    for path in [*package_code.FILES, *package_code.PLUGIN_FILES]
    if name(path) != "findings.py"
]


@cache
def ids() -> dict[str, dict[str, str]]:
    """Of each id its severities, each with a place in the code; of unknown severity: `?`."""
    found: dict[str, dict[str, str]] = {}
    for path in FILES:
        for rule, severity, line in _ids(path):
            found.setdefault(rule, {}).setdefault(severity, f"{name(path)}:{line}")
    return found


def _ids(path: Path) -> Iterator[tuple[str, str, int]]:
    texts, aliases = _assigned(path), _aliases(path)
    for node in nodes(path):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
            severities = aliases.get((called, node.lineno)) or {FORWARDERS.get(called, "")} - {""}
            for rule in _texts(_rule(node, called), texts) if severities else ():
                yield from ((rule, severity, node.lineno) for severity in severities)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            # A rule and its message, for a finding that is created elsewhere.
            if len(node.value.elts) == 2:
                yield from ((rule, "?", node.lineno) for rule in _texts(node.value.elts[0], {}))
        elif isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id in ("_RULES", "_ALONE") for each in node.targets
        ):
            # A table of rules, by what they are about.
            for each in ast.walk(node.value):
                if isinstance(each, ast.Constant) and "-" in str(each.value):
                    yield str(each.value), "?", each.lineno
        elif isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == "rule" for each in node.targets
        ):
            yield from ((rule, "?", node.lineno) for rule in _texts(node.value, texts))


def _rule(call: ast.Call, called: str) -> ast.expr | None:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "rule"]
    position = positions().get(called, 0)
    return given[0] if given else next(iter(call.args[position : position + 1]), None)


@cache
def positions() -> dict[str, int]:
    """Functions and methods that take a rule, with its position in a call."""
    found = {}
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef):
                names = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
                if "rule" in names:
                    found[node.name] = names.index("rule")
    return found


def _texts(node: ast.expr | None, assigned: dict[str, set[str]]) -> set[str]:
    """Ids that an expression may be."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body, assigned) | _texts(node.orelse, assigned)
    if isinstance(node, ast.Name):
        return assigned.get(node.id, set())
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value} if RULE_ID.fullmatch(node.value) else set()
    return set()


def _assigned(path: Path) -> dict[str, set[str]]:
    """Ids that are assigned to names of a file, also in pairs and in loops over tuples."""
    found: dict[str, set[str]] = {}

    def note(target: ast.expr, values: Iterable[ast.expr]) -> None:
        for value in values:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, set()).update(_texts(value, {}))
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                for one, other in zip(target.elts, value.elts, strict=False):
                    note(one, [other])

    for node in nodes(path):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                note(target, [node.value])
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(
            node.iter, (ast.Tuple, ast.List)
        ):
            note(node.target, node.iter.elts)
    return found


def _aliases(path: Path) -> dict[tuple[str, int], set[str]]:
    """Constructors that are chosen (`say = warning if certain else info`), by name and line."""
    found: dict[tuple[str, int], set[str]] = {}
    for function in nodes(path):
        if not isinstance(function, ast.FunctionDef):
            continue
        lines = range(function.lineno, (function.end_lineno or 0) + 1)
        defaults = function.args.defaults
        for argument, default in zip(
            reversed(function.args.args), reversed(defaults), strict=False
        ):
            # `say=error`: a caller may choose another one.
            if isinstance(default, ast.Name) and default.id in CONSTRUCTORS:
                found |= {(argument.arg, line): {default.id, "?"} for line in lines}
        for node in ast.walk(function):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.IfExp):
                chosen = {getattr(each, "id", "") for each in (node.value.body, node.value.orelse)}
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [each.id for each in targets if isinstance(each, ast.Name)]
                if chosen <= CONSTRUCTORS.keys():
                    found |= {(each, line): chosen for each in names for line in lines}
    return found
