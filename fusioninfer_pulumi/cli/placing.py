"""Places the services of the command line on the pools of an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fusioninfer_pulumi.api.inventory import InventoryArgs
from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.cli.source import Source, plan_all
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Severity, error, errors
from fusioninfer_pulumi.loading import load_inventory
from fusioninfer_pulumi.loading.documents import Reading
from fusioninfer_pulumi.placement.placing import inventory_findings, place_services
from fusioninfer_pulumi.placement.result import Placement, PreviousPools, read_previous
from fusioninfer_pulumi.planning import NOT_APPLIED


def place_source(source: Source, inventory: str, previous: str | None) -> Placement | None:
    """Places all services of an input, and plans them anew with what was chosen.

    Args:
        source: The input; its plans become those of the placed services, and what there is to
            say about their places is added to its findings.
        inventory: Path of the inventory.
        previous: Path of the JSON of an earlier plan, None for none.

    Returns:
        The placement, one record for each plan; None where nothing could be placed.
    """
    if source.readings is None:
        if not source.has(Severity.ERROR):
            told = "is a Pulumi project: its program places services itself, with place(...)"
            source.add(source.label, [error("", told)])
        return None
    try:
        return _placed(source, source.readings, inventory, previous)
    finally:
        # Pools are chosen here, and each demand is carried out or refused.
        source.findings = [
            (label, found) for label, found in source.findings if found.rule != NOT_APPLIED
        ]
        source.plans = [
            replace(plan, findings=tuple(e for e in plan.findings if e.rule != NOT_APPLIED))
            for plan in source.plans
        ]


def _placed(
    source: Source, read: list[Reading], inventory: str, previous: str | None
) -> Placement | None:
    pools = _inventory(source, inventory)
    before = _previous(source, previous)
    if pools is None or before is None or source.has(Severity.ERROR):
        return None
    services = list(_services(read))
    given = [args for _, args in services]
    found = place_services(given, pools, previous=before, plans=source.plans)
    written = dict(zip((at for at, _ in services), found.services, strict=True))
    readings = [
        _with_args(each, written[at]) if at in written else each for at, each in enumerate(read)
    ]
    source.plans, source.labels, source.findings = [], [], []
    plan_all(source, readings)
    source.add(inventory, found.findings.get(-1, ()))
    for index, (at, _) in enumerate(services):
        own = [readings[at].locate(each) for each in found.findings.get(index, ())]
        source.findings += own
        plan = source.plans[index]
        more = tuple(finding for _, finding in own)
        source.plans[index] = replace(plan, findings=(*plan.findings, *more))
    return found


def _services(readings: list[Reading]) -> Iterator[tuple[int, InferenceServiceArgs]]:
    for at, each in enumerate(readings):
        if each.document is not None and each.document.args is not None:
            yield at, each.document.args


def _with_args(reading: Reading, args: InferenceServiceArgs) -> Reading:
    assert reading.document is not None, "only a document has a service"
    return replace(reading, document=replace(reading.document, args=args))


def _inventory(source: Source, path: str) -> InventoryArgs | None:
    refused: list[Finding] = []
    try:
        read = load_inventory(path)
        refused = errors(inventory_findings(read))
    except InvalidServiceError as problem:
        refused = list(problem.findings)
    except OSError as problem:
        refused = [error("", f"cannot be read: {problem.strerror or problem}")]
    source.add(path, refused)
    return None if refused else read


def _previous(source: Source, path: str | None) -> PreviousPools | None:
    try:
        return read_previous(path)
    except InvalidServiceError as problem:
        source.add(str(path), problem.findings)
    except OSError as problem:
        told = f"cannot be read: {problem.strerror or problem}"
        source.add(str(path), [error("", told)])
    return None
