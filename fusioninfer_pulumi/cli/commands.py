"""The commands: each reads its sources, says what is wrong with them, and prints its result."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from fusioninfer_pulumi.cli.output import has_colour, print_findings, print_json, print_objects
from fusioninfer_pulumi.cli.sources import Source, place, read_apart, read_compared, read_sources
from fusioninfer_pulumi.findings import Severity, error, errors
from fusioninfer_pulumi.kube import labels

if TYPE_CHECKING:
    from fusioninfer_pulumi.placement.result import Placement
    from fusioninfer_pulumi.service_plan import ServicePlan


def render(options: argparse.Namespace) -> int:
    """Prints every object of the sources."""
    source = read_sources(options.sources, options)
    _place(options, source)
    objects = source.rendered()
    if _refused(options, [source]):
        return 2
    print_objects(objects, options.output)
    return 0


def plan(options: argparse.Namespace) -> int:
    """Prints the plan of every service of the sources."""
    from fusioninfer_pulumi.topology.capacity_table import capacity_for_gpus, capacity_on

    source = read_sources(options.sources, options)
    # What is wrong with a placement alone leaves plans that explain it.
    unplanned = source.has(Severity.ERROR)
    placement = _place(options, source)
    # A person at a terminal sees the warnings once, in the text below.
    quiet = options.output == "text" and sys.stdout.isatty() and sys.stderr.isatty()
    status = 2 if _refused(options, [source], quiet=quiet) else 0
    if status and (unplanned or placement is None):
        return status
    rows = [
        (
            item,
            [capacity_on(item, options.nodes)]
            if options.nodes
            else capacity_for_gpus(item, options.gpus),
            _objects(source, item),
        )
        for item in source.plans
    ]
    records = placement.placed if placement is not None else (None,) * len(rows)
    both = list(zip(rows, records, strict=True))
    if options.output == "text":
        from fusioninfer_pulumi.cli.plan_text import print_plan, print_pools

        for number, (row, record) in enumerate(both):
            if number:
                sys.stdout.write("\n")
            print_plan(*row, sys.stdout, record, alone=len(rows) == 1)
        if placement is not None:
            print_pools(placement, sys.stdout)
        return status
    if options.output == "svg":
        from fusioninfer_pulumi.cli.plan_text import plan_svg

        sys.stdout.write(plan_svg([(*row, record) for row, record in both], placement))
        return status
    if options.output == "mermaid":
        from fusioninfer_pulumi.cli.mermaid import mermaid

        sys.stdout.write(mermaid(*source.plans))
        return status
    from fusioninfer_pulumi.cli.plan_output import placement_json, plan_json

    print_json(
        [
            plan_json(*row, placement_json(record, placement) if record and placement else None)
            for row, record in both
        ]
    )
    return status


def convert(options: argparse.Namespace) -> int:
    """Prints the services of the sources as manifests of ours, or as a Pulumi program."""
    source = read_sources(options.sources, options)
    if source.manifests is None and not source.has(Severity.ERROR):
        told = "is a Pulumi project: there is nothing to convert"
        source.add(source.label, error("project-not-convertible", (), told))
    # What cannot be built is no service of ours either.
    source.rendered()
    if _refused(options, [source]):
        return 2
    if options.output == "python":
        from fusioninfer_pulumi.cli.python_program import python_program

        read = [each.document for each in source.readings or () if each.document is not None]
        sys.stdout.write(python_program([each.args for each in read if each.args is not None]))
        return 0
    print_objects([dict(each) for each in source.manifests or ()], options.output)
    return 0


def size(options: argparse.Namespace) -> int:
    """Prints the layouts of a model that fit."""
    from fusioninfer_pulumi.cli.size import size as sized

    return sized(options)


def check(options: argparse.Namespace) -> int:
    """Validates sources."""
    if options.inventory is None and options.previous is None:
        return 2 if _refused(options, read_apart(options.sources, options)) else 0
    source = read_sources(options.sources, options)
    _place(options, source)
    return 2 if _refused(options, [source]) else 0


def diff(options: argparse.Namespace) -> int:
    """Prints what changes between two sources."""
    from fusioninfer_pulumi.cli import diff as comparison
    from fusioninfer_pulumi.cli.revision import RevisionError

    if (options.base is None) == (options.new is None):
        sys.stderr.write("fusioninfer-pulumi diff: wanted OLD NEW, or --base REF SOURCE\n")
        return 2
    try:
        both = read_compared(options)
    except RevisionError as problem:
        found = error("unreadable-revision", (), str(problem))
        print_findings([(f"{options.base}:{options.old}", found)])
        return 2
    objects = [source.rendered() for source in (both.old, both.new)]
    if _refused(options, [both.old, both.new], judged=both.judged):
        return 2
    difference = comparison.compare(*objects, plans=(both.old.plans, both.new.plans))
    caches = _cache_notes(both.old.plans, both.new.plans)
    difference = replace(difference, notes=(*both.notes, *difference.notes, *caches))
    if both.old.project or both.new.project:
        from fusioninfer_pulumi.cli.program import unmarked

        difference = unmarked(difference)
    if options.output == "json":
        print_json(comparison.to_json(difference))
    elif options.output == "markdown":
        sys.stdout.write(comparison.to_markdown(difference))
    elif options.output == "html":
        shown = [each for each in both.new.findings if each[1].severity is not Severity.INFO]
        plans = (both.old.plans, both.new.plans)
        sys.stdout.write(comparison.to_html(difference, plans, shown))
    elif difference:
        sys.stdout.write(comparison.to_text(difference, color=has_colour(sys.stdout)))
    return 1 if difference else 0


def _cache_notes(
    old: Iterable[ServicePlan] | None, new: Iterable[ServicePlan] | None
) -> Iterator[str]:
    """What a change does to KV caches, of services whose accelerators are known in both."""
    before = {plan.service: plan.memory for plan in old or () if plan.memory}
    for plan in new or ():
        if plan.service in before and plan.memory:
            from fusioninfer_pulumi.fit.tables import changes  # of few services

            yield from changes(before[plan.service], plan.memory)


def _place(options: argparse.Namespace, source: Source) -> Placement | None:
    if options.inventory is not None:
        return place(source, options.inventory, options.previous)
    if options.previous is not None:
        told = "has no effect without --inventory"
        source.add(options.previous, error("previous-without-inventory", (), told))
    return None


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
        held[-1].add(held[-1].label, error("stack-without-project", (), told))
    strict = options.strict and any(source.has(Severity.WARNING) for source in held)
    refused = strict or any(source.has(Severity.ERROR) for source in held)
    if refused or not quiet:
        found = [each for source in sources for each in source.findings]
        print_findings(each for each in found if each[1].severity is not Severity.INFO)
    return refused


def _objects(source: Source, item: ServicePlan) -> list[Mapping[str, Any]]:
    """Objects of one service: those that a program registered, else those of its plan."""
    from fusioninfer_pulumi.objects import render as render_plan  # of another render

    planned: list[Mapping[str, Any]] = [] if errors(item.findings) else list(render_plan(item))
    if source.objects is None:
        return planned
    own: list[Mapping[str, Any]] = [
        held
        for held in source.objects
        if ((held.get("metadata") or {}).get("labels") or {}).get(labels.SERVICE) == item.service
    ]
    same_name = [plan for plan in source.plans if plan.service == item.service]
    if len(same_name) == 1:
        return own
    # One of another namespace has other objects. One of another cluster has the same again.
    before = [plan.namespace for plan in takewhile(lambda plan: plan is not item, same_name)]
    wanted, turn = {_identity(each) for each in planned}, before.count(item.namespace)
    found: list[Mapping[str, Any]] = []
    seen: Counter[tuple[str, str, str]] = Counter()
    for held in own:
        key = _identity(held)
        if key in wanted and seen[key] == turn:
            found.append(held)
        seen[key] += 1
    return found


def _identity(item: Mapping[str, Any]) -> tuple[str, str, str]:
    held = item["metadata"]
    return str(item["kind"]), str(held.get("namespace")), str(held.get("name"))
