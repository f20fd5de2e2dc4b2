"""What a command reads: manifests, standard input, rendered objects or a Pulumi project."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.checked import checked
from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.findings import (
    Finding,
    InvalidServiceError,
    Origin,
    Rule,
    Severity,
    error,
    errors,
    warning,
)
from fusioninfer_pulumi.loading.documents import LoadedDocument, is_read
from fusioninfer_pulumi.loading.file_set import (
    NO_MANIFESTS,
    NO_SERVICE_IN_FOLDER,
    Parsed,
    Text,
    manifest_files,
    parse,
    read_set,
)
from fusioninfer_pulumi.loading.rules import NOT_UTF_8
from fusioninfer_pulumi.loading.yaml import MAX_BYTES, TOO_LARGE
from fusioninfer_pulumi.planning import with_collisions
from fusioninfer_pulumi.routing.between_services import Shares
from fusioninfer_pulumi.rules.ignoring import ignored_by, ignoring_findings, without_ignored
from fusioninfer_pulumi.service_plan import ServicePlan

if TYPE_CHECKING:
    from fusioninfer_pulumi.api.service import InferenceServiceArgs
    from fusioninfer_pulumi.capacity import Placed

UNREADABLE_FILE = Rule(
    "unreadable-file",
    "error",
    "The file can be read.",
    remedy="Check the path and its rights.",
)
NO_MANIFEST_IN_FOLDER = Rule(
    "no-manifest-in-folder",
    "error",
    "A folder holds a Pulumi project or manifests.",
    remedy="Give another folder.",
)
FILE_TOO_LARGE = Rule(
    "file-too-large",
    "error",
    "A manifest file has at most 16 MiB.",
    remedy="Split the file.",
)
LINK_OUT_OF_REPOSITORY = Rule(
    "link-out-of-repository",
    "warning",
    "Links of a git revision stay in the repository.",
    remedy="Nothing: the link is left out.",
)
PROJECT_PLACES_ITSELF = Rule(
    "project-places-itself",
    "error",
    "Services of a program are placed by the program.",
    remedy="Call `place(...)` in the program.",
)

STDIN = "<stdin>"
_PROJECT = ("Pulumi.yaml", "Pulumi.yml")


@dataclass
class Source:
    """One input of a command, read as far as it could be.

    Attributes:
        label: Name of the input in messages.
        plans: Services with a plan, in the order of the input.
        labels: Name of each plan's document.
        findings: Document and finding, in the order of the input.
        objects: Objects that were registered or read, None to build them from the plans.
        manifests: The services as manifests of ours, None where no manifest was read.
        readings: The documents that were read, None where there are none.
        project: Whether it is a Pulumi project.
        encrypted: Of each encrypted value of its stack's config what is written there.
        providers: Name of the Kubernetes provider of each plan, where a program made the plans.
        planned: Those of the plans, in the same order; none where a program made the plans.
        texts: The texts that were read, by their labels.
    """

    label: str
    plans: list[ServicePlan] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    manifests: list[Mapping[str, Any]] | None = None
    readings: list[LoadedDocument] | None = None
    project: bool = False
    encrypted: Mapping[str, str] = field(default_factory=dict)
    providers: Sequence[str] = ()
    planned: list[LoadedDocument] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def read(self, inputs: Sequence[_Input]) -> None:
        """Notes the texts of paths, and why some cannot be read."""
        for each in inputs:
            self.findings += each.problems
            self.texts |= {text.file: text.content for text in each.texts}

    def ignore(self, rules: frozenset[str]) -> None:
        """Leaves out warnings of rules, and of those that services ignore by their annotation."""
        by_service: dict[str, frozenset[str]] = {}
        for index, plan in enumerate(self.plans):
            if own := ignored_by(plan.annotations):
                remarks = self.planned[index].remarks if self.planned else ()
                for label in {self.labels[index], *(str(origin) for origin, _ in remarks)}:
                    by_service[label] = by_service.get(label, frozenset()) | own
        if not rules and not by_service:
            return
        notes = [
            (label, more)
            for label, own in by_service.items()
            for more in ignoring_findings(own, (each for at, each in self.findings if at == label))
        ]
        self.findings = [
            *(
                (label, each)
                for label, each in self.findings
                if without_ignored([each], rules | by_service.get(label, frozenset()))
            ),
            *notes,
        ]
        self.plans = [
            replace(
                plan,
                findings=tuple(
                    without_ignored(plan.findings, rules | by_service.get(label, frozenset()))
                ),
            )
            for label, plan in zip(self.labels, self.plans, strict=True)
        ]

    def add(self, label: str, *findings: Finding) -> None:
        """Notes findings of one document."""
        self.findings += [(label, finding) for finding in findings]

    def has(self, severity: Severity) -> bool:
        """Whether anything of that severity was found."""
        return any(finding.severity is severity for _, finding in self.findings)

    def named(self, read: str, label: str) -> Source:
        """The same input under the name that the user gave, in place of the path that was read."""
        self.label = self.label.replace(read, label)
        self.labels = [item.replace(read, label) for item in self.labels]
        self.findings = [(item.replace(read, label), found) for item, found in self.findings]
        self.texts = {item.replace(read, label): text for item, text in self.texts.items()}
        return self

    def rendered(self) -> list[dict[str, Any]]:
        """All objects in apply order, without those of plans that hold errors."""
        if self.objects is None:
            from fusioninfer_pulumi.objects import render

            good = [plan for plan in self.plans if not errors(plan.findings)]
            self.objects = [each for plan in good for each in render(plan)]
        return self.objects


@dataclass
class _Input:
    """One path of a command line; `-` is standard input.

    Attributes:
        name: The path.
        label: Its name in messages.
        texts: Its text; those of its files, where it is a folder.
        problems: Label of what cannot be read, and why.
        project: Whether it is the folder of a Pulumi project, of which nothing is read here.
    """

    name: str
    label: str
    texts: list[Text] = field(default_factory=list)
    problems: list[tuple[str, Finding]] = field(default_factory=list)
    project: bool = False


def read_sources(names: Sequence[str], options: argparse.Namespace) -> list[Source]:
    """Reads manifests as if they were one input, and each Pulumi project as one of its own.

    Args:
        names: Paths of files, of folders of manifests and of projects; `-` is standard input.
        options: The command line: `stack`, `show_secrets`, `timeout` and `allow_lossy`.

    Returns:
        The inputs, each with what is wrong among its findings.
    """
    inputs = [_read(name) for name in names]
    projects = [_project(each.name, options) for each in inputs if each.project]
    files = [each for each in inputs if not each.project]
    return [_manifests(files, options), *projects] if files else projects


def _manifests(
    inputs: Sequence[_Input], options: argparse.Namespace, *, compared: bool = False
) -> Source:
    source = Source(", ".join(each.label for each in inputs))
    source.read(inputs)
    parsed = [parse(text) for each in inputs for text in each.texts]
    if compared and not source.findings:
        source.objects = _objects(parsed)
        if source.objects is not None:
            return source
    if parsed:
        with working(f"{source.label}: planning"):
            plan_all(source, read_set(parsed, allow_lossy=options.allow_lossy))
    return source


def _read_side(name: str, options: argparse.Namespace) -> Source:
    """Reads a side of a comparison: it may hold Kubernetes objects in place of services.

    The masks of a program's secrets are marked (see `Secrets`).
    """
    input_ = _read(name)
    if input_.project:
        return _project(name, options, marked=True)
    return _manifests([input_], options, compared=True)


def read_apart(names: Sequence[str], options: argparse.Namespace) -> list[Source]:
    """Reads several inputs whose services may be of several stacks, one source for each name.

    Their documents may refer to each other, unless two of them are of one kind and name: then each
    input is read by itself. Services are held only against those of the same source.
    """
    inputs = [_read(name) for name in names]
    parsed = [[parse(text) for text in each.texts] for each in inputs]
    identities = [one for its in parsed for each in its for one in each.identities]
    together: list[LoadedDocument] | None = None
    if len(identities) == len(set(identities)) and len(set(names)) == len(names):
        everything = [each for its in parsed for each in its]
        together = read_set(everything, allow_lossy=options.allow_lossy)
    sources = []
    for each, its in zip(inputs, parsed, strict=True):
        if each.project:
            sources.append(_project(each.name, options))
            continue
        source = Source(each.label)
        source.read([each])
        if together is not None:
            files = {each.label, *(one.text.file for one in its)}
            _plan(source, [one for one in together if one.origin.file in files])
        elif its:
            plan_all(source, read_set(its, allow_lossy=options.allow_lossy))
        sources.append(source)
    if together is not None:
        _add_shares(sources)
    return sources


def _read(name: str) -> _Input:
    input_ = _Input(name, STDIN if name == "-" else name)
    with _unreadable(input_, input_.label):
        if name != "-" and name and "\0" not in name and Path(name).is_dir():
            _read_folder(input_, Path(name))
        else:
            _read_text(input_, input_.label, name, None)
    return input_


@contextlib.contextmanager
def _unreadable(input_: _Input, label: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        input_.problems.append((label, _cannot_be_read(problem)))


def _cannot_be_read(problem: OSError) -> Finding:
    return error(UNREADABLE_FILE, (), f"cannot be read: {problem.strerror or problem}")


def _is_project(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PROJECT)


def _read_folder(input_: _Input, folder: Path) -> None:
    if _is_project(folder):
        input_.project = True
        return
    files = manifest_files(folder)
    if not files:
        message = f"no Pulumi.yaml and {NO_MANIFESTS}"
        input_.problems.append((input_.label, error(NO_MANIFEST_IN_FOLDER, (), message)))
    for file in files:
        _read_text(input_, str(file), str(file), input_.label)


def _read_text(input_: _Input, label: str, name: str, folder: str | None) -> None:
    with _unreadable(input_, label):
        data = _bytes(name)
        if len(data) > MAX_BYTES:
            input_.problems.append((label, error(FILE_TOO_LARGE, (), TOO_LARGE)))
            return
        try:
            input_.texts.append(Text(label, data.decode("utf-8-sig"), folder))
        except UnicodeDecodeError:
            input_.problems.append((label, error(NOT_UTF_8, (), "not YAML: not UTF-8 text")))


def _bytes(name: str) -> bytes:
    """At most one byte more than a manifest may have: the input may be a device without an end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        data: bytes = sys.stdin.buffer.read(MAX_BYTES + 1)
        return data
    if not name or "\0" in name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    with Path(name).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def plan_all(source: Source, read: Sequence[LoadedDocument]) -> None:
    """Plans what was read, and notes everything that there is to say about it."""
    _plan(source, read)
    _add_shares([source])


