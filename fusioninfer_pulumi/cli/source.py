"""An input of a command, and its documents as far as they could be planned."""

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
    """A document of an input and its plan.

    Attributes:
        origin: Its file and position.
        plan: Plan of its service, None for an invalid service or another kind.
        findings: Each with the origin of its document, because a service may consist of
            several.
        loaded: The document, None for a service of a program, or an unreadable file.
    """

    origin: Origin
    plan: ServicePlan | None = None
    findings: tuple[tuple[Origin, Finding], ...] = ()
    loaded: LoadedDocument | None = None

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The service as a manifest of ours, empty where it is none."""
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

    def noting(self, *findings: Finding) -> PlannedDocument:
        """The document with more findings about its service, at the user's fields."""
        located = (
            (self.origin, finding) if self.loaded is None else self.loaded.locate(finding)
            for finding in findings
        )
        return replace(self, findings=(*self.findings, *located))

    def without(self, rule: Rule) -> PlannedDocument:
        """The document without findings of a rule."""
        kept = tuple(located for located in self.findings if located[1].rule != rule.id)
        return replace(self, findings=kept)

    @property
    def ignored(self) -> frozenset[str]:
        """The rules that the service ignores by its annotation."""
        return frozenset() if self.plan is None else parse_ignored_rules(self.plan.meta.annotations)


def _without_ignored(
    findings: Sequence[tuple[Origin, Finding]], ignored: frozenset[str]
) -> Iterator[tuple[Origin, Finding]]:
    return (located for located in findings if drop_ignored([located[1]], ignored))


@dataclass
class Source:
    """An input of a command.

    Attributes:
        name: Its name in messages: paths, as the user gave them.
        documents: Its documents, in their order; those that cannot be read come first.
        remarks: Findings about the input as a whole, or about options.
        objects: Objects that were registered or read, None to render them from the plans.
        encrypted: The ciphertexts of a stack's config by key; None if the input is not a project.
        texts: The texts that were read, by their files.
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
        """Plans of the services, in the order of the input."""
        return [document.plan for document in self.documents if document.plan is not None]

    @property
    def findings(self) -> list[tuple[Origin, Finding]]:
        """All findings: document by document, then those about the input as a whole."""
        of_documents = [located for document in self.documents for located in document.findings]
        return [*of_documents, *self.remarks]

    @property
    def is_project(self) -> bool:
        """Whether it is a Pulumi project."""
        return self.encrypted is not None

    def ignore(self, rules: frozenset[str]) -> None:
        """Leaves out warnings of rules, and of those that services ignore by their annotation."""
        self.documents = [
            replace(
                document,
                findings=tuple(_without_ignored(document.findings, rules | document.ignored)),
            )
            for document in self.documents
        ]
        self.remarks = list(_without_ignored(self.remarks, rules))

    def add(self, file: str, *findings: Finding) -> None:
        """Adds findings about a file or an option."""
        self.remarks += [(Origin(file), finding) for finding in findings]

    def has(self, severity: Severity) -> bool:
        """Whether there is a finding of that severity."""
        return any(finding.severity is severity for _, finding in self.findings)

    def rendered(self) -> list[dict[str, Any]]:
        """All objects in apply order, without those of documents that hold errors."""
        if self.objects is None:
            from fusioninfer_pulumi.plan.service_objects import render

            plans = [document.plan for document in self.documents if not document.has_errors]
            self.objects = [item for plan in plans if plan is not None for item in render(plan)]
        return self.objects


OPTION_OUT_OF_PLACE = Rule("option-out-of-place")

UNREADABLE_REVISION = Rule("unreadable-revision")


def objects_of(source: Source, document: PlannedDocument) -> list[dict[str, Any]]:
    """Return the objects of one service: of a program, those that it registered."""
    from fusioninfer_pulumi.plan.service_objects import render

    assert document.plan is not None, "the caller has checked it"
    rendered = [] if document.has_errors else list(render(document.plan))
    if source.objects is None:
        return rendered
    wanted = [_identity(item) for item in rendered]
    return [item for item in source.objects if _identity(item) in wanted]


def _identity(item: Mapping[str, Any]) -> tuple[Any, ...]:
    names = (item["metadata"].get(key) for key in ("namespace", "name"))
    return item["kind"], *(UNKNOWN if is_output(name) else name for name in names)
