"""Runs the program of a project folder in a child process, and reads its messages."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.cli.program._rules import PROGRAM_ENDED
from fusioninfer_pulumi.cli.program._text import harmless, masked
from fusioninfer_pulumi.cli.program._wire import SpecReader, findings_from_json
from fusioninfer_pulumi.cli.program.project import StackConfig, load_project, stack_config
from fusioninfer_pulumi.cli.program.recording import (
    ProgramError,
    ProgramService,
    Recorded,
    Recording,
    Secrets,
    key,
    refused,
)
from fusioninfer_pulumi.findings import Finding

#: Seconds that a program may take.
LIMIT = 300.0
#: Forking is quick, and safe without threads. Other systems than Linux start some.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: Seconds in which a program whose time is over reports where it waits.
_GRACE = 3.0
#: Seconds between two checks whether a silent process still runs.
_POLL = 0.05
#: Bytes that a program may print; a temporary file keeps them until it ends.
_MOST_PRINTED = 64 << 20


def run_program(
    folder: Path,
    stack: str | None = None,
    secrets: Secrets = Secrets.MASKED,
    limit: float = LIMIT,
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The program has a process of its own, so programs can be run one after another, and one that
    ends its process or never returns is an error like any other. What it prints goes to standard
    error once it has ended, without escape sequences, commands of CI runners and secret values.

    Args:
        folder: The folder that holds `Pulumi.yaml`.
        stack: The stack whose configuration is used; without one, the only stack there is, else
            `dev`.
        secrets: What stands in place of secret values. Encrypted configuration reads `<secret>`
            in any case: only the stack's key could open it.
        limit: Seconds after which a program that has not ended is ended.

    Returns:
        The Kubernetes objects, the InferenceService components, and the warnings.

    Raises:
        ProgramError: The folder is no Python project, the stack does not exist, or the program
            failed.
    """
    project = load_project(folder)
    config = stack_config(project, stack)
    # Imported before the fork: several programs share the loaded SDK.
    with _without_collecting():
        child = importlib.import_module("fusioninfer_pulumi.cli.program._child")
    descriptor, path = tempfile.mkstemp(prefix="fusioninfer-pulumi-")
    with os.fdopen(descriptor, "rb") as printed:
        request = child.Request(project, config, secrets, key(), limit, path)
        messages = _Messages(shown=secrets is Secrets.SHOWN)
        try:
            with working(f"{folder}: running the program"):
                status = _status(child, request, messages, printed)
        finally:
            Path(path).unlink(missing_ok=True)  # a child that crashed at its start left it there
            _print(messages.text(printed.read().decode("utf-8", "replace")))
    try:
        outcome = messages.recording(status, limit)
        with _in_folder(project.program.parent):  # paths in specs are relative to it
            return _recording(outcome, config, messages)
    except ProgramError as problem:
        raise ProgramError(*config.findings, *problem.findings) from None


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Imports without collecting garbage among what is loaded, which takes a fifth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def _print(text: str) -> None:
    if text:
        sys.stderr.write(text.removesuffix("\n") + "\n")
        sys.stderr.flush()


@dataclass
class _Messages:
    """What the child process sent.

    Attributes:
        shown: Whether secret values are shown.
        secrets: The secret values.
        last: The last message with a recording, or with what is wrong.
    """

    shown: bool
    secrets: set[str] = field(default_factory=set)
    last: dict[str, Any] = field(default_factory=dict)

    def add(self, message: dict[str, Any]) -> None:
        """Keeps a message."""
        if "secret" not in message:
            self.last = message
        elif not self.shown:
            self.secrets.add(message["secret"])

    def text(self, text: str) -> str:
        """A text without secrets, and without what a terminal or a CI job obeys."""
        return harmless(masked(text, self.secrets))

    def findings(self, values: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
        """Findings with such messages."""
        return tuple(
            replace(finding, message=self.text(finding.message))
            for finding in findings_from_json(values)
        )

    def recording(self, status: int | None, limit: float) -> Mapping[str, Any]:
        """The recording; raises ProgramError if there is none."""
        if status is None:
            text = f"the program did not end within {limit:g} s"
            raise refused(PROGRAM_ENDED, text)
        if not self.last:
            raise refused(PROGRAM_ENDED, _how_it_ended(status))
        if "findings" in self.last:
            raise ProgramError(*self.findings(self.last["findings"]))
        recording: dict[str, Any] = self.last["recording"]
        return recording


def _status(child: Any, request: Any, messages: _Messages, printed: BinaryIO) -> int | None:
    """Runs the child process; its exit status, None where it did not end in time."""
    context: Any = multiprocessing.get_context(_METHOD)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child.main, args=(sender, request))
    with warnings.catch_warnings():
        # Python warns of threads, of which a test runner has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        for message in _listen(process, receiver, request.limit):
            if os.fstat(printed.fileno()).st_size > _MOST_PRINTED:
                text = f"the program prints more than {_MOST_PRINTED >> 20} MiB"
                raise refused(PROGRAM_ENDED, text)
            if message:
                messages.add(message)
        status: int | None = process.exitcode
        return status
    finally:
        _end(process)
        process.join()
        receiver.close()


def _listen(process: Any, receiver: Connection, limit: float) -> Iterator[dict[str, Any]]:
    """Yields messages until the process ends or its time is over; an empty one now and then."""
    deadline = time.monotonic() + limit + _GRACE
    while (left := deadline - time.monotonic()) > 0:
        ended = process.exitcode is not None
        if receiver.poll(_POLL):
            try:
                yield json.loads(receiver.recv_bytes())
            except (EOFError, OSError):
                process.join(left)
                return
        elif ended:
            return  # what it started may hold the connection open
        else:
            yield {}


def _end(process: Any) -> None:
    """Ends a process and those that it started."""
    process.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _how_it_ended(status: int) -> str:
    if status == -signal.SIGKILL:
        return "the program was killed (SIGKILL), as the system does when memory runs out"
    how = "it crashed, or called os._exit" if status else "it called os._exit"
    return f"the program ended its process with status {status}: {how}"


def _recording(recording: Mapping[str, Any], config: StackConfig, messages: _Messages) -> Recording:
    specs = SpecReader()
    services = []
    for service in recording["services"]:
        args = InferenceServiceArgs.model_validate(specs.spec(service["spec"]))
        plan = plan_service(args, service["name"])
        # The component also knows what it collides with.
        plan = replace(plan, findings=messages.findings(service["findings"]))
        services.append(
            ProgramService(
                service["name"], service["file"], service["line"], service["provider"], plan
            )
        )
    return Recording(
        resources=tuple(Recorded(**resource) for resource in recording["resources"]),
        services=tuple(services),
        findings=(*config.findings, *messages.findings(recording["findings"])),
        encrypted=config.encrypted,
        left=recording["left"],
    )
