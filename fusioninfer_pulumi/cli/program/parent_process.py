"""Runs the program of a project folder in a child process, and reads its messages."""

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
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.cli.program.project_files import (
    Project,
    StackConfig,
    load_project,
    read_stack_config,
)
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_ENDED,
    ProgramError,
    Recording,
    Secrets,
    masked,
    program_error,
)
from fusioninfer_pulumi.findings import Finding

#: Seconds that a program may take.
LIMIT = 300.0
#: Forking is quick, and safe without threads. Other systems than Linux start some.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: Seconds in which a program whose time is over prints where its threads are.
_GRACE = 1.0
#: Seconds between two checks whether a silent process still runs.
_POLL = 0.05


@dataclass(frozen=True)
class Request:
    """What the child process runs.

    Attributes:
        project: The project.
        config: The configuration of the stack.
        secrets: What replaces secret values in objects.
        limit: Seconds after which the program is ended.
        printed: Connection to the file for the output of the program and its child processes.
    """

    project: Project
    config: StackConfig
    secrets: Secrets
    limit: float
    printed: Connection


def run_program(
    folder: Path,
    stack: str | None = None,
    secrets: Secrets = Secrets.MASKED,
    limit: float = LIMIT,
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The program runs in a separate process, so programs can be run one after another, and one that
    ends its process or never returns is an error like any other. What it prints goes to standard
    error once it has ended, without secret values.

    Args:
        folder: The folder that holds `Pulumi.yaml`.
        stack: The stack whose configuration is used; without one, the only stack there is, else
            `dev`.
        secrets: What replaces secret values. Encrypted configuration reads `<secret>`
            in any case: only the stack's key could open it.
        limit: Seconds after which a program that has not ended is ended.

    Returns:
        The Kubernetes objects, the InferenceService components, and the warnings.

    Raises:
        ProgramError: The project cannot be read, the stack does not exist, or the program failed.
    """
    project = load_project(folder)
    config = read_stack_config(project, stack)
    # Imported before the fork: several programs share the loaded SDK.
    child = importlib.import_module("fusioninfer_pulumi.cli.program.child_process")
    hidden: set[str] = set()
    with tempfile.TemporaryFile(prefix="fusioninfer-pulumi-") as printed:
        request = Request(project, config, secrets, limit, Connection(os.dup(printed.fileno())))
        try:
            outcome = _outcome(child.main, request, hidden)
        except ProgramError as problem:
            outcome = problem.findings
        finally:
            if secrets is Secrets.SHOWN:
                hidden.clear()
            printed.seek(0)
            if text := masked(printed.read().decode("utf-8", "replace"), hidden):
                sys.stderr.write(text.removesuffix("\n") + "\n")
                sys.stderr.flush()
    if not isinstance(outcome, Recording):
        raise ProgramError(*config.findings, *_masked(outcome, hidden))
    services = (
        replace(item, plan=replace(item.plan, findings=_masked(item.plan.findings, hidden)))
        for item in outcome.services
    )
    findings = (*config.findings, *_masked(outcome.findings, hidden))
    return replace(outcome, services=tuple(services), findings=findings)


def _masked(findings: Iterable[Finding], hidden: Iterable[str]) -> tuple[Finding, ...]:
    return tuple(replace(finding, message=masked(finding.message, hidden)) for finding in findings)


def _outcome(main: Any, request: Request, hidden: set[str]) -> Any:
    """Runs the child process; the recording that it sends, or a tuple of errors.

    Secret values are added to `hidden` as they come.
    """
    context: Any = multiprocessing.get_context(_METHOD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=main, args=(sender, request))
    with warnings.catch_warnings():
        # Python warns of threads, of which a test runner has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    outcome: Any = None
    deadline = time.monotonic() + request.limit + _GRACE
    try:
        while (left := deadline - time.monotonic()) > 0:
            ended = process.exitcode is not None
            if receiver.poll(_POLL):
                try:
                    message = pickle.loads(receiver.recv_bytes())  # noqa: S301  # our own process
                except (EOFError, OSError):
                    process.join(left)
                    break
                if isinstance(message, str):
                    hidden.add(message)
                else:
                    outcome = message
            elif ended:
                break  # its own child processes may keep the connection open
        if outcome is None or process.exitcode is None:
            raise program_error(PROGRAM_ENDED, _how_it_ended(process.exitcode, request.limit))
        return outcome
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # and what it started
        process.join()
        receiver.close()


def _how_it_ended(status: int | None, limit: float) -> str:
    if status is None:
        return (
            f"the program did not end within {limit:g} s (raise --timeout to allow more); "
            "the lines above show where each of its threads is"
        )
    if status == -signal.SIGKILL:
        return "the program was killed (SIGKILL), as the system does when memory runs out"
    how = "it called os._exit"
    if status:
        how = "it crashed, called os._exit, or closed all file descriptors (os.closerange)"
    return f"the program terminated its process with status {status}: {how}"
