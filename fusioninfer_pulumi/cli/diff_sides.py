"""Both sides of `diff`: two sources, or one source in a git revision and in the working tree."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fusioninfer_pulumi.cli.read_sources import (
    UNREADABLE_REVISION,
    Source,
    is_project,
    read_diff_side,
)
from fusioninfer_pulumi.findings import Finding, Origin, Severity, error, one_line
from fusioninfer_pulumi.loading.file_set import SUFFIXES, list_manifest_files


@dataclass(frozen=True)
class DiffSides:
    """The two sides of `diff`.

    Attributes:
        blocking_sources: The sources whose errors stop the command; with `--strict`, warnings do
            too.
        notes: Limits of the comparison.
    """

    old: Source
    new: Source
    blocking_sources: tuple[Source, ...]
    notes: tuple[str, ...] = ()


def read_diff_sides(options: argparse.Namespace) -> DiffSides:
    """Read both sides of `diff`.

    Errors in a git revision become warnings: the revision cannot be changed, and `diff` must work
    for the change that fixes them.
    """
    if options.base is None:
        old, new = (read_diff_side(path, options) for path in (options.old, options.new))
        return DiffSides(old, new, blocking_sources=(old, new), notes=_note_encrypted(old, new))
    path = options.old
    old = Source(f"{options.base}:{path.rstrip('/') or path}", objects=[])
    try:
        with _check_out(path, options.base) as old_path:
            existed = not _is_empty(old_path)
            if existed:
                old = read_diff_side(str(old_path), options, old.name)
                old.render()  # while the files exist; `old` keeps the result
    except _RevisionError as exc:
        old.add(old.name, error(UNREADABLE_REVISION, (), str(exc)))
        return DiffSides(old, Source(path, objects=[]), blocking_sources=(old,))
    if existed and _is_empty(Path(path)):  # the working tree no longer has the source
        new = Source(path, objects=[])
    else:
        new = read_diff_side(path, options)
    notes = _downgrade_errors(old)
    return DiffSides(old, new, blocking_sources=(new,), notes=(*notes, *_note_encrypted(old, new)))


def _is_empty(path: Path) -> bool:
    """Return whether a path does not exist, or is a directory without a project or manifest."""
    if not path.is_dir():
        return not os.path.lexists(path)
    return not (is_project(path) or list_manifest_files(path))


def _note_encrypted(old: Source, new: Source) -> tuple[str, ...]:
    """Return a note about encrypted values with a new ciphertext; the output masks the values."""
    before, after = old.encrypted or {}, new.encrypted or {}
    changed = [key for key, text in after.items() if before.get(key, text) != text]
    if not changed:
        return ()
    note = (
        f"config {', '.join(changed)}: the encrypted text changed; whether the value changed is "
        "unknown without the stack's key"
    )
    return (note,)


def _downgrade_errors(old: Source) -> tuple[str, ...]:
    """Turn errors into warnings, drop the plans of documents with errors, and return a note."""
    if not old.has_severity(Severity.ERROR):
        return ()
    old.documents = [
        document._replace(plan=None, loading_findings=tuple(map(_downgrade, document.findings)))
        if document.has_errors
        else document
        for document in old.documents
    ]
    old.remarks = [_downgrade(located) for located in old.remarks]
    note = (
        f"warning: parts of {old.name} have errors and are ignored; the services in "
        "them are shown as added, even if they are already running"
    )
    return (note,)


def _downgrade(located: tuple[Origin, Finding]) -> tuple[Origin, Finding]:
    origin, finding = located
    if finding.severity is Severity.ERROR:
        finding = replace(finding, severity=Severity.WARNING)
    return origin, finding


class _RevisionError(Exception):
    """The revision cannot be read."""


@contextlib.contextmanager
def _check_out(source_path: str, revision: str) -> Iterator[Path]:
    """Check out a git revision in a temporary directory, and yield the path of a source there.

    All files are checked out, because a project's program may read files outside its directory.
    """
    path = Path(source_path).absolute()
    # A link belongs to the repository that contains the link, not to its target's repository.
    is_directory = path.is_dir() and not path.is_symlink()
    directory = path if is_directory else path.parent
    while not directory.exists():
        directory = directory.parent
    top = _git(directory, "rev-parse", "--show-toplevel")
    inside = Path(_git(directory, "rev-parse", "--show-prefix"), path.relative_to(directory))
    try:
        arguments = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        commit = _git(directory, *arguments)
    except _RevisionError:
        raise _RevisionError(f"no such revision: {one_line(revision)}") from None
    with tempfile.TemporaryDirectory(prefix="fusioninfer-pulumi-") as scratch:
        tree, index = Path(scratch).resolve() / "tree", Path(scratch) / "index"
        # `git checkout` would change the repository, and `git archive` would leave out files that
        # `.gitattributes` marks with `export-ignore`.
        _git(Path(top), "read-tree", "--no-sparse-checkout", commit, index=index)
        prefix = f"--prefix={tree}{os.sep}"
        _git(Path(top), "checkout-index", "--all", "--quiet", prefix, index=index)
        old_path = tree / inside
        read_paths = [old_path]
        if old_path.is_dir():
            read_paths += [entry for entry in old_path.iterdir() if entry.suffix in SUFFIXES]
        for entry in read_paths:
            if not Path(os.path.realpath(entry)).is_relative_to(tree):
                name = entry.relative_to(tree)
                raise _RevisionError(f"{name} is a link to a path outside the repository")
        yield old_path


def _git(directory: Path, *arguments: str, index: Path | None = None) -> str:
    command = ["git", "-C", str(directory), *arguments]
    environment = None if index is None else {**os.environ, "GIT_INDEX_FILE": str(index)}
    try:
        # No shell reads the command, so the revision needs no quotes.
        result = subprocess.run(  # noqa: S603  # see above
            command, capture_output=True, check=False, env=environment
        )
    except OSError:
        raise _RevisionError("--base needs git, which is not installed") from None
    if result.returncode != 0:
        reason = result.stderr.decode(errors="replace").strip().splitlines()
        raise _RevisionError(f"git: {reason[-1] if reason else 'failed'}")
    return os.fsdecode(result.stdout).strip()
