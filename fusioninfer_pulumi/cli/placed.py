"""`--inventory`: places all services of an input on node pools."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.cli.planned import Source
from fusioninfer_pulumi.cli.rules import OPTION_OUT_OF_PLACE
from fusioninfer_pulumi.cli.sources import cannot_be_read, plan_all
from fusioninfer_pulumi.findings import InvalidServiceError, Severity, error, errors
from fusioninfer_pulumi.loading.documents import LoadedDocument

if TYPE_CHECKING:
    from fusioninfer_pulumi.api.service import InferenceServiceArgs
    from fusioninfer_pulumi.capacity import Placed


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
    from fusioninfer_pulumi.checks.service import PLACEMENT_NOT_APPLIED

    loaded = [document.loaded for document in source.documents if document.loaded is not None]
    if not loaded:
        if not source.has(Severity.ERROR):
            message = "is a Pulumi project: its program places services itself, with place(...)"
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
    services = [args for document in loaded if (args := _args(document)) is not None]
    placement = package.place_services(services, pools, previous=before, plans=source.plans)
    placed = iter(placement.services)
    source.documents, source.remarks = [], []
    plan_all(
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
def _refusals(source: Source, file: str) -> Iterator[None]:
    """Adds why a file beside the services cannot be used."""
    try:
        yield
    except InvalidServiceError as problem:
        source.add(file, *problem.findings)
    except OSError as problem:
        source.add(file, cannot_be_read(problem))


def _args(document: LoadedDocument) -> InferenceServiceArgs | None:
    return None if document.document is None else document.document.args


def _with_args(document: LoadedDocument, args: InferenceServiceArgs) -> LoadedDocument:
    assert document.document is not None, "only a document has a service"
    return replace(document, document=replace(document.document, args=args))
