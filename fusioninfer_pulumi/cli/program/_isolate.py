"""Gives a program the process that it expects, and puts everything back when it is done."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

#: Modules that the SDK and this library hold on to; a second copy would not fit the first.
_SHARED = frozenset({"fusioninfer_pulumi", "google", "grpc", "pulumi", "pulumi_kubernetes"})


@contextlib.contextmanager
def isolated(root: Path, program: Path) -> Iterator[None]:
    """Runs the body as the language host would run the program.

    The working directory and the first place to import from are the program's folder. What the
    body prints, and what its child processes print, goes to standard error.
    """
    with (
        _restored_process(),
        _own_modules(root, program.parent),
        _stdout_to_stderr(),
        warnings.catch_warnings(),
    ):
        os.chdir(program.parent)
        sys.path.insert(0, str(program.parent))
        sys.argv = [str(program)]
        yield


def is_users(file: str, root: Path) -> bool:
    """Tells whether a source file is the user's own, not that of a package installed there."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return False
    try:
        parts = Path(file).resolve().relative_to(root).parts
    except (OSError, ValueError):
        return False
    return "site-packages" not in parts


@contextlib.contextmanager
def _restored_process() -> Iterator[None]:
    folder, path, argv, environ = Path.cwd(), sys.path[:], sys.argv, dict(os.environ)
    log = logging.getLogger()
    handlers, level = log.handlers[:], log.level
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path[:] = path
        sys.argv = argv
        if dict(os.environ) != environ:
            os.environ.clear()
            os.environ.update(environ)
        log.handlers[:] = handlers
        log.setLevel(level)


@contextlib.contextmanager
def _own_modules(root: Path, folder: Path) -> Iterator[None]:
    """Lets the program import its own modules, and forgets them afterwards.

    Loaded modules of the same names are hidden meanwhile. The program's own are those of its
    project, those linked into it, and those of other folders that it put on the path: of two
    revisions, each has its own. Modules of installed packages stay loaded: many do not survive a
    second import.
    """
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    names = {path.stem for path in folder.glob("*.py")}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    names -= _SHARED | sys.stdlib_module_names | {"__main__"}
    hidden = {name: sys.modules[name] for name in list(sys.modules) if _package(name) in names}
    for name in hidden:
        del sys.modules[name]
    before, cached = set(sys.modules), set(sys.path_importer_cache)
    kept = {_package(name) for name in before} | _SHARED
    installed = [Path(place).absolute() for place in sys.path]

    def is_own(module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        places = [Path(place) for place in ([file] if file else getattr(module, "__path__", []))]
        return any(
            "site-packages" not in place.parts
            and (
                any(place.is_relative_to(own) for own in (root, folder))
                or not any(place.is_relative_to(known) for known in installed)
            )
            for place in places
        )

    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            if _package(name) not in kept and is_own(sys.modules[name]):
                del sys.modules[name]
        sys.modules.update(hidden)
        for path in set(sys.path_importer_cache) - cached:
            del sys.path_importer_cache[path]


def _package(module: str) -> str:
    return module.partition(".")[0]


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirects standard output, for Python code and for child processes alike."""
    stdout = sys.stdout
    stdout.flush()
    saved = None
    with contextlib.suppress(OSError):  # a process may run without these files
        saved = os.dup(1)
        os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        stdout.flush()
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)
