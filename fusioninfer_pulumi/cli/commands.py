"""The commands. Each prints findings and its result, and returns the exit status."""

from __future__ import annotations

import argparse
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fusioninfer_pulumi.cli.finding_formats import report
from fusioninfer_pulumi.cli.printing import print_json, print_objects, write_files
from fusioninfer_pulumi.cli.program.recording import mark_secret, remove_marks
from fusioninfer_pulumi.cli.read_sources import (
    OPTION_OUT_OF_PLACE,
    Source,
    list_service_objects,
    read_sources,
)
from fusioninfer_pulumi.findings import Rule, Severity, error

if TYPE_CHECKING:
    from fusioninfer_pulumi.capacity_package import PlacementResult
    from fusioninfer_pulumi.cli.diff.timelines import ServiceTimeline
    from fusioninfer_pulumi.plan.service_plan import ServicePlan

NOTHING_TO_CONVERT = Rule("nothing-to-convert")


def render(options: argparse.Namespace) -> int:
    """Print the Kubernetes objects of all services."""
    sources = read_sources(options.sources, options)
    _place_all(options, sources)
    objects = [item for source in sources for item in source.render()]
    if _report_findings(options, sources):
        return 2
    print_objects(remove_marks(objects), options.output)
    return 0


def plan(options: argparse.Namespace) -> int:
    """Print the plan of each service."""
    from fusioninfer_pulumi.cli.plan_output import PlanView, build_plan_json, draw_mermaid
    from fusioninfer_pulumi.plan.service_plan import compute_capacity, compute_capacity_for_gpus

    sources = read_sources(options.sources, options)
    # Errors of the placement do not stop `plan`, because the plans explain them, but an update
    # cannot be simulated with errors.
    has_errors = any(source.has_severity(Severity.ERROR) for source in sources)
    placement = _place_all(options, sources)
    if options.cluster or options.context is not None:
        from fusioninfer_pulumi.cli.cluster_findings import add_cluster_findings

        add_cluster_findings(sources, options.context, dry_run=False)
    # At a terminal, the text output already shows the findings of each service.
    plan_shows_findings = options.output == "text" and sys.stdout.isatty() and sys.stderr.isatty()
    status = 2 if _report_findings(options, sources, omit_planned=plan_shows_findings) else 0
    if status and (has_errors or placement is None or options.update is not None):
        return status
    updates: list[ServiceTimeline] | None = None
    if options.update is not None:
        updates = _simulate_updates(options, sources)
        if updates is None:
            return 2
    documents = [document for source in sources for document in source.planned_documents]
    prints_infos = options.verbose or options.output != "text"
    views = []
    for number, document in enumerate(documents):
        assert document.plan is not None, "`planned_documents` contains only documents with a plan"
        findings = tuple(
            finding
            for _, finding in document.findings
            if prints_infos or finding.severity is not Severity.INFO
        )
        service_plan = replace(document.plan, findings=findings)
        if options.nodes:
            capacity = [compute_capacity(service_plan, options.nodes)]
        else:
            capacity = compute_capacity_for_gpus(service_plan, options.gpus)
        views.append(
            PlanView(
                service_plan,
                capacity,
                list_service_objects(document),
                update=None if updates is None else updates[number],
                placed=None if placement is None else placement.to_json(number),
                placed_tables=() if placement is None else tuple(placement.tables(number)),
            )
        )
    if options.output == "json":
        print_json([build_plan_json(view) for view in views])
    elif options.output == "mermaid":
        sys.stdout.write(draw_mermaid(views))
    else:
        from fusioninfer_pulumi.cli.plan_text import print_plans

        pools = None if placement is None else placement.pools_table()
        print_plans(views, pools, old=options.update or "", explain=options.explain)
    return status


def _simulate_updates(
    options: argparse.Namespace, sources: Sequence[Source]
) -> list[ServiceTimeline] | None:
    """Simulate the updates from the source `--update`; on errors, print them and return None."""
    from fusioninfer_pulumi.cli.diff.timelines import simulate_updates
    from fusioninfer_pulumi.cli.read_sources import read_diff_side

    if options.output not in ("text", "json"):
        sys.stderr.write("fusioninfer-pulumi plan: --update requires --output text or json\n")
        return None
    old = read_diff_side(options.update, options)
    old_objects = old.render()
    new_objects = [item for source in sources for item in source.render()]
    invalid = [
        (origin, finding)
        for source in (old, *sources)
        for origin, finding in source.findings
        if finding.severity is Severity.ERROR
    ]
    if invalid:
        report(invalid, ChainMap(*(source.texts for source in (old, *sources))))
        return None
    plans = old.plans, [plan for source in sources for plan in source.plans]
    return simulate_updates(old_objects, new_objects, plans)


