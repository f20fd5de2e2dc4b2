"""What a command reads: a manifest, standard input, rendered objects or a Pulumi project."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.findings import Finding, Severity, error, errors, warning
from fusioninfer_pulumi.manifests import render
from fusioninfer_pulumi.plan.build import with_collisions
from fusioninfer_pulumi.plan.check import checked
from fusioninfer_pulumi.plan.records import ServicePlan
from fusioninfer_pulumi.reading.dispatch import is_read
from fusioninfer_pulumi.reading.read import read_text
from fusioninfer_pulumi.reading.reading import Reading
from fusioninfer_pulumi.spec.yaml_text import MAX_BYTES, TOO_LARGE, UnreadableError, documents

STDIN = "<stdin>"


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
    """

    label: str
    plans: list[ServicePlan] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    objects: list[dict[str, Any]] | None = None
    manifests: list[Mapping[str, Any]] | None = None
    readings: list[Reading] | None = None

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


def read_source(
    name: str,
    stack: str | None,
    *,
    show_secrets: bool,
    rendered: bool = False,
    allow_lossy: bool = False,
) -> Source:
    """Reads one input.

    Args:
        name: Path of a file or of a Pulumi project folder; `-` is standard input.
        stack: Stack whose config a project's program reads, None for the only one.
        show_secrets: Whether secrets of a program are shown.
        rendered: Whether a file may hold Kubernetes objects in place of services.
        allow_lossy: Whether what cannot be carried over from another system's manifest is a
            warning in place of an error.

    Returns:
        The input; whatever is wrong with it is among its findings.
    """
    label = STDIN if name == "-" else name
    try:
        data = _bytes(name)
    except IsADirectoryError:
        return _project(name, Path(name), stack, show_secrets=show_secrets)
    except OSError as problem:
        source = Source(label)
        source.add(label, [error("", f"cannot be read: {problem.strerror or problem}")])
        return source
    return _text(label, data, rendered=rendered, allow_lossy=allow_lossy)


def read_sources(
    names: Sequence[str], stack: str | None, *, show_secrets: bool, allow_lossy: bool = False
) -> Source:
    """Reads one input, or several manifests as if they were one.

    Args:
        names: Paths; a Pulumi project stands alone.
        stack: Stack whose config a project's program reads, None for the only one.
        show_secrets: Whether secrets of a program are shown.
        allow_lossy: Whether what cannot be carried over from another system's manifest is a
            warning in place of an error.
    """
    read = [
        read_source(name, stack, show_secrets=show_secrets, allow_lossy=allow_lossy)
        for name in names
    ]
    if len(read) == 1:
        return read[0]
    merged = Source(", ".join(each.label for each in read))
    for each in read:
        if each.readings is None:
            merged.findings += each.findings
            if not each.has(Severity.ERROR):
                merged.add(each.label, [error("", "is a Pulumi project: give it alone")])
    plan_all(merged, [one for each in read for one in each.readings or ()])
    return merged


def _bytes(name: str) -> bytes:
    """At most one byte more than a manifest may have: the input may be a device without an end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        data: bytes = sys.stdin.buffer.read(MAX_BYTES + 1)
        return data
    if not name or "\0" in name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if Path(name).is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with Path(name).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _text(label: str, data: bytes, *, rendered: bool, allow_lossy: bool) -> Source:
    source = Source(label)
    if len(data) > MAX_BYTES:
        source.add(label, [error("", TOO_LARGE)])
        return source
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        source.add(label, [error("", "not YAML: not UTF-8 text")])
        return source
    if rendered:
        objects = _objects(text)
        if objects is not None:
            source.objects = objects
            return source
    plan_all(source, read_text(text, label, allow_lossy=allow_lossy))
    return source


def plan_all(source: Source, read: Sequence[Reading]) -> None:
    """Plans what was read, and notes everything that there is to say about it."""
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


def _located(source: Source, read: Reading, plan: ServicePlan) -> ServicePlan:
    """The plan with what reading had to say, and with paths of the document that was read."""
    located = [read.locate(finding) for finding in plan.findings]
    source.findings += located
    told = [finding for _, finding in (*read.remarks, *located)]
    return replace(plan, findings=tuple(told))


def _objects(text: str) -> list[dict[str, Any]] | None:
    """Kubernetes objects of a text, None when it holds anything else."""
    try:
        read = list(documents(text))
    except UnreadableError:
        return None
    found: list[dict[str, Any]] = []
    for item in read:
        listed = isinstance(item, Mapping) and item.get("kind") == "List"
        items = item.get("items") if listed else [item]
        if not isinstance(items, list):
            return None
        found += items
    complete = all(
        isinstance(item, Mapping)
        and isinstance(item.get("apiVersion"), str)
        and isinstance(item.get("kind"), str)
        and isinstance(item.get("metadata"), Mapping)
        and not is_read(item)
        for item in found
    )
    return found if complete and read else None


def _project(label: str, folder: Path, stack: str | None, *, show_secrets: bool) -> Source:
    # Only a project needs Pulumi, which costs more to import than a manifest to read.
    from fusioninfer_pulumi.cli.program import ProgramError, run_program  # noqa: PLC0415

    source = Source(label)
    try:
        recording = run_program(folder, stack, show_secrets=show_secrets)
    except ProgramError as problem:
        source.add(label, [error("", str(problem))])
        return source
    source.objects = [recorded.manifest for recorded in recording.resources]
    for number, plan in enumerate(recording.plans, start=1):
        source.plans.append(plan)
        source.labels.append(label if number == 1 else f"{label}#{number}")
        source.add(source.labels[-1], plan.findings)
    source.add(label, [warning("", text) for text in recording.warnings])
    return source
