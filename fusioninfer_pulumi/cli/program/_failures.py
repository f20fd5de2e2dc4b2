"""Says why a program failed, in the child process."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import CoroutineType, FrameType
from typing import Any

from fusioninfer_pulumi.cli.program._rules import PROGRAM_FAILED
from fusioninfer_pulumi.cli.program.recording import ProgramError, refused
from fusioninfer_pulumi.findings import InvalidServiceError, error

_MAX_FRAMES = 8
_MAX_LINES = 50
#: How the SDK's error about a value that is no property begins.
_SERIALISING = "While processing resource: "

#: File, line and function of a stack frame.
Place = tuple[str, int, str]


class ExitError(Exception):
    """The program called `sys.exit` with a failure."""

    def __init__(self, exit_: SystemExit) -> None:
        code = exit_.code
        called = f"the program called sys.exit({code})"
        super().__init__(called if isinstance(code, int) else f"SystemExit: {text_of(code)}")


@contextlib.contextmanager
def failing_exits() -> Iterator[None]:
    """Turns a `sys.exit` with a failure into an ExitError, which the SDK does not let through."""
    try:
        yield
    except SystemExit as exit_:
        if not exit_.code:
            raise
        raise ExitError(exit_) from exit_


def text_of(value: object) -> str:
    """The text of a value of the program's, which may fail to say it."""
    try:
        return str(value)
    except Exception as problem:  # noqa: BLE001  # code of the program's own
        return f"its text cannot be read ({type(problem).__name__})"


def failure(problem: BaseException, root: Path) -> ProgramError:
    """Says what a program raised; an exception of the user's own keeps the lines of its message."""
    from pulumi.errors import RunError

    if isinstance(problem, ProgramError):
        return problem
    message = text_of(problem)
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        text = ": ".join(line.strip() for line in message.splitlines())
        return refused(PROGRAM_FAILED, text or "failed")
    frames = _frames(problem, root)
    text = _named(problem)
    if isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_shown(problem.filename, root)}:{problem.lineno}"
        text = f"{type(problem).__name__}: {problem.msg} ({place})"
    elif message.startswith(_SERIALISING):
        text = _serialising(problem)
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    lines = [line for line in text.splitlines() if line]
    if isinstance(problem, InvalidServiceError) and len(problem.findings) == len(lines):
        findings = [
            replace(finding, location=(), converted=(), message=line)
            for finding, line in zip(problem.findings, lines, strict=True)
        ]
        return ProgramError(*findings, frames=frames)
    if len(lines) > _MAX_LINES:
        lines[_MAX_LINES:] = [f"and {len(lines) - _MAX_LINES} more lines"]
    return ProgramError(*(error(PROGRAM_FAILED, (), line) for line in lines), frames=frames)


def _named(problem: BaseException) -> str:
    """An exception's type and text."""
    message = text_of(problem)
    if isinstance(problem, ExitError):
        return message
    return f"{type(problem).__name__}: {message}" if message else type(problem).__name__


def _serialising(problem: BaseException) -> str:
    """What the SDK says about a value that is no property, without the values around it.

    Its own text prints the whole property, and with it all other values in there.
    """
    where = str(problem).splitlines()[0].removeprefix(_SERIALISING)
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return f"resource {where}: {_named(problem)}"


def _frames(problem: BaseException, root: Path) -> tuple[str, ...]:
    """Frames of the user's files; where a task lost them, those of the exception's cause."""
    seen: set[int] = set()
    current: BaseException | None = problem
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        places = places_of(current)
        if frames := user_frames(root, places):
            return frames
        current = current.__cause__ or current.__context__
    return ()


def places_of(problem: BaseException) -> list[Place]:
    """Where an exception was raised, outermost first."""
    frames = traceback.extract_tb(problem.__traceback__)
    return [(frame.filename, frame.lineno or 0, frame.name) for frame in frames]


def user_frames(root: Path, places: Sequence[Place]) -> tuple[str, ...]:
    """The last frames of the user's own files, without their text, which may hold a secret."""
    return tuple(
        f"{_shown(file, root)}:{line}" + ("" if name == "<module>" else f" in {name}")
        for file, line, name in places
        if _is_users(file, root)
    )[-_MAX_FRAMES:]


def _is_users(file: str, root: Path) -> bool:
    """Whether a source file is the user's own, not that of a package installed there."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return False
    try:
        parts = Path(file).resolve().relative_to(root).parts
    except (OSError, ValueError):
        return False
    return "site-packages" not in parts


def _shown(file: str, root: Path) -> str:
    return str(Path(file).resolve().relative_to(root)) if _is_users(file, root) else file


def waiting(loop: asyncio.AbstractEventLoop) -> Iterator[Place]:
    """Where all threads and the tasks of a loop are, outermost first."""
    threads = {thread.ident for thread in threading.enumerate() if not thread.daemon}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # its documented name
        if ident in threads:
            yield from reversed([_place(caller) for caller, _ in traceback.walk_stack(frame)])
    for task in asyncio.all_tasks(loop):
        coroutine: Any = task.get_coro()
        while isinstance(coroutine, CoroutineType):
            if coroutine.cr_frame is not None:
                yield _place(coroutine.cr_frame)
            coroutine = coroutine.cr_await


def _place(frame: FrameType) -> Place:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
