"""Rules that users ignore: their warnings are left out, errors never are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fusioninfer_pulumi.findings import (
    Finding,
    Severity,
)
from fusioninfer_pulumi.kube.labels import IGNORE_RULES


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
