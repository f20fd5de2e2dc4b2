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
import warnings
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.cli.program.project_files import load_project, read_stack_config
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_ENDED,
    ProgramError,
    Recording,
    Secrets,
    mask_secrets,
)
from fusioninfer_pulumi.findings import Finding, error

#: Default timeout of a program, in seconds.
TIMEOUT_SECONDS = 300.0
#: Forking is fast, but only safe in a process without threads, which other systems start.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: After the timeout, a program has this long to print the stacks of its threads.
_GRACE_SECONDS = 1.0
#: While nothing is received, the parent checks this often whether the child process has exited.
_POLL_SECONDS = 0.05


def run_program(
    folder: Path,
    stack: str | None = None,
    secrets: Secrets = Secrets.MASKED,
    timeout: float = TIMEOUT_SECONDS,
) -> Recording:
    """Run a project's program as the first `pulumi preview` would, without engine and cluster.

    The program runs in a separate process, so a crash or an endless loop is an error like any
    other. Its output goes to standard error after its end, with secret values masked.

    Args:
        folder: The folder with `Pulumi.yaml`.
        stack: The stack whose configuration is used; by default the only stack, otherwise `dev`.
        secrets: What replaces secret values. Encrypted configuration is always `<secret>`, because
            only the stack's key can decrypt it.
        timeout: Seconds after which the program is killed.

    Returns:
        The Kubernetes objects, the InferenceService components, and the warnings.

    Raises:
        ProgramError: The project is invalid, the stack does not exist, or the program failed.
    """
    project = load_project(folder)
    config = read_stack_config(project, stack)
    # Imported before the fork, so that several programs share the loaded SDK.
    child = importlib.import_module("fusioninfer_pulumi.cli.program.child_process")
    secret_texts: set[str] = set()
    with tempfile.TemporaryFile(prefix="fusioninfer-pulumi-") as output:
        arguments = (Connection(os.dup(output.fileno())), project, config, secrets, timeout)
        try:
            result = _run_child(child.main, arguments, timeout, secret_texts)
        finally:
            output.seek(0)
            if text := mask_secrets(output.read().decode("utf-8", "replace"), secret_texts):
                sys.stderr.write(text.removesuffix("\n") + "\n")
                sys.stderr.flush()
    if not isinstance(result, Recording):
        raise ProgramError(*config.findings, *_mask_findings(result, secret_texts))
    services = []
    for service in result.services:
        masked = _mask_findings(service.plan.findings, secret_texts)
        services.append(service._replace(plan=replace(service.plan, findings=masked)))
    findings = (*config.findings, *_mask_findings(result.findings, secret_texts))
    return result._replace(services=tuple(services), findings=findings)


def _mask_findings(findings: Iterable[Finding], secrets: set[str]) -> tuple[Finding, ...]:
    return tuple(replace(item, message=mask_secrets(item.message, secrets)) for item in findings)


def _run_child(
    main: Any, arguments: tuple[Any, ...], timeout: float, secret_texts: set[str]
) -> Any:
    """Run the child process, and return the recording or the errors that it sends or causes.

    The secret values that it sends are added to `secret_texts`, even if it fails later.
    """
    context: Any = multiprocessing.get_context(_METHOD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=main, args=(sender, *arguments))
    with warnings.catch_warnings():
        # Python warns about forking a process with threads, such as a test runner.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    result: Any = None
    deadline = time.monotonic() + timeout + _GRACE_SECONDS
    try:
        while (seconds_left := deadline - time.monotonic()) > 0:
            has_exited = process.exitcode is not None
            if receiver.poll(_POLL_SECONDS):
                try:
                    message = pickle.loads(receiver.recv_bytes())  # noqa: S301  # our own process
                except (EOFError, OSError):
                    process.join(seconds_left)
                    break
                if isinstance(message, str):
                    secret_texts.add(message)
                else:
                    result = message
            elif has_exited:
                break  # processes that it started may keep the connection open
        if result is None or process.exitcode is None:
            return (error(PROGRAM_ENDED, (), _explain_end(process.exitcode, timeout)),)
        return result
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # the processes that it started
        process.join()
        receiver.close()


def _explain_end(status: int | None, timeout: float) -> str:
    if status is None:
        return (
            f"the program did not end within {timeout:g} s (raise --timeout to allow more); "
            "the lines above are the stacks of its threads"
        )
    if status == -signal.SIGKILL:
        return "the program was killed (SIGKILL), probably because the system ran out of memory"
    cause = "it called os._exit"
    if status:
        cause = "it crashed, called os._exit, or closed all file descriptors (os.closerange)"
    return f"the program ended with exit status {status}: {cause}"
