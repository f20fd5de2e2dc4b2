"""The two sides of `diff`: what may be wrong with each of them, and still be compared."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from fusioninfer_pulumi.cli.given import holds_nothing
from fusioninfer_pulumi.cli.revision import at_revision
from fusioninfer_pulumi.cli.source import Source, read_sources
from fusioninfer_pulumi.findings import Severity, errors, warning
from fusioninfer_pulumi.loading.file_set import NO_SERVICE


@dataclass(frozen=True)
class Compared:
    """What is compared.

    Attributes:
        old: The state before.
        new: The state after.
        judged: Those whose errors, and with `--strict` warnings, stop the command.
        notes: What the comparison does not show, to be told with it.
    """

    old: Source
    new: Source
    judged: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def compared(options: argparse.Namespace) -> Compared:
    """Reads both sides.

    A git revision is there already, whatever this release thinks of it: what is wrong with it are
    warnings, so that a change that repairs it can be compared. What only one side has is added or
    removed.

    Args:
        options: The command line of `diff`.

    Raises:
        RevisionError: The revision cannot be read.
    """
    if options.base is None:
        old, new = (_read(options, name) for name in (options.old, options.new))
        return Compared(old, new, judged=(old, new), notes=_encrypted(old, new))
    name = options.old
    label = f"{options.base}:{name.rstrip('/') or name}"
    with at_revision(name, options.base) as found:
        old = nothing = Source(label, objects=[])
        if found.path is not None and not holds_nothing(found.path):
            old = _read(options, found.path).named(found.path, label)
            old.rendered()
        if _holds_no_service(old):
            old = nothing
    for link in found.outside:
        told = "is a link out of the repository: left out, what it leads to has no revision"
        old.add(f"{options.base}:{link}", [warning("", told)])
    new = _read(options, name)
    if old is not nothing and (holds_nothing(name) or _holds_no_service(new)):
        new = Source(name, objects=[])
    notes = _forgive(old)
    return Compared(old, new, judged=(new,), notes=(*notes, *_encrypted(old, new)))


def _encrypted(old: Source, new: Source) -> tuple[str, ...]:
    """What is encrypted anew: its old and its new value are one stand-in."""
    changed = [key for key, text in new.encrypted.items() if old.encrypted.get(key, text) != text]
    if not changed:
        return ()
    told = (
        f"config {', '.join(changed)} was encrypted anew: only the key of the stack tells whether "
        "the value is another one, and what would change with it"
    )
    return (told,)


def _holds_no_service(source: Source) -> bool:
    """Tells whether nothing is wrong with a folder but that its manifests are of other things."""
    wrong = errors(finding for _, finding in source.findings)
    return bool(wrong) and all(each.rule == NO_SERVICE for each in wrong)


def _forgive(old: Source) -> tuple[str, ...]:
    """Makes warnings of the errors of a base, and leaves out what has any."""
    if not old.has(Severity.ERROR):
        return ()
    old.findings = [
        (label, replace(found, severity=Severity.WARNING) if errors([found]) else found)
        for label, found in old.findings
    ]
    old.plans = [plan for plan in old.plans if not errors(plan.findings)]
    told = (
        f"warning: {old.label} could not be read as a whole: what could not be read is left out, "
        "and its new state is shown as added, though it may be running"
    )
    return (told,)


def _read(options: argparse.Namespace, name: str) -> Source:
    return read_sources(
        [name],
        options.stack,
        show_secrets=options.show_secrets,
        compared=True,
        allow_lossy=options.allow_lossy,
    )
