"""What a command reads: manifests, standard input, rendered objects or a Pulumi project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.checked import checked
from fusioninfer_pulumi.cli.given import Given, read_given
from fusioninfer_pulumi.findings import Finding, Severity, error, errors
from fusioninfer_pulumi.loading.documents import Reading, is_read
from fusioninfer_pulumi.loading.file_set import Parsed, parse, read_set
from fusioninfer_pulumi.objects import render
from fusioninfer_pulumi.planning import with_collisions
from fusioninfer_pulumi.routing.between_services import Shares
from fusioninfer_pulumi.service_plan import ServicePlan


@dataclass
class Source:
    """One input of a command, read as far as it could be.

    Attributes:
        label: Name of the input in messages.
        plans: Services with a plan, in the order of the input.
        labels: Name of each plan's document.
        findings: Document and finding, in the order of the input.
        objects: Objects that were registered or given, None to build them from the plans.
        manifests: The services as manifests of ours, None where no manifest was read.
        readings: The documents that were read, None where there are none.
        project: Whether it is a Pulumi project.
        encrypted: Of each encrypted value of its stack's config what is written there.
        planned: Those of the plans, in the same order; none where a program made the plans.
    """

    label: str
    plans: list[ServicePlan] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    manifests: list[Mapping[str, Any]] | None = None
    readings: list[Reading] | None = None
    planned: list[Reading] = field(default_factory=list)
    project: bool = False
    encrypted: Mapping[str, str] = field(default_factory=dict)

    def add(self, label: str, findings: Sequence[Finding]) -> None:
        """Notes findings of one document."""
        self.findings += [(label, finding) for finding in findings]

    def has(self, severity: Severity) -> bool:
        """Tells whether anything of that severity was found."""
        return any(finding.severity is severity for _, finding in self.findings)

    def named(self, read: str, label: str) -> Source:
        """The same input under the name that the user gave, in place of the path that was read."""
        self.label = self.label.replace(read, label)
        self.labels = [item.replace(read, label) for item in self.labels]
        self.findings = [(item.replace(read, label), found) for item, found in self.findings]
        return self

    def rendered(self) -> list[dict[str, Any]]:
        """All objects in apply order, without those of plans that hold errors."""
        if self.objects is None:
            self.objects = []
            for plan in self.plans:
                if not errors(plan.findings):
                    self.objects += render(plan)
        return self.objects


def read_sources(
    names: Sequence[str],
    stack: str | None,
    *,
    show_secrets: bool,
    compared: bool = False,
    allow_lossy: bool = False,
) -> Source:
    """Reads one input, or several manifests as if they were one.

    Args:
        names: Paths of files and of folders of manifests; a Pulumi project stands alone. `-` is
            standard input.
        stack: Stack whose config a project's program reads, None for the only one.
        show_secrets: Whether secrets of a program are shown.
        compared: Whether the input is a side of a comparison: it may hold Kubernetes objects in
            place of services, and the masks of a program's secrets are marked (see `Secrets`).
        allow_lossy: Whether what cannot be carried over from another system's manifest is a
            warning in place of an error.

    Returns:
        The input; whatever is wrong with it is among its findings.
    """
    given = [read_given(name) for name in names]
    if len(given) == 1 and given[0].project:
        folder = Path(names[0])
        return _project(names[0], folder, stack, show_secrets=show_secrets, marked=compared)
    source = Source(", ".join(each.label for each in given))
    _problems(source, given)
    parsed = [parse(text) for each in given for text in each.texts]
    if compared and not source.findings:
        source.objects = _objects(parsed)
        if source.objects is not None:
            return source
    if parsed:
        plan_all(source, read_set(parsed, allow_lossy=allow_lossy))
    return source


def read_apart(
    names: Sequence[str], stack: str | None, *, show_secrets: bool, allow_lossy: bool = False
) -> list[Source]:
    """Reads several inputs whose services may be of several stacks.

    Their documents may refer to each other, unless two of them are of one kind and name: then each
    input is read by itself.

    Args:
        names: As for `read_sources`, Pulumi projects included.
        stack: As for `read_sources`.
        show_secrets: As for `read_sources`.
        allow_lossy: As for `read_sources`.

    Returns:
        One source for each name; services are held only against those of the same one.
    """
    given = [read_given(name) for name in names]
    parsed = [[parse(text) for text in each.texts] for each in given]
    identities = [one for its in parsed for each in its for one in each.identities]
    together: list[Reading] | None = None
    if len(identities) == len(set(identities)) and len(set(names)) == len(names):
        everything = [each for its in parsed for each in its]
        together = read_set(everything, allow_lossy=allow_lossy)
    sources = []
    for each, its in zip(given, parsed, strict=True):
        if each.project:
            folder = Path(each.name)
            sources.append(_project(each.name, folder, stack, show_secrets=show_secrets))
            continue
        source = Source(each.label)
        _problems(source, [each])
        if together is not None:
            own = {each.label, *(label for one in its for label in one.labels)}
            _plan(source, [one for one in together if one.label in own])
        elif its:
            plan_all(source, read_set(its, allow_lossy=allow_lossy))
        sources.append(source)
    if together is not None:
        _tell_shares(sources)
    return sources


def _problems(source: Source, given: Sequence[Given]) -> None:
    for each in given:
        if each.project:
            source.add(each.label, [error("", "is a Pulumi project: give it alone")])
        for label, problem in each.problems:
            source.add(label, [error("", problem)])


def plan_all(source: Source, read: Sequence[Reading]) -> None:
    """Plans what was read, and notes everything that there is to say about it."""
    _plan(source, read)
    _tell_shares([source])


def _tell_shares(sources: Sequence[Source]) -> None:
    """Notes what is wrong with requests that services of these sources give to each other."""
    shares = Shares(plan for source in sources for plan in source.plans)
    # A name that is none of theirs may be that of a service that could not be read.
    complete = all(source.planned and not source.has(Severity.ERROR) for source in sources)
    for source in sources:
        for index, read in enumerate(source.planned):
            plan = source.plans[index]
            located = [read.locate(each) for each in shares.findings(plan, complete=complete)]
            source.findings += located
            told = (finding for _, finding in located)
            source.plans[index] = replace(plan, findings=(*told, *plan.findings))


def _plan(source: Source, read: Sequence[Reading]) -> None:
    planned: list[Reading] = []
    source.manifests, source.readings = [], list(read)
    for each in read:
        source.findings += each.remarks
        plan, found = (None, ()) if each.document is None else checked(each.document)
        if plan is None:
            source.findings += map(each.locate, found)
            continue
        planned.append(each)
        source.plans.append(plan)
        source.labels.append(each.label)
        source.manifests.append(each.manifest or {})
    source.plans = [
        _located(source, each, plan)
        for each, plan in zip(planned, with_collisions(source.plans), strict=True)
    ]
    source.planned = planned


def _located(source: Source, read: Reading, plan: ServicePlan) -> ServicePlan:
    """The plan with what reading had to say, and with paths of the document that was read."""
    located = [read.locate(finding) for finding in plan.findings]
    source.findings += located
    told = [finding for _, finding in (*read.remarks, *located)]
    return replace(plan, findings=tuple(told))


def _objects(texts: Sequence[Parsed]) -> list[dict[str, Any]] | None:
    """Kubernetes objects of texts, None when they hold anything else."""
    found: list[dict[str, Any]] = []
    for text in texts:
        if text.documents is None:
            return None
        for item in text.documents:
            listed = isinstance(item, Mapping) and item.get("kind") == "List"
            items = item.get("items") if listed else [item]
            if not isinstance(items, list):
                return None
            found += items
        if not text.documents and text.text.folder is None:
            return None
    complete = all(
        isinstance(item, Mapping)
        and isinstance(item.get("apiVersion"), str)
        and isinstance(item.get("kind"), str)
        and isinstance(item.get("metadata"), Mapping)
        and not is_read(item)
        for item in found
    )
    return found if complete and found else None


def _project(
    label: str, folder: Path, stack: str | None, *, show_secrets: bool, marked: bool = False
) -> Source:
    # Only a project needs Pulumi, which costs more to import than a manifest to read.
    from fusioninfer_pulumi.cli.program import ProgramError, Secrets, run_program

    source = Source(label, project=True)
    hidden = Secrets.MARKED if marked else Secrets.MASKED
    try:
        recording = run_program(folder, stack, Secrets.SHOWN if show_secrets else hidden)
    except ProgramError as problem:
        source.add(label, problem.findings)
        return source
    source.encrypted = recording.encrypted
    source.objects = [recorded.manifest for recorded in recording.resources]
    for number, plan in enumerate(recording.plans, start=1):
        source.plans.append(plan)
        source.labels.append(label if number == 1 else f"{label}#{number}")
        source.add(source.labels[-1], plan.findings)
    source.add(label, recording.findings)
    return source
