"""Runs the program of a project folder, and says why one failed."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fusioninfer_pulumi.cli.program._recording import (
    ExitError,
    ProgramError,
    Recording,
    Secrets,
    key,
    mark_with,
    refused,
)
from fusioninfer_pulumi.cli.program._rules import PROGRAM_FAILED
from fusioninfer_pulumi.cli.program.project import Project, StackConfig, load_project, stack_config
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, error

#: Seconds that a program may take.
LIMIT = 300.0
_MAX_FRAMES = 8
#: Text with which the SDK starts what it says about a value that is no property.
_SERIALISING = "While processing resource: "
#: Parts of the SDK that it imports itself and few programs use.
_RARE = frozenset({"grpc.aio", "pulumi.automation", "pulumi.dynamic"})


def run_program(
    folder: Path,
    stack: str | None = None,
    secrets: Secrets = Secrets.MASKED,
    limit: float = LIMIT,
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The program has a process of its own, so programs can be run one after another, and one that
    ends its process or never returns is an error like any other.

    Args:
        folder: The folder that holds `Pulumi.yaml`.
        stack: The stack whose configuration is used; without one, the only stack there is, else
            `dev`.
        secrets: What stands in place of secret values. Encrypted configuration reads `<secret>`
            in any case: only the stack's key could open it.
        limit: Seconds after which a program that has not ended is ended.

    Returns:
        The Kubernetes objects, the plans of InferenceService components, and the warnings.

    Raises:
        ProgramError: The folder is no Python project, the stack does not exist, or the program
            failed.
    """
    from fusioninfer_pulumi.cli.program._child import call

    project = load_project(folder)
    config = stack_config(project, stack)
    # Here, so that several programs share what is loaded; and not before it is needed.
    with _importing_the_sdk():
        importlib.import_module("fusioninfer_pulumi.cli.program._session")

    frames = functools.partial(_written, project.root)
    waiting = f"{folder}: running the program"
    return call(
        _record, project, config, secrets, key(), limit=limit, frames=frames, waiting=waiting
    )


def _record(project: Project, config: StackConfig, secrets: Secrets, marking: bytes) -> Recording:
    """Runs the program in this process, which is good for nothing else afterwards."""
    from fusioninfer_pulumi.cli.program._confidential import Confidential, HidingStream
    from fusioninfer_pulumi.cli.program._session import record

    mark_with(marking)
    confidential = Confidential()
    hide = _as_it_is if secrets is Secrets.SHOWN else confidential.hide
    if hide is not _as_it_is:
        sys.stdout = sys.stderr = HidingStream(sys.stderr, confidential)
    _enter(project.program)
    try:
        found = record(project, config, secrets, confidential)
    except BaseException as problem:  # noqa: BLE001  # GeneratorExit, too, is no end of a program
        raise ProgramError(*_hidden(_failure(problem, project).findings, hide)) from None
    return replace(found, findings=_hidden(found.findings, hide))


def _as_it_is(text: str) -> str:
    return text


def _hidden(findings: Sequence[Finding], hide: Callable[[str], str]) -> tuple[Finding, ...]:
    return tuple(replace(each, message=hide(each.message)) for each in findings)


def _enter(program: Path) -> None:
    """Makes the process one that the language host starts for the program.

    The working directory and the first place to import from are the program's folder.
    """
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program)]


def _is_users(file: str, root: Path) -> bool:
    """Whether a source file is the user's own, not that of a package installed there."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return False
    try:
        parts = Path(file).resolve().relative_to(root).parts
    except (OSError, ValueError):
        return False
    return "site-packages" not in parts


class _OnFirstUse:
    """Finds rare parts of the SDK and has them loaded when they are used first."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, _target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name in _RARE else None
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextmanager
def _importing_the_sdk() -> Iterator[None]:
    """Halves the time that the imports in its body take.

    Rare parts of the SDK wait for their first use. What is loaded stays loaded: collecting garbage
    among it, again and again, costs more than it frees.
    """
    if "pulumi" in sys.modules:
        yield
        return
    collects = gc.isenabled()
    gc.disable()
    sys.meta_path.insert(0, _OnFirstUse)
    try:
        yield
    finally:
        sys.meta_path.remove(_OnFirstUse)
        gc.freeze()
        if collects:
            gc.enable()


def _failure(problem: BaseException, project: Project) -> ProgramError:
    """Says what a program raised; an exception of the user's own keeps all lines of its message."""
    from pulumi.errors import RunError

    if isinstance(problem, ProgramError):
        return problem
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        text = ": ".join(line.strip() for line in str(problem).splitlines())
        return refused(PROGRAM_FAILED, text or "failed")
    root = project.root
    frames = _frames(problem, root)
    text = _text(problem)
    if isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_shown(problem.filename, root)}:{problem.lineno}"
        text = f"{type(problem).__name__}: {problem.msg} ({place})"
    elif str(problem).startswith(_SERIALISING):
        text = _serialising(problem)
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    lines = [line for line in text.splitlines() if line]
    findings = [error(PROGRAM_FAILED, (), line) for line in lines]
    if isinstance(problem, InvalidServiceError) and len(problem.findings) == len(lines):
        findings = [
            replace(finding, location=(), converted=(), message=line)
            for finding, line in zip(problem.findings, lines, strict=True)
        ]
    return ProgramError(*findings, frames=frames)


def _text(problem: BaseException) -> str:
    if isinstance(problem, ExitError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__


def _serialising(problem: BaseException) -> str:
    """What the SDK says about a value that is no property, without the values around it.

    Its own text prints the whole property, and with it all other values in there.
    """
    where = str(problem).splitlines()[0].removeprefix(_SERIALISING)
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return f"resource {where}: {_text(problem)}"


def _frames(problem: BaseException, root: Path) -> tuple[str, ...]:
    """Frames of the user's files; where a task lost them, those of the exception's cause."""
    seen: set[int] = set()
    current: BaseException | None = problem
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.extract_tb(current.__traceback__)
        found = _written(root, [(each.filename, each.lineno or 0, each.name) for each in frames])
        if found:
            return found
        current = current.__cause__ or current.__context__
    return ()


def _written(root: Path, frames: Sequence[tuple[str, int, str]]) -> tuple[str, ...]:
    """The last frames of the user's own files, without their text, which may hold a secret."""
    return tuple(
        f"{_shown(file, root)}:{line}" + ("" if name == "<module>" else f" in {name}")
        for file, line, name in frames
        if _is_users(file, root)
    )[-_MAX_FRAMES:]


def _shown(file: str, root: Path) -> str:
    return str(Path(file).resolve().relative_to(root)) if _is_users(file, root) else file