def _plan(source: Source, read: Sequence[LoadedDocument]) -> None:
    planned: list[LoadedDocument] = []
    source.manifests, source.readings = [], list(read)
    for each in read:
        source.findings += _labelled(each.remarks)
        plan, found = (None, ()) if each.document is None else checked(each.document)
        if plan is None:
            source.findings += _labelled(map(each.locate, found))
            continue
        planned.append(each)
        source.plans.append(plan)
        source.labels.append(str(each.origin))
        source.manifests.append(each.manifest or {})
    source.plans = [
        _located(source, each, plan)
        for each, plan in zip(planned, with_collisions(source.plans), strict=True)
    ]
    source.planned = planned


def _labelled(found: Iterable[tuple[Origin, Finding]]) -> Iterator[tuple[str, Finding]]:
    return ((str(origin), finding) for origin, finding in found)


def _located(source: Source, read: LoadedDocument, plan: ServicePlan) -> ServicePlan:
    """The plan with the findings of its loading, and with paths of the document that was read."""
    located = [read.locate(finding) for finding in plan.findings]
    source.findings += _labelled(located)
    own = [finding for _, finding in (*read.remarks, *located)]
    return replace(plan, findings=tuple(own))


def _add_shares(sources: Sequence[Source]) -> None:
    """Notes what is wrong with requests that services of these sources give to each other."""
    shares = Shares(plan for source in sources for plan in source.plans)
    # A name that is none of theirs may be that of a service that could not be read.
    complete = all(source.planned and not source.has(Severity.ERROR) for source in sources)
    for source in sources:
        for index, read in enumerate(source.planned):
            plan = source.plans[index]
            located = [read.locate(each) for each in shares.findings(plan, complete=complete)]
            source.findings += _labelled(located)
            own = (finding for _, finding in located)
            source.plans[index] = replace(plan, findings=(*own, *plan.findings))


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


