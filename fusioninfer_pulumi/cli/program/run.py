"""Runs the program of a project folder, and says why one failed."""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fusioninfer_pulumi.cli.program._isolate import is_users, isolated
from fusioninfer_pulumi.cli.program._recording import (
    ExitError,
    ProgramError,
    Recording,
    Secrets,
    refused,
)
from fusioninfer_pulumi.cli.program.project import Project, load_project, stack_config
from fusioninfer_pulumi.findings import InvalidServiceError, error

_MAX_FRAMES = 8
_FAILED = "program-failed"
#: Text with which the SDK starts what it says about a value that is no property.
_SERIALISING = "While processing resource: "
#: Parts of the SDK that it imports itself and few programs use.
_RARE = frozenset({"grpc.aio", "pulumi.automation", "pulumi.dynamic"})


def run_program(
    folder: Path, stack: str | None = None, secrets: Secrets = Secrets.MASKED
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The process is as before when this returns, so programs can be run one after another; programs
    of several threads wait for each other, because a process has one working directory.

    Args:
        folder: The folder that holds `Pulumi.yaml`.
        stack: The stack whose configuration is used; without one, the only stack there is, else
            `dev`.
        secrets: What stands in place of secret values. Encrypted configuration reads `<secret>`
            in any case: only the stack's key could open it.

    Returns:
        The Kubernetes objects, the plans of InferenceService components, and the warnings.

    Raises:
        ProgramError: The folder is no Python project, the stack does not exist, or the program
            failed.
    """
    project = load_project(folder)
    config = stack_config(project, stack)
    # Only now: the command line must not import pulumi before it needs it.
    with _importing_the_sdk():
        from fusioninfer_pulumi.cli.program._session import ONE_AT_A_TIME, record

    with ONE_AT_A_TIME, isolated(project.root, project.program):
        try:
            return record(project, config, secrets)
        except Exception as problem:
            raise _failure(problem, project) from problem


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


def _failure(problem: Exception, project: Project) -> ProgramError:
    """Says what a program raised; an exception of the user's own keeps all lines of its message."""
    from pulumi.errors import RunError

    if isinstance(problem, ProgramError):
        return problem
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        text = ": ".join(line.strip() for line in str(problem).splitlines())
        return refused(_FAILED, text or "failed")
    root = project.root
    frames = tuple(_frames(problem, root))[-_MAX_FRAMES:]
    text = _text(problem)
    if isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_shown(problem.filename, root)}:{problem.lineno}"
        text = f"{type(problem).__name__}: {problem.msg} ({place})"
    elif str(problem).startswith(_SERIALISING):
        text = _serialising(problem)
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    lines = [line for line in text.splitlines() if line]
    rules = [_FAILED] * len(lines)
    if isinstance(problem, InvalidServiceError) and len(problem.findings) == len(lines):
        rules = [finding.rule for finding in problem.findings]
    findings = [error(rule, (), line) for rule, line in zip(rules, lines, strict=True)]
    return ProgramError(*findings, frames=frames)


def _text(problem: BaseException) -> str:
    if isinstance(problem, ExitError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__


def _serialising(problem: BaseException) -> str:
    """What the SDK says about a value that is no property, without the values around it.

    Its own text prints the whole property, and with it whatever else stands in there.
    """
    where = str(problem).splitlines()[0].removeprefix(_SERIALISING)
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return f"resource {where}: {_text(problem)}"


def _frames(problem: BaseException, root: Path) -> Iterator[str]:
    """Frames of the user's files; where a task lost them, those of the exception's cause."""
    seen: set[int] = set()
    current: BaseException | None = problem
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        found = [
            frame
            for frame in traceback.extract_tb(current.__traceback__)
            if is_users(frame.filename, root)
        ]
        if found:
            for frame in found:
                name = "" if frame.name == "<module>" else f" in {frame.name}"
                line = f": {frame.line}" if frame.line else ""
                yield f"{_shown(frame.filename, root)}:{frame.lineno}{name}{line}"
            return
        current = current.__cause__ or current.__context__


def _shown(file: str, root: Path) -> str:
    return str(Path(file).resolve().relative_to(root)) if is_users(file, root) else file
