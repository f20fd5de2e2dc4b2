"""What is found in the examples of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.cli.read_sources import Source, plan_documents
from fusioninfer_pulumi.findings import Origin
from fusioninfer_pulumi.loading.documents import load_documents
from fusioninfer_pulumi.loading.file_set import Text, load_texts, parse
from fusioninfer_pulumi.rules.catalog import list_documents


def found_by(example: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Rule and severity of everything that is found in a rule's example."""
    if "text" in example:
        source = Source("example")
        plan_documents(source, load_texts([parse(Text("example", example["text"]))]))
        return _found(source)
    return found_in(list_documents(example))


def found_in(documents: Sequence[Any]) -> set[tuple[str, str]]:
    """The same of the documents of one input."""
    source = Source("example")
    plan_documents(
        source,
        load_documents([(Origin("example", i), raw) for i, raw in enumerate(documents, start=1)]),
    )
    return _found(source)


def _found(source: Source) -> set[tuple[str, str]]:
    source.ignore(frozenset())  # warns of what annotations ignore in vain
    return {(finding.rule, finding.severity.value) for _, finding in source.findings}
