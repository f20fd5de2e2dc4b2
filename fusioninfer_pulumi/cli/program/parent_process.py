"""Runs a project's program in a child process, and reads the messages that it sends."""

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
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.cli.program.project_files import load_project
from fusioninfer_pulumi.cli.program.recording import Recording, mask_secrets
from fusioninfer_pulumi.findings import InvalidServiceError, Rule, error, filter_errors

PROGRAM_ENDED = Rule("program-ended")

#: Forking is fast but unsafe while threads run, and system libraries of macOS may start threads.
_START_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: After the timeout, a program has this long to print the stacks of its threads.
_GRACE_SECONDS = 1.0
_POLL_SECONDS = 0.05


def run_program(
    directory: Path,
    stack: str | None = None,
    *,
    show_secrets: bool = False,
    timeout: float = 300,
) -> Recording:
    """Run a project's program as `pulumi preview` of a new stack would, without its engine.

    The program runs in a separate process, so a crash or an endless loop is an error like any
    other. Its output goes to standard error after its end; secret values are masked.

    Args:
        directory: The directory with `Pulumi.yaml`.
        stack: The stack whose configuration is used; by default the project's only stack, or `dev`
            if there is none or several.
        show_secrets: Whether secret values are in the recording and in the program's output.
            Encrypted configuration is always `<secret>`, because only the stack's key decrypts it.
        timeout: Seconds after which the program is killed.

    Raises:
        InvalidServiceError: The project is invalid, the stack does not exist, or the program
            failed; the last finding then has the stack frames in the user's files, outermost first.
    """
    project = load_project(directory, stack)
    # Imported before the fork, so that several programs share the loaded SDK.
    child = importlib.import_module("fusioninfer_pulumi.cli.program.child_process")
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        # A Connection passes a file descriptor to the child with either start method.
        files = [Connection(os.dup(file.fileno())) for file in (output, messages)]
        main = partial(child.main, files, project, timeout, show_secrets=show_secrets)
        try:
            status = _run_child(main, timeout)
        finally:  # after Ctrl+C, the output is also printed
            received = []
            messages.seek(0)
            # The last message may be incomplete.
            with contextlib.suppress(EOFError, pickle.UnpicklingError):
                while True:
                    received.append(pickle.load(messages))  # noqa: S301  # our own process
            # The child sends each secret as soon as it is known (none with `show_secrets`).
            secrets = [message for message in received if isinstance(message, str)]
            output.seek(0)
            if text := mask_secrets(output.read().decode("utf-8", "replace"), secrets):
                sys.stderr.write(text.removesuffix("\n") + "\n")
                sys.stderr.flush()

    recordings = [message for message in received if isinstance(message, Recording)]
    if status is None or not recordings:
        if status is None:
            message = (
                f"the program did not end within {timeout:g} s (raise --timeout to allow more); "
                "the lines above are the stacks of its threads"
            )
        else:
            message = (
                f"the program ended with exit status {status}: it crashed, called os._exit, or was "
                "killed, for example because memory ran out"
            )
        recordings = [Recording((error(PROGRAM_ENDED, (), message),))]
    findings = tuple(
        replace(finding, message=mask_secrets(finding.message, secrets))
        for finding in (*project.findings, *recordings[0].findings)
    )
    if filter_errors(findings):
        raise InvalidServiceError(findings)
    return recordings[0]._replace(findings=findings, encrypted=project.encrypted)


def _run_child(main: Callable[[], None], timeout: float) -> int | None:
    """Run the child process and return its exit status; return None if it did not end in time.

    Afterwards neither the child process nor any process that the program started is running.
    """
    context: Any = multiprocessing.get_context(_START_METHOD)
    process = context.Process(target=main)
    process.start()
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    try:
        while process.exitcode is None and time.monotonic() < deadline:
            # `join` also waits for processes that the program forked, so its timeout is short.
            process.join(_POLL_SECONDS)
        status: int | None = process.exitcode
        return status
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the processes that the program started
        process.join()
