"""Says why a program failed: its own message, and only the lines of its own files."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from pulumi.errors import RunError

from fusioninfer_pulumi.cli.program.isolate import is_users
from fusioninfer_pulumi.cli.program.records import ProgramError

_MAX_FRAMES = 8
_SERIALISING = "While processing resource: "


class ExitError(Exception):
    """The program called `sys.exit` with a failure."""


def exit_error(problem: SystemExit) -> ExitError | None:
    """What a `sys.exit` means: nothing for a status of zero, else a failure."""
    if not problem.code:
        return None
    if isinstance(problem.code, int):
        text = f"the program called sys.exit({problem.code})"
    else:
        text = f"SystemExit: {problem.code}"
    return ExitError(text)


def program_error(problem: BaseException, root: Path) -> ProgramError:
    """Describes what a program raised.

    Args:
        problem: The exception; one of the user's own keeps all lines of its message.
        root: The project's folder; files in it are the user's own.
    """
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        return ProgramError(": ".join(line.strip() for line in str(problem).splitlines()))
    frames = tuple(_frames(problem, root))[-_MAX_FRAMES:]
    if isinstance(problem, ExitError):
        return ProgramError(str(problem), frames=frames)
    if isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_shown(problem.filename, root)}:{problem.lineno}"
        return ProgramError(f"{type(problem).__name__}: {problem.msg} ({place})", frames=frames)
    text = _text(problem)
    if str(problem).startswith(_SERIALISING):
        text = _serialising(problem)
    if isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    return ProgramError(text, frames=frames)


def _text(problem: BaseException) -> str:
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
