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

from fusioninfer_pulumi.cli.planned import UNREADABLE_REVISION, Source
from fusioninfer_pulumi.cli.sources import is_project, read_side
from fusioninfer_pulumi.findings import Finding, Origin, Severity, errors, one_line, warning
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


_NO_SUCH = "Needed a single revision"


class RevisionError(ValueError):
    """The revision cannot be read; the message says why."""


@dataclass(frozen=True)
class Revised:
    """A source in a git revision.

    Attributes:
        path: Where it stands, None when it did not exist there.
        outside: Links on its way or below it that lead out of the revision, by their paths in the
            repository. They are left out: what they lead to is not of that revision.
    """

    path: str | None
    outside: tuple[str, ...]


@contextlib.contextmanager
def at_revision(source: str, revision: str) -> Iterator[Revised]:
    """Unpacks a git revision and yields where a source stands in it.

    The whole revision is unpacked, because a project's program may read files beside its folder.

    Args:
        source: Path of a file or folder of the working tree.
        revision: Anything that git takes for a commit: a branch, a tag, a hash, `HEAD~1`.

    Yields:
        The source, for as long as the context lasts.

    Raises:
        RevisionError: There is no git, repository or such revision.
    """
    path = Path(source).absolute()
    # A link belongs to the repository that holds it, wherever it leads.
    folder = path if path.is_dir() and not path.is_symlink() else path.parent
    while not folder.exists():
        folder = folder.parent
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    commit = _commit(folder, revision).decode().strip()
    inside = _inside(path, top)
    with tempfile.TemporaryDirectory(prefix="fusioninfer-pulumi-") as made:
        # Git follows no links when it writes, except those on the way to the folder.
        unpacked = Path(made).resolve()
        tree = unpacked / "tree"
        tree.mkdir()
        _unpack(top, commit, tree, unpacked / "index")
        links = _without_ways_out(tree)
        outside = tuple(str(link) for link in links if _touches(link, inside))
        old = tree / inside
        yield Revised(str(old) if old.exists() else None, outside)


def _inside(path: Path, top: Path) -> Path:
    """The path of a source in its repository, with the links on its way."""
    for above in (path, *path.parents):
        if above.exists() and above.samefile(top):
            return path.relative_to(above)
    try:
        return path.resolve().relative_to(top.resolve())
    except ValueError:
        raise RevisionError(f"lies outside of the git repository {top.name}") from None


def _unpack(top: Path, commit: str, tree: Path, index: Path) -> None:
    """Writes the files of a commit as a checkout would, without touching the repository.

    An archive would leave out what `.gitattributes` marks with `export-ignore`.
    """
    _git(top, "read-tree", "--no-sparse-checkout", commit, index=index)
    _git(top, "checkout-index", "--all", "--quiet", f"--prefix={tree}{os.sep}", index=index)


def _without_ways_out(tree: Path) -> list[Path]:
    """Deletes the links that lead out of a folder, and returns their paths in it."""
    outside = []
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            link = Path(folder, name)
            if link.is_symlink() and not _leads_into(link, tree):
                outside.append(link)
    # All links are checked before the first is deleted: some lead over others.
    for link in outside:
        link.unlink()
    return sorted(link.relative_to(tree) for link in outside)


def _leads_into(link: Path, tree: Path) -> bool:
    # Unlike Path.resolve, it raises nothing for links that lead to themselves.
    return Path(os.path.realpath(link)).is_relative_to(tree)


def _touches(link: Path, inside: Path) -> bool:
    return link.is_relative_to(inside) or inside.is_relative_to(link)


def _commit(folder: Path, revision: str) -> bytes:
    asked = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return _git(folder, *asked)
    except RevisionError as problem:
        # Git writes "fatal: Needed a single revision".
        if _NO_SUCH not in str(problem):
            raise
        raise RevisionError(f"no such revision: {one_line(revision)}") from None


def _git(folder: Path, *arguments: str, index: Path | None = None) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    environment = None if index is None else {**os.environ, "GIT_INDEX_FILE": str(index)}
    try:
        # The revision is one argument of a list: no shell ever reads it.
        done = subprocess.run(  # noqa: S603  # see above
            command, capture_output=True, check=False, env=environment
        )
    except OSError:
        raise RevisionError("git is needed for --base, and is not installed") from None
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().splitlines()
        raise RevisionError(f"git: {reason[-1] if reason else 'failed'}")
    return done.stdout
