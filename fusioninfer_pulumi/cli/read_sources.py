"""Reads the sources of commands: manifests, standard input, rendered objects, Pulumi projects."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.checks.between_services import check_targets
from fusioninfer_pulumi.checks.stages import add_collision_findings
from fusioninfer_pulumi.cli.printing import working
from fusioninfer_pulumi.cli.source import (
    OPTION_OUT_OF_PLACE,
    PlannedDocument,
    Source,
)
from fusioninfer_pulumi.findings import (
    Finding,
    InvalidServiceError,
    Origin,
    Severity,
    error,
    errors,
    warning,
)
from fusioninfer_pulumi.loading.documents import LoadedDocument, is_loaded_kind
from fusioninfer_pulumi.loading.file_set import (
    NO_MANIFESTS,
    ParsedText,
    Text,
    load_texts,
    manifest_files,
    parse,
)
from fusioninfer_pulumi.loading.validate import EMPTY_INPUT, UNREADABLE_FILE, plan_document
from fusioninfer_pulumi.loading.yaml_text import MAX_BYTES, TOO_LARGE
from fusioninfer_pulumi.rules.common import INPUT_TOO_LARGE

if TYPE_CHECKING:
    from fusioninfer_pulumi.api.service import InferenceServiceArgs
    from fusioninfer_pulumi.capacity_package import PlacementResult


STDIN = "<stdin>"
_PROJECT = ("Pulumi.yaml", "Pulumi.yml")
#: Commands that warn of a program without a service.
_ABOUT_SERVICES = ("check", "plan")


@dataclass
class _Input:
    """One path of a command line; `-` is standard input.

    Attributes:
        path: The path.
        name: Its name in messages.
        texts: Its text; those of its files, where it is a folder.
        unreadable: Files that cannot be read, with the reason.
        project: Whether it is the folder of a Pulumi project, which is read later.
    """

    path: str
    name: str
    texts: list[Text] = field(default_factory=list)
    unreadable: list[PlannedDocument] = field(default_factory=list)
    project: bool = False

    def add_error(self, file: str, finding: Finding) -> None:
        """Adds a file that cannot be read."""
        origin = Origin(file)
        self.unreadable.append(PlannedDocument(origin, findings=((origin, finding),)))


def read_sources(
    paths: Sequence[str], options: argparse.Namespace, *, several_stacks: bool = False
) -> list[Source]:
    """Reads all manifests as one input, and each Pulumi project as a separate one.

    Args:
        paths: Paths of files, of folders of manifests and of projects; `-` is standard input.
        options: The command line: `stack`, `show_secrets`, `timeout` and `allow_lossy`.
        several_stacks: Whether manifests may declare an object twice: then each path is a separate
            input.

    Returns:
        The inputs with their findings.
    """
    inputs = [_read(path) for path in paths]
    projects = [_project(input_, options) for input_ in inputs if input_.project]
    files = [input_ for input_ in inputs if not input_.project]
    if not files:
        return projects
    parsed = [parse(text) for input_ in files for text in input_.texts]
    identities = [identity for text in parsed for identity in text.identities]
    if several_stacks and len(identities) > len(set(identities)):
        return [*(_manifests([input_], options) for input_ in files), *projects]
    return [_manifests(files, options), *projects]


def _manifests(
    inputs: Sequence[_Input], options: argparse.Namespace, *, compared: bool = False
) -> Source:
    source = Source(", ".join(input_.name for input_ in inputs))
    for input_ in inputs:
        source.documents += input_.unreadable  # each with an error
        source.texts |= {text.file: text.content for text in input_.texts}
    parsed = [parse(text) for input_ in inputs for text in input_.texts]
    if compared and not source.findings:
        source.objects = _objects(parsed)
        if source.objects is not None:
            return source
    if parsed:
        with working(f"{source.name}: planning"):
            plan_documents(source, load_texts(parsed, allow_lossy=options.allow_lossy))
    return source


def read_diff_side(path: str, options: argparse.Namespace, name: str = "") -> Source:
    """Reads a side of a comparison: it may hold Kubernetes objects in place of services.

    The masks of a program's secrets are marked (see `Secrets`). Messages use the name in place of
    the path.
    """
    input_ = _read(path, name)
    if input_.project:
        return _project(input_, options, marked=True)
    return _manifests([input_], options, compared=True)


def _read(path: str, name: str = "") -> _Input:
    file = Path(path)
    if file.name in (*_PROJECT, "__main__.py") and is_project(file.parent):
        path = str(file.parent)
    input_ = _Input(path, name or (STDIN if path == "-" else path))
    with _unreadable(input_, input_.name):
        if path != "-" and path and "\0" not in path and Path(path).is_dir():
            _read_folder(input_, Path(path))
        else:
            _read_text(input_, input_.name, path, None)
    return input_


@contextlib.contextmanager
def _unreadable(input_: _Input, file: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        input_.add_error(file, unreadable_file_finding(problem))


def unreadable_file_finding(problem: OSError) -> Finding:
    """Why a file cannot be read."""
    return error(UNREADABLE_FILE, (), f"cannot be read: {problem.strerror or problem}")


def is_project(folder: Path) -> bool:
    """Whether a folder contains a Pulumi project."""
    return any((folder / name).is_file() for name in _PROJECT)


def _read_folder(input_: _Input, folder: Path) -> None:
    if is_project(folder):
        input_.project = True
        return
    files = manifest_files(folder)
    if not files:
        message = f"no Pulumi.yaml and {NO_MANIFESTS}"
        input_.add_error(input_.name, error(EMPTY_INPUT, (), message))
    for file in files:
        _read_text(input_, str(Path(input_.name, file.name)), str(file), input_.name)


def _read_text(input_: _Input, file: str, path: str, folder: str | None) -> None:
    with _unreadable(input_, file):
        data = _bytes(path)
        if len(data) > MAX_BYTES:
            input_.add_error(file, error(INPUT_TOO_LARGE, (), TOO_LARGE))
            return
        if file.endswith(".py"):
            text = "is a Python program; pass the folder of its Pulumi.yaml instead"
            input_.add_error(file, error(UNREADABLE_FILE, (), text))
            return
        try:
            input_.texts.append(Text(file, data.decode("utf-8-sig"), folder))
        except UnicodeDecodeError:
            input_.add_error(file, error(UNREADABLE_FILE, (), "not YAML: not UTF-8 text"))


def _bytes(path: str) -> bytes:
    """Reads at most one byte more than the limit, because the input may be an endless device."""
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        data: bytes = sys.stdin.buffer.read(MAX_BYTES + 1)
        return data
    if not path or "\0" in path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    with Path(path).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def plan_documents(source: Source, loaded: Sequence[LoadedDocument]) -> None:
    """Plans loaded documents, adds them to a source, and compares its services."""
    source.documents += _planned(loaded)
    plans = source.plans
    # An unknown name may belong to a service that could not be read.
    complete = bool(source.planned) and not source.has(Severity.ERROR)
    source.documents = [
        document
        if document.plan is None or document.loaded is None
        else document.noting(*check_targets(document.plan, plans, complete=complete))
        for document in source.documents
    ]


def _planned(loaded: Sequence[LoadedDocument]) -> list[PlannedDocument]:
    planned = [
        (None, ()) if document.document is None else plan_document(document.document)
        for document in loaded
    ]
    compared = iter(add_collision_findings([plan for plan, _ in planned if plan is not None]))
    documents = []
    for document, (plan, rejections) in zip(loaded, planned, strict=True):
        final = None if plan is None else next(compared)
        findings = rejections if final is None else final.findings
        located = (*document.remarks, *map(document.locate, findings))
        documents.append(PlannedDocument(document.origin, final, located, document))
    return documents


def _objects(texts: Sequence[ParsedText]) -> list[dict[str, Any]] | None:
    """Returns the Kubernetes objects of texts, None if they contain anything else."""
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
        if not text.documents and text.text.folder is None:
            return None
    complete = all(
        isinstance(item, Mapping)
        and isinstance(item.get("apiVersion"), str)
        and isinstance(item.get("kind"), str)
        and isinstance(item.get("metadata"), Mapping)
        and not is_loaded_kind(item)
        for item in objects
    )
    return objects if complete and objects else None


def _project(input_: _Input, options: argparse.Namespace, *, marked: bool = False) -> Source:
    # Imported here, because importing Pulumi takes longer than reading a manifest.
    from fusioninfer_pulumi.cli.program import (
        PROGRAM_WITHOUT_SERVICE,
        ProgramError,
        Secrets,
        run_program,
    )

    source = Source(input_.name, encrypted={})
    hidden = Secrets.MARKED if marked else Secrets.MASKED
    try:
        recording = run_program(
            Path(input_.path),
            options.stack,
            Secrets.SHOWN if options.show_secrets else hidden,
            options.timeout,
        )
    except ProgramError as problem:
        source.add(input_.name, *problem.findings)
        return source
    source.encrypted = recording.encrypted
    source.objects = list(recording.objects)
    for number, service in enumerate(recording.services, start=1):
        file = str(Path(input_.name, service.file)) if service.file else input_.name
        origin = Origin(file, number, line=service.line)
        findings = tuple((origin, finding) for finding in service.plan.findings)
        source.documents.append(
            PlannedDocument(origin, service.plan, findings, provider=service.provider)
        )
    if not recording.services and options.command in _ABOUT_SERVICES:
        text = "the program creates no InferenceService"
        source.add(input_.name, warning(PROGRAM_WITHOUT_SERVICE, (), text))
    source.add(input_.name, *recording.findings)
    return source


def place_source(source: Source, inventory: str, previous: str | None) -> PlacementResult | None:
    """Places all services of an input on node pools, and plans them again.

    Args:
        source: The input; it gets the plans of the placed services, and findings about them.
        inventory: Path of the inventory.
        previous: Path of the JSON of an earlier plan, None for none.

    Returns:
        The placement, one record for each plan; None where nothing could be placed.
    """
    from fusioninfer_pulumi.checks.service_checks import PLACEMENT_NOT_APPLIED

    loaded = [document.loaded for document in source.documents if document.loaded is not None]
    if not loaded:
        if not source.has(Severity.ERROR):
            message = "is a Pulumi project; its program places services itself, with place(...)"
            source.add(source.name, error(OPTION_OUT_OF_PLACE, (), message))
        return None
    try:
        with working(f"{inventory}: placing services on node pools"):
            return _placed(source, loaded, inventory, previous)
    finally:
        source.documents = [
            document.without(PLACEMENT_NOT_APPLIED) for document in source.documents
        ]


def _placed(
    source: Source, loaded: Sequence[LoadedDocument], inventory: str, previous: str | None
) -> PlacementResult | None:
    from fusioninfer_pulumi.capacity_package import CAPACITY_MISSING, MISSING, capacity
    from fusioninfer_pulumi.loading import load_inventory

    package = capacity()
    if package is None:
        source.add(inventory, error(CAPACITY_MISSING, (), f"--inventory {MISSING}"))
        return None
    pools = before = None
    with _collect_errors(source, inventory):
        pools = load_inventory(inventory)
        if invalid := errors(package.inventory_findings(pools)):
            raise InvalidServiceError(invalid)
    with _collect_errors(source, str(previous)):
        before = package.read_previous(previous)
    if pools is None or before is None or source.has(Severity.ERROR):
        return None
    services = [args for document in loaded if (args := _args(document)) is not None]
    placement = package.place_services(services, pools, previous=before, plans=source.plans)
    placed = iter(placement.services)
    source.documents, source.remarks = [], []
    plan_documents(
        source,
        [
            document if _args(document) is None else _with_args(document, next(placed))
            for document in loaded
        ],
    )
    source.add(inventory, *placement.findings.get(-1, ()))
    noted = iter(
        document.noting(*placement.findings.get(number, ()))
        for number, document in enumerate(source.planned)
    )
    source.documents = [
        document if document.plan is None else next(noted) for document in source.documents
    ]
    return placement


@contextlib.contextmanager
def _collect_errors(source: Source, file: str) -> Iterator[None]:
    """Adds the errors of an inventory or an earlier plan."""
    try:
        yield
    except InvalidServiceError as problem:
        source.add(file, *problem.findings)
    except OSError as problem:
        source.add(file, unreadable_file_finding(problem))


def _args(document: LoadedDocument) -> InferenceServiceArgs | None:
    return None if document.document is None else document.document.args


def _with_args(document: LoadedDocument, args: InferenceServiceArgs) -> LoadedDocument:
    assert document.document is not None, "only a document has a service"
    return replace(document, document=replace(document.document, args=args))
