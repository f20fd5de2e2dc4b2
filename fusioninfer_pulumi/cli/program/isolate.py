"""Gives a program the process that it expects, and puts everything back when it is done."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

#: Modules that the SDK and this library hold on to; a second copy would not fit the first.
_SHARED = frozenset({"fusioninfer_pulumi", "google", "grpc", "pulumi", "pulumi_kubernetes"})


@contextlib.contextmanager
def isolated(root: Path, program: Path) -> Iterator[None]:
    """Runs the body as the language host would run the program.

    The working directory and the first place to import from are the program's folder. What the
    body prints, and what its child processes print, goes to standard error.

    Args:
        root: The project's folder.
        program: The file that the body runs.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_restored_process())
        stack.enter_context(_own_modules(root, program.parent))
        stack.enter_context(_stdout_to_stderr())
        stack.enter_context(warnings.catch_warnings())
        os.chdir(program.parent)
        sys.path.insert(0, str(program.parent))
        sys.argv = [str(program)]
        yield


@contextlib.contextmanager
def _restored_process() -> Iterator[None]:
    folder, path, argv, environ = Path.cwd(), sys.path[:], sys.argv, dict(os.environ)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    tasks = logging.getLogger("asyncio")
    tasks_level = tasks.level
    # Pulumi programs leave futures behind when they fail; the language host silences this too.
    tasks.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        os.chdir(folder)
        sys.path[:] = path
        sys.argv = argv
        if dict(os.environ) != environ:
            os.environ.clear()
            os.environ.update(environ)
        root.handlers[:] = handlers
        root.setLevel(level)
        tasks.setLevel(tasks_level)


@contextlib.contextmanager
def _own_modules(root: Path, folder: Path) -> Iterator[None]:
    """Lets the program import its own modules, and forgets them afterwards.

    A module of the same name from elsewhere is hidden meanwhile. The program's own are those of its
    folder, those linked into it, and those of other folders that it put on the path: of two
    revisions, each has its own. Modules of installed packages stay loaded: many do not survive a
    second import.
    """
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    hidden = _hidden(folder)
    for name in hidden:
        del sys.modules[name]
    before, cached = set(sys.modules), set(sys.path_importer_cache)
    kept = {name.partition(".")[0] for name in before} | _SHARED
    installed = [Path(place).absolute() for place in sys.path]
    try:
        yield
    finally:
        for name in set(sys.modules) - before:
            module = sys.modules[name]
            own = _is_inside(module, root) or _is_elsewhere(module, folder, installed)
            if own and name.partition(".")[0] not in kept:
                del sys.modules[name]
        sys.modules.update(hidden)
        for path in set(sys.path_importer_cache) - cached:
            del sys.path_importer_cache[path]


def _hidden(folder: Path) -> dict[str, ModuleType]:
    """Loaded modules whose names the program uses for its own."""
    own = {path.stem for path in folder.glob("*.py")}
    own |= {path.parent.name for path in folder.glob("*/__init__.py")}
    own -= _SHARED | sys.stdlib_module_names | {"__main__"}
    taken = {
        name for name in own if name in sys.modules and not _is_inside(sys.modules[name], folder)
    }
    return {
        name: module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in taken
    }


def is_users(file: str, root: Path) -> bool:
    """Tells whether a source file is the user's own, not that of a package installed there."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return False
    try:
        parts = Path(file).resolve().relative_to(root).parts
    except (OSError, ValueError):
        return False
    return "site-packages" not in parts


def _is_inside(module: ModuleType, root: Path) -> bool:
    return any(is_users(place, root) for place in _places(module))


def _is_elsewhere(module: ModuleType, folder: Path, installed: Sequence[Path]) -> bool:
    """Tells whether a module was found in the folder, or where nothing looked before the run."""
    return any(
        "site-packages" not in Path(place).parts
        and (
            Path(place).is_relative_to(folder)
            or not any(Path(place).is_relative_to(known) for known in installed)
        )
        for place in _places(module)
    )


def _places(module: ModuleType) -> list[str]:
    file = getattr(module, "__file__", None)
    return [file] if file else list(getattr(module, "__path__", []))


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