def dashboards(options: argparse.Namespace) -> int:
    """Write the dashboards of all services, and print the file names."""
    from fusioninfer_pulumi.api.monitoring import MonitoringArgs
    from fusioninfer_pulumi.operations.monitors import plan_monitoring, render_dashboards
    from fusioninfer_pulumi.plan.service_json import replace_output

    sources = read_sources(options.sources, options)
    plans = [plan for source in sources for plan in source.plans]
    if _report_findings(options, sources):
        return 2
    files: dict[str, str] = {}
    for plan in plans:
        meta = replace(plan.meta, namespace=replace_output(plan.namespace))
        # With the default fields, because services without `monitoring` also get dashboards.
        monitoring = plan_monitoring(MonitoringArgs(), plan.shape, plan.roles, plan.routing)
        files |= render_dashboards(meta, monitoring)
    return write_files(Path(options.directory), files)


def convert(options: argparse.Namespace) -> int:
    """Print the services as InferenceService manifests, or as a Pulumi program."""
    sources = read_sources(options.sources, options)
    for source in sources:
        if source.is_project and not source.has_severity(Severity.ERROR):
            message = "is a Pulumi project, which cannot be converted"
            source.add(source.name, error(NOTHING_TO_CONVERT, (), message))
        if not source.planned_documents and not source.has_severity(Severity.ERROR):
            from fusioninfer_pulumi.api.service import KIND
            from fusioninfer_pulumi.loading.importer import importers

            kinds = [f"{', '.join(system.services)} ({system.name})" for system in importers()]
            message = f"no service found; supported kinds: {', '.join([KIND, *kinds])}"
            source.add(source.name, error(NOTHING_TO_CONVERT, (), message))
    if _report_findings(options, sources):
        return 2
    (source,) = sources  # a project is rejected above, and all manifests together are one source
    services = [document.args for document in source.planned_documents if document.args is not None]
    manifests = [dict(document.manifest or {}) for document in source.planned_documents]
    if options.expand:
        from fusioninfer_pulumi.loading.validate import to_manifest
        from fusioninfer_pulumi.presets.expansion import expand

        services = [expand(args).args for args in services]
        manifests = [to_manifest(args) for args in services]
    if options.output == "python":
        from fusioninfer_pulumi.cli.python_program import python_program

        sys.stdout.write(python_program(services))
        return 0
    print_objects(manifests, options.output)
    return 0


def place(options: argparse.Namespace) -> int:
    """Print the node pools of each service, and the capacity that remains free."""
    sources = read_sources(options.sources, options)
    has_errors = any(source.has_severity(Severity.ERROR) for source in sources)
    placement = _place_all(options, sources)
    status = 2 if _report_findings(options, sources) else 0
    if placement is None or (status and has_errors):
        return status
    plans = [plan for source in sources for plan in source.plans]
    if options.output == "json":
        from fusioninfer_pulumi.plan.service_json import replace_output

        print_json(
            [
                {
                    "service": plan.service,
                    "namespace": replace_output(plan.namespace),
                    "placement": placement.to_json(number),
                }
                for number, plan in enumerate(plans)
            ]
        )
        return status
    from fusioninfer_pulumi.cli.plan_text import print_placement

    print_placement(plans, placement, sys.stdout)
    return status


def size(options: argparse.Namespace) -> int:
    """Print the layouts in which a model fits into memory."""
    from fusioninfer_pulumi.capacity_package import NEEDS_CAPACITY, load_package

    package = load_package()
    if package is None:
        sys.stderr.write(f"fusioninfer-pulumi size: {NEEDS_CAPACITY}\n")
        return 2
    return package.size(options)


def init(options: argparse.Namespace) -> int:
    """Write a Pulumi project."""
    from fusioninfer_pulumi.cli import new_project

    return new_project.init(options)


def check(options: argparse.Namespace) -> int:
    """Print errors and warnings about the sources."""
    # An inventory describes one cluster, so all manifests are placed together.
    sources = read_sources(options.sources, options, several_stacks=options.inventory is None)
    _place_all(options, sources)
    if options.server or options.context is not None:
        # Importing the client is slow.
        from fusioninfer_pulumi.cli.cluster_findings import add_cluster_findings

        add_cluster_findings(sources, options.context, dry_run=True)
    return 2 if _report_findings(options, sources, output=options.output) else 0


def rules(options: argparse.Namespace) -> int:
    """Print a table of all rules, or all details of one rule."""
    from fusioninfer_pulumi.cli.terminal import print_rule, print_rule_table
    from fusioninfer_pulumi.rules.catalog import load_rules

    if options.rule is None:
        print_rule_table(load_rules().values(), sys.stdout)
        return 0
    print_rule(load_rules()[options.rule], sys.stdout)
    return 0


