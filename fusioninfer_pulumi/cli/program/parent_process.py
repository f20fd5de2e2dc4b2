"""Runs a project's program in a child process, and reads the messages that it leaves."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from fusioninfer_pulumi.cli.program.project_files import load_project
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_ENDED,
    Recording,
    mask_secrets,
    remove_marks,
)
from fusioninfer_pulumi.findings import InvalidServiceError, error

#: Default timeout of a program, in seconds.
TIMEOUT_SECONDS = 300.0
#: Forking is fast, but only safe in a process without threads, which other systems start.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: After the timeout, a program has this long to print the stacks of its threads.
_GRACE_SECONDS = 1.0
_POLL_SECONDS = 0.05


def run_program(
    folder: Path,
    stack: str | None = None,
    *,
    show_secrets: bool = False,
    keep_marks: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> Recording:
    """Run a project's program as the first `pulumi preview` would, without engine and cluster.

    The program runs in a separate process, so a crash or an endless loop is an error like any
    other. Its output goes to standard error after its end, with secret values masked.

    Args:
        folder: The folder with `Pulumi.yaml`.
        stack: The stack whose configuration is used; by default the only stack, otherwise `dev`.
        show_secrets: Whether secret values are in the recording and in the program's output.
            Encrypted configuration is always `<secret>`, because only the stack's key decrypts it.
        keep_marks: Whether secrets in objects stay marked (see `mark_secret`), so that they can be
            compared.
        timeout: Seconds after which the program is killed.

    Raises:
        InvalidServiceError: The project is invalid, the stack does not exist, or the program
            failed; the last finding then has the stack frames in the user's files, outermost first.
    """
    project = load_project(folder, stack)
    # Imported before the fork, so that several programs share the loaded SDK.
    child = importlib.import_module("fusioninfer_pulumi.cli.program.child_process")
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        files = [Connection(os.dup(file.fileno())) for file in (output, messages)]
        main = partial(child.main, *files, project, timeout, show_secrets=show_secrets)
        try:
            status = _run_child(main, timeout)
        finally:
            received = list(_read_messages(messages))
            # Each secret is a message of its own, because the child may end before it has a result.
            secrets = [message for message in received if isinstance(message, str)]
            output.seek(0)
            if text := mask_secrets(output.read().decode("utf-8", "replace"), secrets):
                sys.stderr.write(text.removesuffix("\n") + "\n")
                sys.stderr.flush()
    results = [message for message in received if not isinstance(message, str)]
    if status is None or not results:
        results = [(error(PROGRAM_ENDED, (), _explain_end(status, timeout)),)]
    result = results[0]
    if not isinstance(result, Recording):
        raise InvalidServiceError([*project.findings, *result])
    return result._replace(
        objects=result.objects if keep_marks else remove_marks(result.objects),
        findings=(*project.findings, *result.findings),
    )


def _run_child(main: Callable[[], None], timeout: float) -> int | None:
    """Run the child process, and return its exit status, None if it did not end in time.

    Afterwards neither the process nor any process that it started is running.
    """
    context: Any = multiprocessing.get_context(_METHOD)
    process = context.Process(target=main)
    process.start()
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    try:
        while process.exitcode is None and time.monotonic() < deadline:
            # `join` also waits for processes that it forked, so it gets a short timeout.
            process.join(_POLL_SECONDS)
        status: int | None = process.exitcode
        return status
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the processes that it started
        process.join()


def _read_messages(file: IO[bytes]) -> Iterator[Any]:
    """Yield the messages of the child process: texts of secrets, and a recording or errors."""
    file.seek(0)
    with contextlib.suppress(EOFError, pickle.UnpicklingError):  # the last one may be incomplete
        while True:
            yield pickle.load(file)  # noqa: S301  # our own process


def _explain_end(status: int | None, timeout: float) -> str:
    if status is None:
        return (
            f"the program did not end within {timeout:g} s (raise --timeout to allow more); "
            "the lines above are the stacks of its threads"
        )
    if status == -signal.SIGKILL:
        return "the program was killed (SIGKILL), probably because the system ran out of memory"
    return f"the program ended with exit status {status}: it crashed or called os._exit"
