"""Both sides of `diff`: two inputs, or one input in a git revision and in the working tree."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fusioninfer_pulumi.cli.read_sources import is_project, read_diff_side
from fusioninfer_pulumi.cli.source import UNREADABLE_REVISION, Source
from fusioninfer_pulumi.findings import Finding, Origin, Severity, error, errors, one_line
from fusioninfer_pulumi.loading.file_set import SUFFIXES, manifest_files


@dataclass(frozen=True)
class DiffSides:
    """The two sides of `diff`.

    Attributes:
        deciding: Those whose errors, and with `--strict` warnings, stop the command.
        notes: Limits of the comparison.
    """

    old: Source
    new: Source
    deciding: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def read_diff_sides(options: argparse.Namespace) -> DiffSides:
    """Reads both sides of `diff`.

    Errors of a git revision become warnings, because the revision cannot be changed, and a change
    that fixes them must be comparable.
    """
    if options.base is None:
        old, new = (read_diff_side(path, options) for path in (options.old, options.new))
        return DiffSides(old, new, deciding=(old, new), notes=_encrypted(old, new))
    path = options.old
    old = Source(f"{options.base}:{path.rstrip('/') or path}", objects=[])
    try:
        with _at_revision(path, options.base) as revised:
            existed = not _holds_nothing(revised)
            if existed:
                old = read_diff_side(str(revised), options, old.name)
                old.rendered()
    except _RevisionError as problem:
        old.add(f"{options.base}:{path}", error(UNREADABLE_REVISION, (), str(problem)))
        return DiffSides(old, Source(path, objects=[]), deciding=(old,))
    if existed and _holds_nothing(Path(path)):
        new = Source(path, objects=[])
    else:
        new = read_diff_side(path, options)
    notes = _forgive(old)
    return DiffSides(old, new, deciding=(new,), notes=(*notes, *_encrypted(old, new)))


def _holds_nothing(path: Path) -> bool:
    """Whether there is nothing to read at a path: no file, project or manifest."""
    if not path.is_dir():
        return not os.path.lexists(path)
    return not (is_project(path) or manifest_files(path))


def _encrypted(old: Source, new: Source) -> tuple[str, ...]:
    """Notes encrypted values whose ciphertext differs: both are shown as `<secret>`."""
    olds, news = old.encrypted or {}, new.encrypted or {}
    changed = [key for key, text in news.items() if olds.get(key, text) != text]
    if not changed:
        return ()
    note = (
        f"config {', '.join(changed)}: the encrypted text changed; whether the value changed is "
        "unknown without the stack's key"
    )
    return (note,)


def _forgive(old: Source) -> tuple[str, ...]:
    """Converts errors of a base to warnings, and drops the plans of documents that had any."""
    if not old.has(Severity.ERROR):
        return ()
    old.documents = [
        replace(
            document,
            plan=None if document.has_errors else document.plan,
            findings=tuple(map(_forgiven, document.findings)),
        )
        for document in old.documents
    ]
    old.remarks = [_forgiven(located) for located in old.remarks]
    note = (
        f"warning: parts of {old.name} could not be read; their new state is shown as added, "
        "though they may be running"
    )
    return (note,)


def _forgiven(located: tuple[Origin, Finding]) -> tuple[Origin, Finding]:
    origin, finding = located
    return origin, replace(finding, severity=Severity.WARNING) if errors([finding]) else finding


class _RevisionError(Exception):
    """The revision cannot be read."""


@contextlib.contextmanager
def _at_revision(source: str, revision: str) -> Iterator[Path]:
    """Checks out a git revision, and yields the path of a source in it.

    Checks out all files, because a project's program may read files outside of its folder.
    """
    path = Path(source).absolute()
    # A link belongs to the repository that contains it, not to that of its target.
    folder = path if path.is_dir() and not path.is_symlink() else path.parent
    while not folder.exists():
        folder = folder.parent
    top = _git(folder, "rev-parse", "--show-toplevel")
    inside = Path(_git(folder, "rev-parse", "--show-prefix"), path.relative_to(folder))
    try:
        arguments = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        commit = _git(folder, *arguments)
    except _RevisionError:
        raise _RevisionError(f"no such revision: {one_line(revision)}") from None
    with tempfile.TemporaryDirectory(prefix="fusioninfer-pulumi-") as directory:
        tree, index = Path(directory).resolve() / "tree", Path(directory) / "index"
        # As a checkout would, without touching the repository; an archive would leave out what
        # `.gitattributes` marks with `export-ignore`.
        _git(Path(top), "read-tree", "--no-sparse-checkout", commit, index=index)
        prefix = f"--prefix={tree}{os.sep}"
        _git(Path(top), "checkout-index", "--all", "--quiet", prefix, index=index)
        source_path = tree / inside
        entries = source_path.iterdir() if source_path.is_dir() else ()
        for entry in (source_path, *(path for path in entries if path.suffix in SUFFIXES)):
            if not Path(os.path.realpath(entry)).is_relative_to(tree):
                name = entry.relative_to(tree)
                raise _RevisionError(f"{name} is a link that leads out of the repository")
        yield source_path


def _git(folder: Path, *arguments: str, index: Path | None = None) -> str:
    command = ["git", "-C", str(folder), *arguments]
    environment = None if index is None else {**os.environ, "GIT_INDEX_FILE": str(index)}
    try:
        # The revision is one argument of a list: no shell ever reads it.
        done = subprocess.run(  # noqa: S603  # see above
            command, capture_output=True, check=False, env=environment
        )
    except OSError:
        raise _RevisionError("git is needed for --base, and is not installed") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise _RevisionError(f"git: {reason[-1] if reason else 'failed'}")
    return os.fsdecode(done.stdout).strip()
