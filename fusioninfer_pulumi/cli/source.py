"""A source of a command, its documents and their plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusioninfer_pulumi.findings import (
    Finding,
    Origin,
    Rule,
    Severity,
    drop_ignored,
    parse_ignored_rules,
)
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.loading.documents import Document
from fusioninfer_pulumi.plan.service_plan import ServicePlan

OPTION_OUT_OF_PLACE = Rule("option-out-of-place")
UNREADABLE_REVISION = Rule("unreadable-revision")


@dataclass
class Source:
    """A source of a command.

    Attributes:
        name: Its name in messages: the paths on the command line.
        documents: Its documents in order; unreadable ones come first.
        remarks: Findings about the source as a whole, or about options.
        objects: Objects that a program registered or a file contains; None to render the plans.
        encrypted: The ciphertexts of a stack's config by key; None unless it is a project.
        texts: The texts by file.
    """

    name: str
    documents: list[Document] = field(default_factory=list)
    remarks: list[tuple[Origin, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    encrypted: Mapping[str, str] | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def planned(self) -> list[Document]:
        """The documents with a plan."""
        return [document for document in self.documents if document.plan is not None]

    @property
    def plans(self) -> list[ServicePlan]:
        """Plans of the services, in the order of the documents."""
        return [document.plan for document in self.documents if document.plan is not None]

    @property
    def findings(self) -> list[tuple[Origin, Finding]]:
        """All findings: document by document, then the remarks."""
        findings = [located for document in self.documents for located in document.findings]
        return [*findings, *self.remarks]

    @property
    def is_project(self) -> bool:
        """Whether it is a Pulumi project."""
        return self.encrypted is not None

    def ignore(self, rules: frozenset[str]) -> None:
        """Drop the warnings of these rules, and of rules that a service's annotation ignores."""
        self.documents = [_apply_ignored(document, rules) for document in self.documents]
        self.remarks = [located for located in self.remarks if drop_ignored([located[1]], rules)]

    def add(self, file: str, *findings: Finding) -> None:
        """Add findings about a file or an option."""
        self.remarks += [(Origin(file), finding) for finding in findings]

    def add_to_services(self, findings: Iterable[Sequence[Finding]]) -> None:
        """Add findings to the planned services, in their order."""
        following = iter(findings)
        self.documents = [
            document if document.plan is None else document.with_findings(*next(following))
            for document in self.documents
        ]

    def has(self, severity: Severity) -> bool:
        """Return whether there is a finding of this severity."""
        return any(finding.severity is severity for _, finding in self.findings)

    def render(self) -> list[dict[str, Any]]:
        """Return all objects in apply order, except those of documents with errors."""
        if self.objects is None:
            from fusioninfer_pulumi.plan.service_objects import render

            plans = [document.plan for document in self.documents if not document.has_errors]
            self.objects = [item for plan in plans if plan is not None for item in render(plan)]
        return self.objects


def _apply_ignored(document: Document, rules: frozenset[str]) -> Document:
    if document.plan and (named := parse_ignored_rules(document.plan.meta.annotations)):
        from fusioninfer_pulumi.rules.catalog import check_ignored_rules

        document = document.with_findings(*check_ignored_rules(named))
        rules |= named
    return document.filter_findings(lambda finding: bool(drop_ignored([finding], rules)))


def list_service_objects(source: Source, document: Document) -> list[dict[str, Any]]:
    """Return the objects of one service; in a program, only objects that it registered."""
    from fusioninfer_pulumi.plan.service_objects import render

    assert document.plan is not None, "the caller has checked it"
    rendered = [] if document.has_errors else list(render(document.plan))
    if source.objects is None:
        return rendered
    identities = [_identify(item) for item in rendered]
    return [item for item in source.objects if _identify(item) in identities]


def _identify(item: Mapping[str, Any]) -> tuple[Any, ...]:
    names = (item["metadata"].get(key) for key in ("namespace", "name"))
    return item["kind"], *(UNKNOWN if is_output(name) else name for name in names)
