"""Checks the examples of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Origin
from fusioninfer_pulumi.loading.documents import load_documents
from fusioninfer_pulumi.loading.file_set import load_texts, parse
from fusioninfer_pulumi.rules.catalog import list_documents


def find_example_findings(example: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return rule and severity of each finding in a rule's example."""
    if "text" in example:
        source = Source("example")
        plan_documents(source, load_texts([parse("example", example["text"])]))
        return _list_rules(source)
    return find_input_findings(list_documents(example))


def find_input_findings(documents: Sequence[Any]) -> set[tuple[str, str]]:
    """Return rule and severity of each finding in the documents of one input."""
    source = Source("example")
    plan_documents(
        source,
        load_documents([(Origin("example", i), raw) for i, raw in enumerate(documents, start=1)]),
    )
    return _list_rules(source)


def _list_rules(source: Source) -> set[tuple[str, str]]:
    source.ignore(frozenset())  # reports annotations that ignore nothing
    return {(finding.rule, finding.severity.value) for _, finding in source.findings}
