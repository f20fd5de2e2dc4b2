"""Rules of the code and of the catalogue are the same, and examples violate them."""

from __future__ import annotations

import re

import pytest
from package_code import FILES, PLUGIN_FILES
from rule_examples import find_example_findings

from fusioninfer_pulumi.rules.catalog import load_rules

#: Why a manifest alone cannot violate a rule.
REASONS = {
    "needs-cluster", "needs-command-line", "needs-files", "needs-inventory", "needs-output",
    "needs-previous-state", "needs-program", "too-large",
}  # fmt: skip
TEXTS = {path: path.read_text(encoding="utf-8") for path in (*FILES, *PLUGIN_FILES)}
#: Rules by the names of their constants.
RULES = {
    name: rule
    for text in TEXTS.values()
    for name, rule in re.findall(r'^(\w+) = Rule\("(.+)"\)$', text, re.MULTILINE)
}


def test_each_rule_has_an_entry_and_is_named_after_its_id() -> None:
    assert sorted(RULES.values()) == sorted(load_rules())
    assert {rule: rule.lower().replace("_", "-") for rule in RULES} == RULES
    assert [rule for rule in load_rules() if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)+", rule)] == []


def test_findings_have_a_severity_of_their_rule() -> None:
    result = {
        (RULES[name], severity)
        for text in TEXTS.values()
        for severity, name in re.findall(r"\b(error|warning|info)\(\s*([A-Z_]+),", text)
        if name in RULES
    }
    wrong = [
        (rule, severity)
        for rule, severity in result
        if severity not in {level.value for level in load_rules()[rule].severities}
    ]
    assert wrong == []


def test_each_rule_is_used() -> None:
    uses = dict.fromkeys(RULES, 0)
    for text in TEXTS.values():
        for name in re.findall(r"\b[A-Z][A-Z_]+\b", text):
            if name in uses:
                uses[name] += 1
    assert [name for name, count in uses.items() if count < 2] == []


def test_texts_are_short_sentences() -> None:
    texts = [text for rule in load_rules().values() for text in (rule.title, rule.remedy)]
    assert [text for text in texts if not text.endswith(".") or len(text) > 160] == []


def test_each_rule_has_an_example_or_the_reason_why_not() -> None:
    words = [rule.example for rule in load_rules().values() if isinstance(rule.example, str)]
    assert set(words) <= REASONS


@pytest.mark.parametrize("area", sorted({rule.area for rule in load_rules().values()}))
def test_examples_violate_their_rules(area: str) -> None:
    wrong = {}
    for rule in load_rules().values():
        if rule.area == area and not isinstance(rule.example, str):
            result = find_example_findings(rule.example)
            severities = {severity for item, severity in result if item == rule.id}
            if not severities or not severities <= {item.value for item in rule.severities}:
                wrong[rule.id] = sorted(result)
    assert not wrong, f"found instead: {wrong}"