def _project(label: str, options: argparse.Namespace, *, marked: bool = False) -> Source:
    # Only a project needs Pulumi, which costs more to import than a manifest to read.
    from fusioninfer_pulumi.cli.program import ProgramError, Secrets, run_program

    source = Source(label, project=True)
    hidden = Secrets.MARKED if marked else Secrets.MASKED
    try:
        recording = run_program(
            Path(label),
            options.stack,
            Secrets.SHOWN if options.show_secrets else hidden,
            options.timeout,
        )
    except ProgramError as problem:
        source.add(label, *problem.findings)
        return source
    source.encrypted, source.providers = recording.encrypted, recording.providers
    source.objects = [recorded.manifest for recorded in recording.resources]
    for number, plan in enumerate(recording.plans, start=1):
        source.plans.append(plan)
        source.labels.append(label if number == 1 else f"{label}#{number}")
        source.add(source.labels[-1], *plan.findings)
    source.add(label, *recording.findings)
    return source


@dataclass(frozen=True)
class Compared:
    """The two sides of `diff`.

    Attributes:
        old: The state before.
        new: The state after.
        judged: Those whose errors, and with `--strict` warnings, stop the command.
        notes: What the comparison cannot show.
    """

    old: Source
    new: Source
    judged: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def read_compared(options: argparse.Namespace) -> Compared:
    """Reads both sides of `diff`.

    A git revision is there already, valid or not: what is wrong with it are
    warnings, so that a change that repairs it can be compared. What only one side has is added or
    removed.

    Raises:
        RevisionError: The revision cannot be read.
    """
    if options.base is None:
        old, new = (_read_side(each, options) for each in (options.old, options.new))
        return Compared(old, new, judged=(old, new), notes=_encrypted(old, new))
    from fusioninfer_pulumi.cli.revision import at_revision

    name = options.old
    label = f"{options.base}:{name.rstrip('/') or name}"
    with at_revision(name, options.base) as found:
        old = nothing = Source(label, objects=[])
        if found.path is not None and not _holds_nothing(found.path):
            old = _read_side(found.path, options).named(found.path, label)
            old.rendered()
        if _holds_no_service(old):
            old = nothing
    for link in found.outside:
        message = "is a link out of the repository: left out, what it leads to has no revision"
        old.add(f"{options.base}:{link}", warning(LINK_OUT_OF_REPOSITORY, (), message))
    new = _read_side(name, options)
    if old is not nothing and (_holds_nothing(name) or _holds_no_service(new)):
        new = Source(name, objects=[])
    notes = _forgive(old)
    return Compared(old, new, judged=(new,), notes=(*notes, *_encrypted(old, new)))


