"""The commands: each reads its sources, says what is wrong with them, and prints its result."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.cli.source import Source, read_apart, read_sources
from fusioninfer_pulumi.findings import Severity, error, errors, one_line
from fusioninfer_pulumi.kube import labels
from fusioninfer_pulumi.service_plan import ServicePlan
from fusioninfer_pulumi.topology.capacity import Capacity
from fusioninfer_pulumi.topology.capacity_table import capacity_for_gpus, capacity_on

if TYPE_CHECKING:
    from fusioninfer_pulumi.placement.result import Placement, ServicePlacement


def render(options: argparse.Namespace) -> int:
    """Prints every object of the sources."""
    source = _read_all(options)
    _place(options, source)
    objects = source.rendered()
    if _refused(options, [source]):
        return 2
    if options.output == "json":
        _print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        from fusioninfer_pulumi.cli.yaml_output import to_yaml

        sys.stdout.write(to_yaml(objects))
    return 0


def plan(options: argparse.Namespace) -> int:
    """Prints the plan of every service of the sources."""
    source = _read_all(options)
    # What is wrong with a placement alone leaves plans that explain it.
    unplanned = source.has(Severity.ERROR)
    placement = _place(options, source)
    # A person at a terminal sees the warnings once, in the text below.
    quiet = options.output == "text" and sys.stdout.isatty() and sys.stderr.isatty()
    status = 2 if _refused(options, [source], quiet=quiet) else 0
    if status and (unplanned or placement is None):
        return status
    rows = [(item, _capacity(item, options), _objects(source, item)) for item in source.plans]
    records = placement.placed if placement is not None else (None,) * len(rows)
    both = list(zip(rows, records, strict=True))
    if options.output == "json":
        from fusioninfer_pulumi.cli.plan_json import plan_json

        _print_json([plan_json(*row, _placement_json(record, placement)) for row, record in both])
    elif options.output == "mermaid":
        from fusioninfer_pulumi.cli.mermaid import mermaid

        sys.stdout.write(mermaid(*(item for item, _, _ in rows)))
    else:
        from fusioninfer_pulumi.cli.plan_text import print_plan, print_pools

        for number, (row, record) in enumerate(both):
            if number:
                sys.stdout.write("\n")
            print_plan(*row, sys.stdout, record)
        if placement is not None:
            print_pools(placement, sys.stdout)
    return status


def convert(options: argparse.Namespace) -> int:
    """Prints the services of the sources as manifests of ours."""
    source = _read_all(options)
    if source.manifests is None and not source.has(Severity.ERROR):
        source.add(source.label, [error("", "is a Pulumi project: there is nothing to convert")])
    # What cannot be built is no service of ours either.
    source.rendered()
    if _refused(options, [source]):
        return 2
    manifests = [dict(each) for each in source.manifests or ()]
    if options.output == "json":
        _print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
    else:
        from fusioninfer_pulumi.cli.yaml_output import to_yaml

        sys.stdout.write(to_yaml(manifests))
    return 0


def check(options: argparse.Namespace) -> int:
    """Validates sources."""
    if options.inventory is None and options.previous is None:
        sources = read_apart(
            options.sources,
            options.stack,
            show_secrets=options.show_secrets,
            allow_lossy=options.allow_lossy,
        )
        return 2 if _refused(options, sources) else 0
    source = _read_all(options)
    _place(options, source)
    return 2 if _refused(options, [source]) else 0


def diff(options: argparse.Namespace) -> int:
    """Prints what changes between two sources."""
    from fusioninfer_pulumi.cli import diff as comparison

    if (options.base is None) == (options.new is None):
        sys.stderr.write("fusioninfer-pulumi diff: wanted OLD NEW, or --base REF SOURCE\n")
        return 2
    from fusioninfer_pulumi.cli.compared import compared
    from fusioninfer_pulumi.cli.revision import RevisionError

    try:
        both = compared(options)
    except RevisionError as problem:
        sys.stderr.write(one_line(f"{options.base}:{options.old}: {problem}") + "\n")
        return 2
    objects = [source.rendered() for source in (both.old, both.new)]
    if _refused(options, [both.old, both.new], judged=both.judged):
        return 2
    difference = comparison.compare(*objects, plans=(both.old.plans, both.new.plans))
    difference = replace(difference, notes=(*both.notes, *difference.notes))
    if both.old.project or both.new.project:
        from fusioninfer_pulumi.cli.program import unmarked

        difference = unmarked(difference)
    if options.output == "json":
        _print_json(comparison.to_json(difference))
    elif options.output == "markdown":
        sys.stdout.write(comparison.to_markdown(difference))
    elif difference:
        color = sys.stdout.isatty()
        sys.stdout.write(comparison.to_text(difference, color=color, width=None))
    return 1 if difference else 0


def _read_all(options: argparse.Namespace) -> Source:
    return read_sources(
        options.sources,
        options.stack,
        show_secrets=options.show_secrets,
        allow_lossy=options.allow_lossy,
    )


def _place(options: argparse.Namespace, source: Source) -> Placement | None:
    if options.inventory is None:
        if options.previous is not None:
            source.add(options.previous, [error("", "has no effect without --inventory")])
        return None
    from fusioninfer_pulumi.cli.placing import place_source

    return place_source(source, options.inventory, options.previous)


def _placement_json(
    record: ServicePlacement | None, placement: Placement | None
) -> dict[str, Any] | None:
    if record is None or placement is None:
        return None
    from fusioninfer_pulumi.cli.placement_json import placement_json

    return placement_json(record, placement)


def _refused(
    options: argparse.Namespace,
    sources: Sequence[Source],
    *,
    judged: Sequence[Source] | None = None,
    quiet: bool = False,
) -> bool:
    """Prints errors and warnings, and tells whether those of the judged stop the command."""
    held = sources if judged is None else judged
    if options.stack is not None and not any(source.project for source in sources):
        told = "--stack has no effect: only a Pulumi project has stacks"
        held[-1].add(held[-1].label, [error("", told)])
    strict = options.strict and any(source.has(Severity.WARNING) for source in held)
    refused = strict or any(source.has(Severity.ERROR) for source in held)
    for source in sources:
        for label, finding in source.findings:
            if finding.severity is not Severity.INFO and (refused or not quiet):
                sys.stderr.write(f"{one_line(label)}: {finding}\n")
    return refused


def _capacity(item: ServicePlan, options: argparse.Namespace) -> list[Capacity]:
    if options.nodes:
        return [capacity_on(item, options.nodes)]
    return capacity_for_gpus(item, options.gpus)


def _objects(source: Source, item: ServicePlan) -> list[Mapping[str, Any]]:
    """Objects of one service: those that a program registered, else those of its plan."""
    if source.objects is not None:
        return [
            held
            for held in source.objects
            if ((held.get("metadata") or {}).get("labels") or {}).get(labels.SERVICE)
            == item.service
        ]
    if errors(item.findings):
        return []  # a service without a place
    from fusioninfer_pulumi.objects import render as render_plan  # of another render

    return list(render_plan(item))


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
