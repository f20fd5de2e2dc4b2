"""Rules that users ignore: their warnings are left out, errors never are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import (
    Finding,
    Location,
    Rule,
    Severity,
    closest_name,
    shown,
    warning,
)
from fusioninfer_pulumi.kube.labels import IGNORE_RULES

IGNORED_RULE_UNKNOWN = Rule("ignored-rule-unknown")
IGNORED_RULE_IS_ERROR = Rule("ignored-rule-is-error")

#: Where a service names the rules that it ignores.
AT: Location = ("metadata", "annotations", IGNORE_RULES)


def parse_ignored_rules(annotations: Mapping[str, Any]) -> frozenset[str]:
    """Return the rules that a service's annotation ignores."""
    ignored_text = annotations.get(IGNORE_RULES)
    if not isinstance(ignored_text, str):
        return frozenset()
    return frozenset(rule_id.strip() for rule_id in ignored_text.split(",") if rule_id.strip())


def drop_ignored(findings: Iterable[Finding], ignored: Collection[str]) -> list[Finding]:
    """Remove warnings of ignored rules."""
    return [
        finding
        for finding in findings
        if finding.severity is Severity.ERROR or finding.rule not in ignored
    ]


def check_ignored_rules(
    ignored: Collection[str], findings: Iterable[Finding], at: Location = AT
) -> Iterator[Finding]:
    """Warn of ignored rules that do not exist, and of those that are errors here."""
    if not ignored:
        return
    from fusioninfer_pulumi.rules.catalog import all_rules  # noqa: PLC0415  # few ignore

    error_rules = {finding.rule for finding in findings if finding.severity is Severity.ERROR}
    for rule in sorted(ignored):
        if rule not in all_rules():
            near = closest_name(rule, all_rules())
            hint = f"did you mean {near}?" if near else "`fusioninfer-pulumi rules` lists all"
            yield warning(IGNORED_RULE_UNKNOWN, at, f"no rule has the id {shown(rule)}; {hint}")
        elif rule in error_rules:
            message = f"{rule} is an error here, which is never ignored; correct it"
            yield warning(IGNORED_RULE_IS_ERROR, at, message)
