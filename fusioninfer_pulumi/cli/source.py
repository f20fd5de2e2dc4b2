"""A source of a command, its documents and their plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.findings import (
    Finding,
    Origin,
    Rule,
    Severity,
    drop_ignored,
    errors,
    parse_ignored_rules,
)
from fusioninfer_pulumi.kube.pulumi_outputs import UNKNOWN, is_output
from fusioninfer_pulumi.loading.documents import LoadedDocument
from fusioninfer_pulumi.plan.service_plan import ServicePlan

if TYPE_CHECKING:
    from fusioninfer_pulumi.api.service import InferenceServiceArgs


@dataclass(frozen=True)
class PlannedDocument:
    """A document of a source, and its plan.

    Attributes:
        origin: Its file and position.
        plan: Plan of its service, None if the service is invalid or the document is not a service.
        findings: Findings with their origins; a service may come from several documents.
        loaded: The document, None for a service of a program or an unreadable file.
    """

    origin: Origin
    plan: ServicePlan | None = None
    findings: tuple[tuple[Origin, Finding], ...] = ()
    loaded: LoadedDocument | None = None

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The service as an InferenceService manifest, empty if the document is not a service."""
        return (self.loaded.manifest if self.loaded is not None else None) or {}

    @property
    def args(self) -> InferenceServiceArgs:
        """The service of a manifest that has a plan."""
        assert self.loaded is not None
        assert self.loaded.document is not None
        assert self.loaded.document.args is not None
        return self.loaded.document.args

    @property
    def has_errors(self) -> bool:
        """Whether any of the findings is an error."""
        return bool(errors(finding for _, finding in self.findings))

    def with_findings(self, *findings: Finding) -> PlannedDocument:
        """Return the document with more findings, moved to the fields that users wrote."""
        located = (
            (self.origin, finding) if self.loaded is None else self.loaded.locate(finding)
            for finding in findings
        )
        return replace(self, findings=(*self.findings, *located))

    def without_findings(self, rule: Rule) -> PlannedDocument:
        """Return the document without the findings of a rule."""
        kept = tuple(located for located in self.findings if located[1].rule != rule.id)
        return replace(self, findings=kept)

    @property
    def ignored_rules(self) -> frozenset[str]:
        """The rules that an annotation of the service ignores."""
        return frozenset() if self.plan is None else parse_ignored_rules(self.plan.meta.annotations)


def _drop_ignored(
    findings: Sequence[tuple[Origin, Finding]], ignored: frozenset[str]
) -> Iterator[tuple[Origin, Finding]]:
    return (located for located in findings if drop_ignored([located[1]], ignored))


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
    documents: list[PlannedDocument] = field(default_factory=list)
    remarks: list[tuple[Origin, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    encrypted: Mapping[str, str] | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def planned(self) -> list[PlannedDocument]:
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
        self.documents = [
            replace(
                document,
                findings=tuple(_drop_ignored(document.findings, rules | document.ignored_rules)),
            )
            for document in self.documents
        ]
        self.remarks = list(_drop_ignored(self.remarks, rules))

    def add(self, file: str, *findings: Finding) -> None:
        """Add findings about a file or an option."""
        self.remarks += [(Origin(file), finding) for finding in findings]

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


OPTION_OUT_OF_PLACE = Rule("option-out-of-place")

UNREADABLE_REVISION = Rule("unreadable-revision")


def list_service_objects(source: Source, document: PlannedDocument) -> list[dict[str, Any]]:
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
