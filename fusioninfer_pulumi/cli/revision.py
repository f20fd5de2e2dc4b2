"""A source as it stands in a git revision, for comparing it with the working tree."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fusioninfer_pulumi.findings import one_line

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
