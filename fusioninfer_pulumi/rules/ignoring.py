"""Rules that users ignore: their warnings are left out, errors never are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fusioninfer_pulumi.findings import Finding, Location, Rule, Severity, shown, similar, warning
from fusioninfer_pulumi.kube.labels import IGNORE_RULES

IGNORED_RULE_UNKNOWN = Rule(
    "ignored-rule-unknown",
    "warning",
    "An ignored rule exists.",
    remedy="Correct its id: `fusioninfer-pulumi rules` lists all.",
)
IGNORED_RULE_IS_ERROR = Rule(
    "ignored-rule-is-error",
    "warning",
    "An ignored rule is a warning: errors are never silenced.",
    remedy="Correct the error, and remove the id.",
)

#: Where a service names the rules that it ignores.
AT: Location = ("metadata", "annotations", IGNORE_RULES)


def ignored_by(annotations: Mapping[str, Any]) -> frozenset[str]:
    """The rules that an annotation of a service names."""
    given = annotations.get(IGNORE_RULES)
    if not isinstance(given, str):
        return frozenset()
    return frozenset(each.strip() for each in given.split(",") if each.strip())


def without_ignored(findings: Iterable[Finding], ignored: Collection[str]) -> list[Finding]:
    """The findings without warnings of ignored rules."""
    return [
        each for each in findings if each.severity is Severity.ERROR or each.rule not in ignored
    ]


def ignoring_findings(
    ignored: Collection[str], found: Iterable[Finding], at: Location = AT
) -> Iterator[Finding]:
    """Warns of ignored rules that do not exist, and of those that are errors here."""
    if not ignored:
        return
    from fusioninfer_pulumi.rules.catalog import all_rules, successor  # noqa: PLC0415  # few ignore

    refused = {each.rule for each in found if each.severity is Severity.ERROR}
    for rule in sorted(ignored):
        if rule not in all_rules():
            became = successor(rule)
            if became is not None:
                yield warning(IGNORED_RULE_UNKNOWN, at, became)
                continue
            near = similar(rule, all_rules())
            hint = f"did you mean {near}?" if near else "`fusioninfer-pulumi rules` lists all"
            yield warning(IGNORED_RULE_UNKNOWN, at, f"no rule has the id {shown(rule)}; {hint}")
        elif rule in refused:
            message = f"{rule} is an error here, which is never ignored; correct it"
            yield warning(IGNORED_RULE_IS_ERROR, at, message)
