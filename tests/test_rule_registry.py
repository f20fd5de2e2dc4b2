"""The registry of rules is complete, and its examples violate the rules that they stand for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rule_examples import found_by
from rules_in_code import ids

from fusioninfer_pulumi.rules.registry import area_evidence, rules

ROOT = Path(__file__).parent.parent
FOLDER = "fusioninfer_pulumi/rules"
#: Rules without an example, each with the reason. Only to be shortened.
WITHOUT_EXAMPLE = Path(__file__).parent / "fixtures" / "rules_without_example.txt"
#: What an example would need beside an input; `not-written` where an input is enough.
REASONS = {
    "needs-cluster", "needs-command-line", "needs-files", "needs-inventory", "needs-output",
    "needs-previous-state", "needs-program", "not-written", "too-large",
}  # fmt: skip
#: Examples that nobody has written: not to become more.
NOT_WRITTEN = 28


def entry(rule: str, severities: set[str], place: str) -> str:
    """What to add for a rule."""
    known = sorted(severities - {"?"}) or ["error"]
    severity = known[0] if len(known) == 1 else f"[{', '.join(known)}]"
    return (
        f"# {place}: add to a file of {FOLDER}\n{rule}:\n  severity: {severity}\n"
        "  checks: <what holds where the rule is kept>\n  do: <what to do about a finding>\n"
        "  example:\n    worker:\n      roles[0].<field>: <value that violates it>\n"
    )


def test_every_rule_of_the_code_is_in_the_registry() -> None:
    missing = {rule: places for rule, places in ids().items() if rule not in rules()}
    told = "\n".join(
        entry(rule, set(places), next(iter(places.values()))) for rule, places in missing.items()
    )
    assert not missing, f"{len(missing)} rules are not in the registry:\n\n{told}"


def test_the_registry_has_no_rule_that_is_not_in_the_code() -> None:
    gone = sorted(rules().keys() - ids().keys())
    assert not gone, f"remove from {FOLDER}: {', '.join(gone)}"


def test_each_rule_is_registered_once() -> None:
    files = sorted((ROOT / FOLDER).glob("[a-z]*.yaml"))
    keys = [key for path in files for key in re.findall(r"(?m)^([\w-]+):", path.read_text("utf-8"))]
    assert sorted({key for key in keys if keys.count(key) > 1}) == []


def test_every_rule_says_where_it_is_known_from() -> None:
    assert {rule.area for rule in rules().values()} == area_evidence().keys()
    assert [rule.id for rule in rules().values() if not rule.known_from] == []


def test_severities_are_those_of_the_code() -> None:
    wrong = {}
    for rule in rules().values():
        given, found = {each.value for each in rule.severities}, set(ids()[rule.id])
        if not ("?" in found or given == found) or not found - {"?"} <= given:
            wrong[rule.id] = f"registry: {sorted(given)}, code: {sorted(found)}"
    assert wrong == {}


def test_texts_are_short_sentences() -> None:
    texts = [text for rule in rules().values() for text in (rule.checks, rule.do)]
    assert [text for text in texts if not text.endswith(".") or len(text) > 160] == []


@pytest.mark.parametrize("area", sorted({rule.area for rule in rules().values()}))
def test_examples_violate_their_rules(area: str) -> None:
    wrong = {}
    for rule in rules().values():
        if rule.area == area and rule.example is not None:
            found = found_by(rule)
            severities = {severity for name, severity in found if name == rule.id}
            if not severities or not severities <= {each.value for each in rule.severities}:
                wrong[rule.id] = sorted(found)
    assert not wrong, f"found instead: {wrong}"


def reasons() -> dict[str, str]:
    """Why each rule without an example has none."""
    lines = WITHOUT_EXAMPLE.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def test_rules_without_an_example_have_a_reason() -> None:
    given = list(reasons().values())
    assert set(given) <= REASONS
    assert given.count("not-written") <= NOT_WRITTEN


def test_new_rules_have_an_example() -> None:
    listed = set(reasons())
    without = {rule.id for rule in rules().values() if rule.example is None}
    assert not without - listed, f"give an example to {', '.join(sorted(without - listed))}"
    assert not listed - without, f"remove from {WITHOUT_EXAMPLE.name}: {sorted(listed - without)}"
