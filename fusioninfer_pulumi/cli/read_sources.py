"""The sources of a command: manifests, standard input, rendered objects, Pulumi projects."""

from __future__ import annotations

import argparse
import contextlib
import errno
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.checks.cross_service_checks import check_targets
from fusioninfer_pulumi.checks.plan_service import add_collision_findings, plan_service
from fusioninfer_pulumi.cli.program.project_files import PROJECT_FILES
from fusioninfer_pulumi.findings import (
    Finding,
    InvalidServiceError,
    Origin,
    Rule,
    Severity,
    drop_ignored,
    error,
    filter_errors,
    parse_ignored_rules,
    warning,
)
from fusioninfer_pulumi.loading.documents import LoadedDocument, is_loaded_kind
from fusioninfer_pulumi.loading.file_set import (
    NO_MANIFESTS,
    ParsedText,
    list_manifest_files,
    load_texts,
    parse,
)
from fusioninfer_pulumi.loading.load import file_text, read_stream
from fusioninfer_pulumi.loading.validate import EMPTY_INPUT, UNREADABLE_FILE
from fusioninfer_pulumi.plan.service_plan import ServicePlan

if TYPE_CHECKING:
    from fusioninfer_pulumi.capacity_package import PlacementResult


PROGRAM_WITHOUT_SERVICE = Rule("program-without-service")
OPTION_OUT_OF_PLACE = Rule("option-out-of-place")
UNREADABLE_REVISION = Rule("unreadable-revision")

STDIN = "<stdin>"
#: Commands that warn if a program creates no service.
_COMMANDS_EXPECTING_SERVICES = ("check", "plan")