def diff(options: argparse.Namespace) -> int:
    """Print the changes between two sources."""
    from fusioninfer_pulumi.cli.diff import compare, to_json, to_markdown
    from fusioninfer_pulumi.cli.diff_sides import read_diff_sides
    from fusioninfer_pulumi.pods.credentials import mask_credentials

    # Exactly one of NEW and --base is set; with --base the first argument is the new source.
    if (options.base is None) == (options.new is None):
        sys.stderr.write("fusioninfer-pulumi diff: expected OLD NEW, or --base REF SOURCE\n")
        return 2
    sides = read_diff_sides(options)
    old_objects, new_objects = sides.old.render(), sides.new.render()
    if _report_findings(options, [sides.old, sides.new], blocking_sources=sides.blocking_sources):
        return 2
    if not options.show_secrets:
        # Each mask contains a hash of the value, so a changed credential is shown as a difference.
        old_objects = mask_credentials(old_objects, mark_secret)
        new_objects = mask_credentials(new_objects, mark_secret)
    plans = sides.old.plans, sides.new.plans
    difference = compare(old_objects, new_objects, plans=plans)
    cache_notes = _describe_cache_changes(*plans)
    notes = (*sides.notes, *difference.notes, *cache_notes)
    difference = remove_marks(difference._replace(notes=notes))
    if options.output == "json":
        print_json(to_json(difference))
    elif options.output == "markdown":
        sys.stdout.write(to_markdown(difference))
    elif difference:
        from fusioninfer_pulumi.cli.diff.terminal_text import print_diff
        from fusioninfer_pulumi.cli.terminal import open_console

        with open_console(sys.stdout) as screen:
            print_diff(difference, screen)
    return 1 if difference else 0


def _describe_cache_changes(
    old: Iterable[ServicePlan], new: Iterable[ServicePlan]
) -> Iterator[str]:
    """Describe how the KV cache sizes of roles change, if both sides have an estimate."""
    old_memory = {_get_namespaced_name(plan): plan.memory for plan in old}
    for plan in new:
        for role, memory in old_memory.get(_get_namespaced_name(plan), {}).items():
            if role in plan.memory and (change := memory.describe_change(plan.memory[role])):
                yield f"{role}: {change}"


def _get_namespaced_name(plan: ServicePlan) -> tuple[str, str]:
    """Return the namespace, which is empty if it is an Output, and the name of a service."""
    return (plan.namespace if isinstance(plan.namespace, str) else ""), plan.service


def _place_all(options: argparse.Namespace, sources: Sequence[Source]) -> PlacementResult | None:
    """Place the services of manifests if `--inventory` is set; Pulumi projects get an error.

    Returns the placement; None if `--inventory` is not set or nothing could be placed.
    """
    if options.inventory is not None:
        from fusioninfer_pulumi.cli.read_sources import place_source

        results = [place_source(item, options.inventory, options.previous) for item in sources]
        # Only manifests, which are one source, are placed; the errors reject other sources.
        return results[0] if len(results) == 1 else None
    if options.previous is not None:
        sources[0].add(
            options.previous,
            error(OPTION_OUT_OF_PLACE, (), "--previous has no effect without --inventory"),
        )
    return None


def _report_findings(
    options: argparse.Namespace,
    sources: Sequence[Source],
    *,
    blocking_sources: Sequence[Source] | None = None,
    omit_planned: bool = False,
    output: str = "text",
) -> bool:
    """Print findings, except of ignored rules, and return whether they stop the command.

    Only findings of `blocking_sources` can stop the command; by default these are all sources. If
    `omit_planned` is set and the command does not stop, findings of planned services are not
    printed. `output` is a format of `report`.
    """
    blocking_sources = sources if blocking_sources is None else blocking_sources
    if options.stack is not None and not any(source.is_project for source in sources):
        message = "--stack has no effect, because no source is a Pulumi project"
        last_source = blocking_sources[-1]
        last_source.add(last_source.name, error(OPTION_OUT_OF_PLACE, (), message))
    ignored_rules = frozenset(options.ignore)
    for source in sources:
        source.ignore(ignored_rules)
    fatal = {Severity.ERROR, Severity.WARNING} if options.strict else {Severity.ERROR}
    stops = any(
        finding.severity in fatal for source in blocking_sources for _, finding in source.findings
    )
    omitted = {
        item
        for source in (sources if omit_planned and not stops else ())
        for document in source.planned_documents
        for item in document.findings
    }
    visible = [
        (origin, finding)
        for source in sources
        for origin, finding in source.findings
        if options.verbose or finding.severity is not Severity.INFO
        if (origin, finding) not in omitted
    ]
    texts = {file: text for source in sources for file, text in source.texts.items()}
    report(visible, texts, output)
    return stops
