"""The process that runs a program, which may end, hang or print as it likes."""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from fusioninfer_pulumi.cli.program._failures import failure, user_frames, waiting
from fusioninfer_pulumi.cli.program._rules import PROGRAM_ENDED
from fusioninfer_pulumi.cli.program._session import record
from fusioninfer_pulumi.cli.program._wire import Channel, findings_to_json
from fusioninfer_pulumi.cli.program.project import Project, StackConfig
from fusioninfer_pulumi.cli.program.recording import ProgramError, Secrets, mark_with
from fusioninfer_pulumi.findings import error


@dataclass(frozen=True)
class Request:
    """What to run.

    Attributes:
        project: The project.
        config: The configuration of the stack.
        secrets: What stands in place of secret values in objects.
        key: The key of the marks of secret values.
        limit: Seconds after which the program is ended.
        printed: The file for what the program and its own child processes print.
    """

    project: Project
    config: StackConfig
    secrets: Secrets
    key: bytes
    limit: float
    printed: str


def main(connection: Connection, request: Request) -> None:
    """Runs the program and sends what it registers, or why it failed.

    Args:
        connection: Where messages go: see `_wire`.
        request: What to run.
    """
    os.setsid()  # the processes that the program starts are ended with it
    printed = os.open(request.printed, os.O_WRONLY | os.O_APPEND)
    Path(request.printed).unlink()  # it may hold secrets: nothing stays if the command is killed
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.close(printed)
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    mark_with(request.key)
    channel, loop = Channel(connection), asyncio.new_event_loop()
    _end_in_time(channel, loop, request)
    _enter(request.project.program)
    try:
        recording = record(request.project, request.config, request.secrets, loop, channel.send)
    except BaseException as problem:  # noqa: BLE001  # GeneratorExit, too, is no end of a program
        _send_failure(channel, failure(problem, request.project.root))
    else:
        channel.send(recording=recording)


def _send_failure(channel: Channel, problem: ProgramError) -> None:
    channel.send(findings=findings_to_json(problem.findings))


def _end_in_time(channel: Channel, loop: asyncio.AbstractEventLoop, request: Request) -> None:
    def give_up() -> None:
        text = f"the program did not end within {request.limit:g} s; it waits here"
        finding = error(PROGRAM_ENDED, (), f"{text} (--timeout allows more):")
        frames = user_frames(request.project.root, list(waiting(loop)))
        _send_failure(channel, ProgramError(finding, frames=frames))
        os._exit(1)

    timer = threading.Timer(request.limit, give_up)
    timer.daemon = True
    timer.start()


def _enter(program: Path) -> None:
    """Makes the process one that the language host starts for the program.

    The working directory and the first place to import from are the program's folder.
    """
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program)]