@dataclass
class Source:
    """A source of a command.

    Attributes:
        name: Name in messages: the paths on the command line.
        documents: First a document for each error from reading a file, then the source's documents.
        remarks: Findings about the source as a whole, or about options.
        objects: Objects that a program registered or a file contains; if None, `render` renders the
            plans. Secrets of a program are marked (`mark_secret`), except with `--show-secrets`.
        encrypted: The stack's encrypted config values, by key; None for manifests.
        texts: The texts of manifests, by file.
    """

    name: str
    documents: list[LoadedDocument] = field(default_factory=list)
    remarks: list[tuple[Origin, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    encrypted: Mapping[str, Any] | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def planned_documents(self) -> list[LoadedDocument]:
        """The documents with a plan."""
        return [document for document in self.documents if document.plan is not None]

    @property
    def plans(self) -> list[ServicePlan]:
        """Plans of the services, in the order of the documents."""
        return [document.plan for document in self.documents if document.plan is not None]

    @property
    def findings(self) -> list[tuple[Origin, Finding]]:
        """All findings: document by document, then the remarks."""
        findings = [item for document in self.documents for item in document.findings]
        return [*findings, *self.remarks]

    @property
    def is_project(self) -> bool:
        """Whether the source is a Pulumi project."""
        return self.encrypted is not None

    def ignore(self, rules: frozenset[str]) -> None:
        """Drop the warnings of these rules, and of rules that a service's annotation ignores."""
        self.documents = [_drop_ignored_findings(document, rules) for document in self.documents]
        self.remarks = [
            (origin, finding) for origin, finding in self.remarks if drop_ignored([finding], rules)
        ]

    def add(self, file: str, *findings: Finding) -> None:
        """Add findings about a file or an option."""
        self.remarks += [(Origin(file), finding) for finding in findings]

    def add_to_services(self, findings: Iterable[Iterable[Finding]]) -> None:
        """Add to each planned service the next item of `findings`."""
        remaining = iter(findings)
        self.documents = [
            document if document.plan is None else document.with_findings(*next(remaining))
            for document in self.documents
        ]

    def has_severity(self, severity: Severity) -> bool:
        """Return whether there is a finding of this severity."""
        return any(finding.severity is severity for _, finding in self.findings)

    def render(self) -> list[dict[str, Any]]:
        """Return all objects in apply order, except those of documents with errors."""
        if self.objects is None:
            documents = self.documents
            self.objects = [item for entry in documents for item in list_service_objects(entry)]
        return self.objects


def _drop_ignored_findings(document: LoadedDocument, rules: frozenset[str]) -> LoadedDocument:
    if document.plan and (ignored := parse_ignored_rules(document.plan.meta.annotations)):
        from fusioninfer_pulumi.rules.catalog import check_ignored_rules

        document = document.with_findings(*check_ignored_rules(ignored))
        rules |= ignored
    return document.filter_findings(lambda finding: bool(drop_ignored([finding], rules)))


def list_service_objects(document: LoadedDocument) -> list[dict[str, Any]]:
    """Return the objects of one service; the list is empty if the document has errors."""
    from fusioninfer_pulumi.plan.service_objects import render

    if document.plan is None or document.has_errors:
        return []
    return list(render(document.plan))


@dataclass
class _Input:
    """One path on the command line; `-` is standard input.

    Attributes:
        name: Name in messages.
        texts: The texts of the files.
        unreadable: Errors about files that cannot be read.
        project: The directory of a Pulumi project, or None for manifests.
    """

    name: str
    texts: list[ParsedText] = field(default_factory=list)
    unreadable: list[tuple[Origin, Finding]] = field(default_factory=list)
    project: Path | None = None


def read_sources(
    paths: Sequence[str], options: argparse.Namespace, *, several_stacks: bool = False
) -> list[Source]:
    """Read all manifests as one source, and each Pulumi project as a separate one.

    With `several_stacks`, the paths may belong to different stacks: if their manifests declare an
    object twice, each path is a separate source.
    """
    inputs = [_read_input(path) for path in paths]
    manifests = [input_ for input_ in inputs if input_.project is None]
    declared = [item for input_ in manifests for text in input_.texts for item in text.identities]
    if several_stacks and len(declared) > len(set(declared)):
        groups = [[input_] for input_ in manifests]
    else:
        groups = [manifests] if manifests else []
    return [
        *(_read_manifests(group, options) for group in groups),
        *(_run_project(input_, options) for input_ in inputs if input_.project is not None),
    ]


def _read_manifests(inputs: Sequence[_Input], options: argparse.Namespace) -> Source:
    parsed = [text for input_ in inputs for text in input_.texts]
    source = Source(", ".join(input_.name for input_ in inputs))
    source.documents = [
        LoadedDocument(origin, ((origin, finding),))
        for input_ in inputs
        for origin, finding in input_.unreadable
    ]
    source.texts = {text.file: text.content for text in parsed}
    if parsed:
        plan_documents(source, load_texts(parsed, allow_lossy=options.allow_lossy))
    return source


def read_diff_side(path: str, options: argparse.Namespace, name: str = "") -> Source:
    """Read a side of a comparison, which may contain Kubernetes objects instead of services.

    `name` replaces the path in messages.
    """
    input_ = _read_input(path, name)
    if input_.project is not None:
        return _run_project(input_, options)
    objects = None if input_.unreadable else _list_objects(input_.texts)
    if objects is None:
        return _read_manifests([input_], options)
    return Source(path, objects=objects)


def _read_input(path: str, name: str = "") -> _Input:
    file = Path(path)
    if file.name in (*PROJECT_FILES, "__main__.py") and is_project(file.parent):
        file = file.parent
        path = str(file)
    input_ = _Input(name or (STDIN if path == "-" else path))
    with _collect_errors(input_.unreadable, input_.name):
        if path in ("", "-") or not file.is_dir():  # Path("") would be the current directory
            _read_text(input_, path, name=input_.name)
        elif is_project(file):
            input_.project = file
        else:
            files = list_manifest_files(file)
            if not files:
                message = f"no Pulumi.yaml and {NO_MANIFESTS}"
                raise InvalidServiceError([error(EMPTY_INPUT, (), message)])
            for entry in files:
                entry_name = str(Path(input_.name, entry.name))
                _read_text(input_, str(entry), name=entry_name, directory=input_.name)
    return input_


def is_project(directory: Path) -> bool:
    """Return whether a directory contains a Pulumi project."""
    return any((directory / name).is_file() for name in PROJECT_FILES)


def _read_text(input_: _Input, path: str, *, name: str, directory: str | None = None) -> None:
    """Add the text of a file or of standard input; `name` is its name in messages."""
    with _collect_errors(input_.unreadable, name):
        if path == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, "standard input is closed")
            text = read_stream(sys.stdin.buffer)
        else:
            text = file_text(path)
        if path.endswith(".py"):
            message = "is a Python program; pass the directory of its Pulumi.yaml instead"
            raise InvalidServiceError([error(UNREADABLE_FILE, (), message)])
        input_.texts.append(parse(name, text, directory))


@contextlib.contextmanager
def _collect_errors(findings: list[tuple[Origin, Finding]], file: str) -> Iterator[None]:
    """Add errors from reading a file to `findings` instead of raising them."""
    try:
        yield
    except InvalidServiceError as exc:
        findings += [(Origin(file), finding) for finding in exc.findings]
    except OSError as exc:
        message = f"cannot be read: {exc.strerror or exc}"
        findings.append((Origin(file), error(UNREADABLE_FILE, (), message)))


def plan_documents(source: Source, loaded: Sequence[LoadedDocument]) -> None:
    """Plan loaded documents, add them to a source, and check its services against each other."""
    loaded_plans = [plan_service(document.args) for document in loaded if document.args is not None]
    checked_plans = iter(add_collision_findings(loaded_plans))
    source.documents += [
        document if document.args is None else document._replace(plan=next(checked_plans))
        for document in loaded
    ]
    plans = source.plans
    # With errors, an unknown name may belong to a service that could not be read.
    complete = not source.has_severity(Severity.ERROR)
    source.add_to_services(check_targets(plan, plans, complete=complete) for plan in plans)


def _list_objects(texts: Sequence[ParsedText]) -> list[dict[str, Any]] | None:
    """Return the Kubernetes objects in texts, or None if there are none or anything else."""
    objects: list[dict[str, Any]] = []
    for text in texts:
        if text.documents is None:
            return None
        for item in text.documents:
            is_list = isinstance(item, Mapping) and item.get("kind") == "List"
            items = item.get("items") if is_list else [item]
            if not isinstance(items, list):
                return None
            objects += items
    are_objects = all(
        isinstance(item, Mapping)
        and isinstance(item.get("apiVersion"), str)
        and isinstance(item.get("kind"), str)
        and isinstance(item.get("metadata"), Mapping)
        and not is_loaded_kind(item)
        for item in objects
    )
    return objects if are_objects and objects else None


def _run_project(input_: _Input, options: argparse.Namespace) -> Source:
    # Imported here, because only projects need it.
    from fusioninfer_pulumi.cli.program.parent_process import run_program

    assert input_.project is not None, "the caller has checked it"
    source = Source(input_.name, encrypted={})
    with _collect_errors(source.remarks, input_.name):
        recording = run_program(
            input_.project,
            options.stack,
            show_secrets=options.show_secrets,
            timeout=options.timeout,
        )
        source.encrypted = recording.encrypted
        source.objects = list(recording.objects)
        for service in recording.services:
            file = str(Path(input_.name, service.origin.file))
            source.documents.append(service._replace(origin=service.origin._replace(file=file)))
        if not recording.services and options.command in _COMMANDS_EXPECTING_SERVICES:
            source.add(
                input_.name,
                warning(PROGRAM_WITHOUT_SERVICE, (), "the program creates no InferenceService"),
            )
        source.add(input_.name, *recording.findings)
    return source


def place_source(source: Source, inventory: str, previous: str | None) -> PlacementResult | None:
    """Place all services of a source on node pools, and plan them again.

    The result is None if nothing could be placed. `inventory` and `previous` (the JSON output of
    an earlier `place` or `plan --inventory`) are paths.
    """
    from fusioninfer_pulumi.checks.ignored_field_checks import PLACEMENT_NOT_APPLIED

    if source.is_project:
        if not source.has_severity(Severity.ERROR):
            message = "is a Pulumi project; call place(...) in its program instead"
            source.add(source.name, error(OPTION_OUT_OF_PLACE, (), message))
        return None
    try:
        return _place_documents(source, inventory, previous)
    finally:
        # `plan_documents` adds the warning that no inventory is set, but here an inventory is set.
        source.documents = [
            document.filter_findings(lambda finding: finding.rule != PLACEMENT_NOT_APPLIED.id)
            for document in source.documents
        ]


def _place_documents(
    source: Source, inventory: str, previous: str | None
) -> PlacementResult | None:
    from fusioninfer_pulumi.capacity_package import CAPACITY_MISSING, NEEDS_CAPACITY, load_package
    from fusioninfer_pulumi.loading import load_inventory

    package = load_package()
    if package is None:
        source.add(inventory, error(CAPACITY_MISSING, (), f"--inventory {NEEDS_CAPACITY}"))
        return None
    pools = before = None
    with _collect_errors(source.remarks, inventory):
        pools = load_inventory(inventory)
        if invalid := filter_errors(package.inventory_findings(pools)):
            raise InvalidServiceError(invalid)
    with _collect_errors(source.remarks, str(previous)):
        # Without a path the result is empty; None means an error.
        before = package.read_previous(previous)
    if pools is None or before is None or source.has_severity(Severity.ERROR):
        return None
    documents = source.documents
    services = [document.args for document in documents if document.args is not None]
    placement = package.place_services(services, pools, previous=before, plans=source.plans)
    placed_services = iter(placement.services)
    source.documents = []  # `plan_documents` adds them again, with a plan for the chosen pools
    plan_documents(
        source,
        [
            document if document.args is None else document._replace(args=next(placed_services))
            for document in documents
        ],
    )
    source.add(inventory, *placement.findings.get(-1, ()))  # -1: findings about all services
    source.add_to_services(placement.findings.get(index, ()) for index in range(len(services)))
    return placement
