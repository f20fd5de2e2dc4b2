"""A source as it stands in a git revision, for comparing it with the working tree."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from fusioninfer_pulumi.findings import one_line

_NO_SUCH = "Needed a single revision"


class RevisionError(ValueError):
    """The revision cannot be read; the message says why."""


@contextlib.contextmanager
def at_revision(source: str, revision: str) -> Iterator[str | None]:
    """Unpacks a git revision and yields where a source stands in it.

    The whole revision is unpacked, because a project's program may read files beside its folder.

    Args:
        source: Path of a file or folder of the working tree.
        revision: Anything that git takes for a commit: a branch, a tag, a hash, `HEAD~1`.

    Yields:
        The path of the source in the revision, None when it did not exist there.

    Raises:
        RevisionError: There is no git, repository or such revision.
    """
    path = Path(source).absolute()
    folder = path if path.is_dir() else path.parent
    while not folder.exists():
        folder = folder.parent
    top = Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    commit = _commit(folder, revision)
    archive = _git(top, "archive", "--format=zip", commit.decode().strip())
    try:
        inside = path.resolve().relative_to(top.resolve())
    except ValueError:
        raise RevisionError(f"lies outside of the git repository {top.name}") from None
    with tempfile.TemporaryDirectory(prefix="fusioninfer-pulumi-") as unpacked:
        # Zip members are always written below the folder, whatever they are called.
        zipfile.ZipFile(BytesIO(archive)).extractall(unpacked)
        old = Path(unpacked) / inside
        yield str(old) if old.exists() else None


def _commit(folder: Path, revision: str) -> bytes:
    asked = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return _git(folder, *asked)
    except RevisionError as problem:
        # Git's words for it are "fatal: Needed a single revision".
        if _NO_SUCH not in str(problem):
            raise
        raise RevisionError(f"no such revision: {one_line(revision)}") from None


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    try:
        # The revision is one argument of a list: no shell ever reads it.
        told = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    except OSError:
        raise RevisionError("git is needed for --base, and is not installed") from None
    if told.returncode != 0:
        reason = told.stderr.decode(errors="replace").strip().splitlines()
        raise RevisionError(f"git: {reason[-1] if reason else 'failed'}")
    return told.stdout
