"""Rules are declared where they can be listed, and their examples violate them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from package_code import FILES, PLUGIN_FILES, name, nodes, tree
from rule_examples import found_by

from fusioninfer_pulumi.findings import Rule, Severity, error
from fusioninfer_pulumi.rules.catalog import all_rules, areas, example_of

ALL_FILES = [*FILES, *PLUGIN_FILES]
#: What an example would need beside an input; `not-written` where an input is enough.
REASONS = {
    "needs-cluster", "needs-command-line", "needs-files", "needs-inventory", "needs-output",
    "needs-previous-state", "needs-program", "not-written", "too-large",
}  # fmt: skip
#: Examples that nobody has written: not to become more.
NOT_WRITTEN = 28
#: What creates findings, and their severity.
CONSTRUCTORS = {"error": "error", "warning": "warning", "info": "info"}


def test_an_id_is_given_once() -> None:
    rule = next(iter(all_rules().values()))
    with pytest.raises(ValueError, match=f"two rules have the id {rule.id}"):
        Rule(rule.id, "error", rule.sentence, rule.remedy)


def test_a_finding_has_the_id_of_its_rule() -> None:
    rule = next(iter(all_rules().values()))
    assert error(rule, ("roles",), "text").rule == rule.id


@cache
def declarations(path: Path) -> dict[str, str]:
    """The rules that a file declares: ids by names."""
    found = {}
    for node in tree(path).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and getattr(node.value.func, "id", "") == "Rule"
        ):
            (target,), first = node.targets, node.value.args[0]
            assert isinstance(target, ast.Name)
            assert isinstance(first, ast.Constant)
            found[target.id] = str(first.value)
    return found


def test_rules_are_declared_at_the_top_of_modules() -> None:
    """Elsewhere they would exist only after a call, and not be listed."""
    created = [
        f"{name(path)}:{node.lineno}"
        for path in ALL_FILES
        for node in nodes(path)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Rule"
    ]
    assert len(created) == sum(len(declarations(path)) for path in ALL_FILES)


def test_all_rules_are_listed_without_importing_pulumi() -> None:
    program = (
        "import sys; from fusioninfer_pulumi.rules.catalog import all_rules; print(*all_rules()); "
        "sys.exit('pulumi' in sys.modules or 'fusioninfer_pulumi.cli.program' not in sys.modules)"
    )
    listed = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()
    assert listed == sorted(rule for path in ALL_FILES for rule in declarations(path).values())


def test_ids_are_lower_case_words_with_hyphens() -> None:
    assert [rule for rule in all_rules() if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)+", rule)] == []


def test_rules_are_named_after_their_ids() -> None:
    wrong = {
        rule: constant
        for path in ALL_FILES
        for constant, rule in declarations(path).items()
        if constant != rule.upper().replace("-", "_")
    }
    assert wrong == {}


@cache
def known(path: Path) -> dict[str, Rule]:
    """The rules that a file knows by a name: declared in it, or imported."""
    rules = {each.upper().replace("-", "_"): rule for each, rule in all_rules().items()}
    imported = {
        alias.name
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = declarations(path).keys() | (imported & rules.keys())
    return {each: rules[each] for each in names}


def uses() -> Iterator[tuple[Rule, str, str]]:
    """Each use of a rule: the severity that it gets there, `?` if that depends, and the place."""
    for path in ALL_FILES:
        direct: set[ast.AST] = set()
        for node in nodes(path):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Name):
                called = getattr(node.func, "id", "")
                if called in CONSTRUCTORS and node.args[0].id in known(path):
                    direct.add(node.args[0])
                    place = f"{name(path)}:{node.lineno}"
                    yield known(path)[node.args[0].id], CONSTRUCTORS[called], place
        for node in nodes(path):
            if isinstance(node, ast.Name) and node not in direct:
                rule = known(path).get(node.id) if isinstance(node.ctx, ast.Load) else None
                if rule is not None:
                    yield rule, "?", f"{name(path)}:{node.lineno}"


def test_each_rule_is_used_with_its_severities() -> None:
    found: dict[str, set[str]] = {}
    for rule, severity, _ in uses():
        found.setdefault(rule.id, set()).add(severity)
    wrong = {}
    for rule in all_rules().values():
        declared, used = {each.value for each in rule.severities}, found.get(rule.id, set())
        if not used or not used - {"?"} <= declared or ("?" not in used and used != declared):
            wrong[rule.id] = f"declared: {sorted(declared)}, used: {sorted(used)}"
    assert wrong == {}


def test_texts_are_short_sentences() -> None:
    texts = [text for rule in all_rules().values() for text in (rule.sentence, rule.remedy)]
    assert [text for text in texts if not text.endswith(".") or len(text) > 160] == []


def test_the_usual_severity_comes_first_and_none_twice() -> None:
    for rule in all_rules().values():
        assert len(set(rule.severities)) == len(rule.severities) > 0
        assert all(isinstance(severity, Severity) for severity in rule.severities)


def test_each_rule_has_an_example_or_the_reason_why_not() -> None:
    listed = [rule for entries in areas().values() for rule in entries]
    assert sorted(listed) == sorted(all_rules())
    words = [
        entry
        for entries in areas().values()
        for entry in entries.values()
        if isinstance(entry, str)
    ]
    assert set(words) <= REASONS
    assert words.count("not-written") <= NOT_WRITTEN


@pytest.mark.parametrize("area", areas())
def test_examples_violate_their_rules(area: str) -> None:
    wrong = {}
    for rule in map(all_rules().__getitem__, areas()[area]):
        example = example_of(rule)
        if example is not None:
            found = found_by(example)
            severities = {severity for each, severity in found if each == rule.id}
            if not severities or not severities <= {each.value for each in rule.severities}:
                wrong[rule.id] = sorted(found)
    assert not wrong, f"found instead: {wrong}"
