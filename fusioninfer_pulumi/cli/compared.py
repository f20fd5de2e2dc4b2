"""Both sides of `diff`: two inputs, or one input in a git revision and in the working tree."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from pathlib import Path

from fusioninfer_pulumi.cli.planned import Source
from fusioninfer_pulumi.cli.rules import UNREADABLE_REVISION
from fusioninfer_pulumi.cli.sources import is_project, read_side
from fusioninfer_pulumi.findings import Finding, Origin, Severity, errors, warning
from fusioninfer_pulumi.loading.file_set import NO_SERVICE_IN_FOLDER, manifest_files


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

    Errors of a git revision are warnings: it is there already, and a change that repairs it can be
    compared. What only one side has is added or removed.

    Raises:
        RevisionError: The revision cannot be read.
    """
    if options.base is None:
        old, new = (read_side(path, options) for path in (options.old, options.new))
        return Compared(old, new, judged=(old, new), notes=_encrypted(old, new))
    from fusioninfer_pulumi.cli.revision import at_revision

    path = options.old
    name = f"{options.base}:{path.rstrip('/') or path}"
    with at_revision(path, options.base) as revised:
        old = nothing = Source(name, objects=[])
        if revised.path is not None and not _holds_nothing(revised.path):
            old = read_side(revised.path, options).named(revised.path, name)
            old.rendered()
        if _holds_no_service(old):
            old = nothing
    for link in revised.outside:
        message = "is a link out of the repository: left out, what it leads to has no revision"
        old.add(f"{options.base}:{link}", warning(UNREADABLE_REVISION, (), message))
    new = read_side(path, options)
    if old is not nothing and (_holds_nothing(path) or _holds_no_service(new)):
        new = Source(path, objects=[])
    notes = _forgive(old)
    return Compared(old, new, judged=(new,), notes=(*notes, *_encrypted(old, new)))


def _holds_nothing(path: str) -> bool:
    """Whether there is nothing to read at a path: no file, project or manifest."""
    place = Path(path)
    if path in ("-", "") or "\0" in path or (os.path.lexists(place) and not place.is_dir()):
        return False
    try:
        return not place.is_dir() or not (is_project(place) or manifest_files(place))
    except OSError:
        return False  # reading it reports why


def _holds_no_service(source: Source) -> bool:
    """Whether nothing is wrong with a folder but that its manifests are of other things."""
    wrong = errors(finding for _, finding in source.findings)
    return bool(wrong) and all(finding.rule == NO_SERVICE_IN_FOLDER.id for finding in wrong)


def _encrypted(old: Source, new: Source) -> tuple[str, ...]:
    """Encrypted values that differ as text: both are one stand-in."""
    olds, news = old.encrypted or {}, new.encrypted or {}
    changed = [key for key, text in news.items() if olds.get(key, text) != text]
    if not changed:
        return ()
    note = (
        f"config {', '.join(changed)}: the encrypted text changed; whether the value did, and what "
        "would change with it, is not known without the stack's key"
    )
    return (note,)


def _forgive(old: Source) -> tuple[str, ...]:
    """Makes warnings of the errors of a base, and leaves out the plans of what has any."""
    if not old.has(Severity.ERROR):
        return ()
    old.documents = [
        replace(
            document,
            plan=None if document.refused else document.plan,
            findings=tuple(map(_forgiven, document.findings)),
        )
        for document in old.documents
    ]
    old.remarks = [_forgiven(located) for located in old.remarks]
    note = (
        f"warning: {old.name} could not be read as a whole: what could not be read is left out, "
        "and its new state is shown as added, though it may be running"
    )
    return (note,)


def _forgiven(located: tuple[Origin, Finding]) -> tuple[Origin, Finding]:
    origin, finding = located
    return origin, replace(finding, severity=Severity.WARNING) if errors([finding]) else finding