def _holds_nothing(name: str) -> bool:
    """Whether there is nothing to read at a path: no file, project or manifest."""
    path = Path(name)
    if name in ("-", "") or "\0" in name or (os.path.lexists(path) and not path.is_dir()):
        return False
    try:
        return not path.is_dir() or not (_is_project(path) or manifest_files(path))
    except OSError:
        return False  # reading it reports why


def _holds_no_service(source: Source) -> bool:
    """Whether nothing is wrong with a folder but that its manifests are of other things."""
    wrong = errors(finding for _, finding in source.findings)
    return bool(wrong) and all(each.rule == NO_SERVICE_IN_FOLDER.id for each in wrong)


def _encrypted(old: Source, new: Source) -> tuple[str, ...]:
    """Encrypted values that differ as text: both are one stand-in."""
    changed = [key for key, text in new.encrypted.items() if old.encrypted.get(key, text) != text]
    if not changed:
        return ()
    note = (
        f"config {', '.join(changed)}: the encrypted text changed; whether the value did, and what "
        "would change with it, is not known without the stack's key"
    )
    return (note,)


def _forgive(old: Source) -> tuple[str, ...]:
    """Makes warnings of the errors of a base, and leaves out what has any."""
    if not old.has(Severity.ERROR):
        return ()
    old.findings = [
        (label, replace(found, severity=Severity.WARNING) if errors([found]) else found)
        for label, found in old.findings
    ]
    old.plans = [plan for plan in old.plans if not errors(plan.findings)]
    note = (
        f"warning: {old.label} could not be read as a whole: what could not be read is left out, "
        "and its new state is shown as added, though it may be running"
    )
    return (note,)


