"""What a command is given: paths, read as texts."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from fusioninfer_pulumi.loading.file_set import NO_MANIFESTS, Text, manifest_files
from fusioninfer_pulumi.loading.yaml import MAX_BYTES, TOO_LARGE

STDIN = "<stdin>"
_PROJECT = ("Pulumi.yaml", "Pulumi.yml")


@dataclass
class Given:
    """One path of a command line.

    Attributes:
        name: The path; `-` is standard input.
        label: Its name in messages.
        texts: Its text; those of its files, where it is a folder.
        problems: Label and message of what cannot be read.
        project: Whether it is the folder of a Pulumi project, of which nothing is read here.
    """

    name: str
    label: str
    texts: list[Text] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    project: bool = False


def read_given(name: str) -> Given:
    """Reads one path; whatever is wrong with it is among its problems.

    Args:
        name: Path of a file, of a folder of manifests or of a Pulumi project; `-` is standard
            input.
    """
    given = Given(name, STDIN if name == "-" else name)
    try:
        if name != "-" and name and "\0" not in name and Path(name).is_dir():
            _read_folder(given, Path(name))
        else:
            _read_text(given, given.label, name, None)
    except OSError as problem:
        given.problems.append((given.label, f"cannot be read: {problem.strerror or problem}"))
    return given


def holds_nothing(name: str) -> bool:
    """Tells whether there is nothing to read at a path: no file, project or manifest.

    Args:
        name: As for `read_given`.
    """
    path = Path(name)
    if name in ("-", "") or "\0" in name or (os.path.lexists(path) and not path.is_dir()):
        return False
    try:
        return not path.is_dir() or not (_is_project(path) or manifest_files(path))
    except OSError:
        return False  # reading it tells why


def _is_project(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PROJECT)


def _read_folder(given: Given, folder: Path) -> None:
    if _is_project(folder):
        given.project = True
        return
    files = manifest_files(folder)
    if not files:
        given.problems.append((given.label, f"no Pulumi.yaml and {NO_MANIFESTS}"))
    for file in files:
        try:
            _read_text(given, str(file), str(file), given.label)
        except OSError as problem:
            given.problems.append((str(file), f"cannot be read: {problem.strerror or problem}"))


def _read_text(given: Given, label: str, name: str, folder: str | None) -> None:
    data = _bytes(name)
    if len(data) > MAX_BYTES:
        given.problems.append((label, TOO_LARGE))
        return
    try:
        given.texts.append(Text(label, data.decode("utf-8-sig"), folder))
    except UnicodeDecodeError:
        given.problems.append((label, "not YAML: not UTF-8 text"))


def _bytes(name: str) -> bytes:
    """At most one byte more than a manifest may have: the input may be a device without an end."""
    if name == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        data: bytes = sys.stdin.buffer.read(MAX_BYTES + 1)
        return data
    if not name or "\0" in name:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    with Path(name).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)
