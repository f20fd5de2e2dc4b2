"""Runs a function in a process of its own, which may end, hang or print as it likes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from types import CoroutineType, FrameType
from typing import Any, TypeVar

from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.cli.program._recording import ProgramError, refused
from fusioninfer_pulumi.cli.program._rules import PROGRAM_ENDED
from fusioninfer_pulumi.findings import error
from fusioninfer_pulumi.kube.outputs import is_output

T = TypeVar("T")
#: Forking is quick, and safe while the process has no threads; elsewhere systems start some.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: Seconds for saying what a program was waiting for, before it is killed.
_GRACE = 3.0

Frames = Callable[[list[tuple[str, int, str]]], tuple[str, ...]]


def call(
    function: Callable[..., T], *arguments: Any, limit: float, frames: Frames, waiting: str
) -> T:
    """Calls a function in a child process and returns its result.

    What it prints goes to standard error. Outputs in the result are replaced by stand-ins: who
    reads it recognises them as Outputs, and needs no Pulumi.

    Args:
        function: The function; it, its arguments and its result can be pickled.
        *arguments: Its arguments.
        limit: Seconds after which the process is ended.
        frames: Chooses and writes stack frames of file, line and function.
        waiting: What a person at a terminal reads while it takes long.

    Raises:
        ProgramError: The function raised it, ended the process, or did not end in time.
    """
    context: Any = multiprocessing.get_context(_METHOD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_main, args=(sender, limit, frames, function, arguments))
    with warnings.catch_warnings():
        # Python warns of threads, of which a test runner has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        with working(waiting):
            answer = _received(receiver, process, limit + _GRACE)
    finally:
        process.kill()
        process.join()
        receiver.close()
    if answer is None:
        ended = process.exitcode
        if ended == -signal.SIGKILL:
            raise refused(PROGRAM_ENDED, f"the program did not end within {limit:g} s")
        how = "it crashed, or called os._exit" if ended else "it called os._exit"
        raise refused(PROGRAM_ENDED, f"the program ended its process with status {ended}: {how}")
    if isinstance(answer, ProgramError):
        raise answer
    result: T = answer
    return result


def _received(receiver: Connection, process: Any, limit: float) -> Any:
    """The last object that a process sends before it ends; None where it sends nothing."""
    answer = None
    while ready := wait([receiver, process.sentinel], timeout=limit):
        if receiver not in ready:
            break
        try:
            answer = _Unpickler(io.BytesIO(receiver.recv_bytes())).load()
        except EOFError:
            process.join(limit)
            break
    return answer


def _main(
    sender: Connection,
    limit: float,
    frames: Frames,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    """Calls the function in the child process, and sends what it returns or raises."""
    with contextlib.suppress(OSError):  # a process may run without these files
        os.dup2(2, 1)
    sys.stdout = sys.stderr

    def give_up() -> None:
        text = f"the program did not end within {limit:g} s; it waits here (--timeout allows more):"
        found = error(PROGRAM_ENDED, (), text)
        _send(sender, ProgramError(found, frames=frames(list(_waiting()))))
        os._exit(1)

    timer = threading.Timer(limit, give_up)
    timer.daemon = True
    timer.start()
    try:
        result = function(*arguments)
    except ProgramError as problem:
        result = problem
    _send(sender, result)


def _send(sender: Connection, value: Any) -> None:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    sender.send_bytes(buffer.getvalue())


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> int | None:
        """Marks Outputs, which belong to their process."""
        return id(value) if is_output(value) else None


#: By its name recognised as an Output.
_StandIn = type("Output", (), {"__module__": "pulumi.output"})


class _Unpickler(pickle.Unpickler):  # of what our own process has written
    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        self._outputs: dict[int, Any] = {}

    def persistent_load(self, key: int) -> Any:
        """One stand-in for each Output, which is equal to itself alone."""
        return self._outputs.setdefault(key, _StandIn())


def _waiting() -> Iterator[tuple[str, int, str]]:
    """File, line and function of where all threads and tasks are, outermost first."""
    threads = {thread.ident for thread in threading.enumerate() if not thread.daemon}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001  # its documented name
        if ident in threads:
            yield from reversed(list(_outwards(frame)))
    for task in _tasks():
        coroutine: Any = task.get_coro()
        while isinstance(coroutine, CoroutineType):
            if coroutine.cr_frame is not None:
                yield _place(coroutine.cr_frame)
            coroutine = coroutine.cr_await


def _tasks() -> list[asyncio.Task[Any]]:
    loops = [each for each in gc.get_objects() if isinstance(each, asyncio.AbstractEventLoop)]
    return [task for loop in loops for task in asyncio.all_tasks(loop)]


def _outwards(frame: FrameType | None) -> Iterator[tuple[str, int, str]]:
    while frame is not None:
        yield _place(frame)
        frame = frame.f_back


def _place(frame: FrameType) -> tuple[str, int, str]:
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