def place_source(source: Source, inventory: str, previous: str | None) -> Placed | None:
    """Places all services of an input, and plans them again with what was chosen.

    Args:
        source: The input; its plans become those of the placed services, and what there is to
            say about their places is added to its findings.
        inventory: Path of the inventory.
        previous: Path of the JSON of an earlier plan, None for none.

    Returns:
        The placement, one record for each plan; None where nothing could be placed.
    """
    from fusioninfer_pulumi.planning import PLACEMENT_NOT_APPLIED

    if source.readings is None:
        if not source.has(Severity.ERROR):
            message = "is a Pulumi project: its program places services itself, with place(...)"
            source.add(source.label, error(PROJECT_PLACES_ITSELF, (), message))
        return None
    try:
        with working(f"{inventory}: placing services on node pools"):
            return _placed(source, source.readings, inventory, previous)
    finally:
        source.findings = [
            (label, found)
            for label, found in source.findings
            if found.rule != PLACEMENT_NOT_APPLIED.id
        ]
        source.plans = [
            replace(
                plan, findings=tuple(e for e in plan.findings if e.rule != PLACEMENT_NOT_APPLIED.id)
            )
            for plan in source.plans
        ]


def _placed(
    source: Source, read: list[LoadedDocument], inventory: str, previous: str | None
) -> Placed | None:
    from fusioninfer_pulumi.capacity import CAPACITY_MISSING, MISSING, capacity
    from fusioninfer_pulumi.loading import load_inventory

    package = capacity()
    if package is None:
        source.add(inventory, error(CAPACITY_MISSING, (), f"--inventory {MISSING}"))
        return None
    pools = before = None
    with _refusals(source, inventory):
        pools = load_inventory(inventory)
        if refused := errors(package.inventory_findings(pools)):
            raise InvalidServiceError(refused)
    with _refusals(source, str(previous)):
        before = package.read_previous(previous)
    if pools is None or before is None or source.has(Severity.ERROR):
        return None
    services = list(_services(read))
    wanted = [args for _, args in services]
    found = package.place_services(wanted, pools, previous=before, plans=source.plans)
    written = dict(zip((at for at, _ in services), found.services, strict=True))
    readings = [
        _with_args(each, written[at]) if at in written else each for at, each in enumerate(read)
    ]
    source.plans, source.labels, source.findings = [], [], []
    plan_all(source, readings)
    source.add(inventory, *found.findings.get(-1, ()))
    for index, (at, _) in enumerate(services):
        own = [readings[at].locate(each) for each in found.findings.get(index, ())]
        source.findings += _labelled(own)
        plan = source.plans[index]
        more = tuple(finding for _, finding in own)
        source.plans[index] = replace(plan, findings=(*plan.findings, *more))
    return found


@contextlib.contextmanager
def _refusals(source: Source, label: str) -> Iterator[None]:
    """Notes why a file beside the services cannot be used."""
    try:
        yield
    except InvalidServiceError as problem:
        source.add(label, *problem.findings)
    except OSError as problem:
        source.add(label, _cannot_be_read(problem))


def _services(readings: list[LoadedDocument]) -> Iterator[tuple[int, InferenceServiceArgs]]:
    for at, each in enumerate(readings):
        if each.document is not None and each.document.args is not None:
            yield at, each.document.args


def _with_args(reading: LoadedDocument, args: InferenceServiceArgs) -> LoadedDocument:
    assert reading.document is not None, "only a document has a service"
    return replace(reading, document=replace(reading.document, args=args))
