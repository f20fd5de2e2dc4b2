"""Runs the program of a project folder in a child process, and reads its messages."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.api.service import InferenceServiceArgs
from fusioninfer_pulumi.checks.stages import plan_service
from fusioninfer_pulumi.cli.output import working
from fusioninfer_pulumi.cli.program._rules import PROGRAM_ENDED
from fusioninfer_pulumi.cli.program._text import Mask, Relay, harmless
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
#: Forking is quick, and safe while the process has no threads; elsewhere systems start some.
_METHOD = "fork" if sys.platform == "linux" else "spawn"
#: Seconds for saying what a program was waiting for, before it is killed.
_GRACE = 3.0
#: Seconds between two looks at whether the process still runs: what it started may outlive it and
#: hold its connections open.
_POLL = 0.05
_CHUNK = 1 << 16
#: Parts of the SDK that it imports itself and few programs use.
_RARE = frozenset({"grpc.aio", "pulumi.automation", "pulumi.dynamic"})


def run_program(
    folder: Path,
    stack: str | None = None,
    secrets: Secrets = Secrets.MASKED,
    limit: float = LIMIT,
) -> Recording:
    """Runs a project's program as a first `pulumi preview` would, without engine and cluster.

    The program has a process of its own, so programs can be run one after another, and one that
    ends its process or never returns is an error like any other. What it prints goes to standard
    error, without escape sequences, commands of CI runners and secret values.

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
    # Here, so that several programs share what is loaded; and not before it is needed.
    with _importing_the_sdk():
        child = importlib.import_module("fusioninfer_pulumi.cli.program._child")
    listener = _Listener(shown=secrets is Secrets.SHOWN)
    try:
        request = child.Request(project, config, secrets, key(), limit)
        with _started(child, request) as ends, working(f"{folder}: running the program"):
            listener.listen(*ends, limit)
        told = listener.result()
        with _in_folder(project.program.parent):  # paths in specs are relative to it
            return _recording(told, config, listener)
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
def _started(child: Any, request: Any) -> Iterator[tuple[Any, Connection, Connection]]:
    """The child process and our ends of its connections; it and what it started end afterwards."""
    context: Any = multiprocessing.get_context(_METHOD)
    messages, sender = context.Pipe(duplex=False)
    printed, printer = context.Pipe(duplex=False)
    process = context.Process(target=child.main, args=(sender, printer, request))
    with warnings.catch_warnings():
        # Python warns of threads, of which a test runner has some.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    printer.close()
    try:
        yield process, messages, printed
    finally:
        _end(process)
        process.join()
        messages.close()
        printed.close()


def _end(process: Any) -> None:
    """Ends a process and those that it started."""
    process.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class _Listener:
    """Reads the messages and the output of a child process until it ends.

    Args:
        shown: Whether secret values are shown.
    """

    def __init__(self, *, shown: bool) -> None:
        self._mask = Mask()
        self._shown = shown
        self._relay = Relay(self._mask)
        self._told: dict[str, Any] = {}
        self._problem: ProgramError | None = None

    def listen(self, process: Any, messages: Connection, printed: Connection, limit: float) -> None:
        """Reads until the process ends, or is ended because its time is over."""
        deadline = time.monotonic() + limit + _GRACE
        open_ends = {messages, printed}
        while open_ends:
            if process.exitcode is not None:
                # What it started may go on to print, and holds both ends open.
                _end(process)
                deadline = min(deadline, time.monotonic() + _GRACE)
            ready = wait(open_ends, timeout=_POLL)
            # The message about a secret comes before its text: messages are read first.
            while messages in open_ends and messages.poll():
                if not self._message(messages):
                    open_ends.discard(messages)
            if printed in ready and not self._print(printed):
                open_ends.discard(printed)
            if process.exitcode is not None and not ready:
                break
            if time.monotonic() > deadline:
                break
        process.join(max(deadline - time.monotonic(), 0))
        self._relay.end()
        self._status = process.exitcode
        if self._status is None:
            text = f"the program did not end within {limit:g} s"
            self._problem = refused(PROGRAM_ENDED, text)

    def _message(self, messages: Connection) -> bool:
        try:
            message: dict[str, Any] = json.loads(messages.recv_bytes())
        except (EOFError, ConnectionError):
            return False
        if self._shown:
            pass
        elif "secret" in message:
            self._mask.add(message["secret"])
        elif "public" in message:
            self._mask.discard(message["public"])
        if "recording" in message or "findings" in message:
            self._told = message
        return True

    def _print(self, printed: Connection) -> bool:
        data = os.read(printed.fileno(), _CHUNK)
        self._relay.feed(data)
        return bool(data)

    def result(self) -> Mapping[str, Any]:
        """The recording; raises ProgramError if there is none."""
        if self._problem is not None:
            raise self._problem
        if not self._told:
            raise refused(PROGRAM_ENDED, _how_it_ended(self._status))
        if "findings" in self._told:
            raise ProgramError(*self.findings(self._told["findings"]))
        recording: dict[str, Any] = self._told["recording"]
        return recording

    def findings(self, values: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
        """Findings whose messages hold no secret and nothing that a terminal or a CI job obeys."""
        return tuple(
            replace(finding, message=harmless(self._mask.hide(finding.message)))
            for finding in findings_from_json(values)
        )


def _how_it_ended(status: int | None) -> str:
    if status == -signal.SIGKILL:
        return "the program was killed (SIGKILL), as the system does when memory runs out"
    how = "it crashed, or called os._exit" if status else "it called os._exit"
    return f"the program ended its process with status {status}: {how}"


def _recording(told: Mapping[str, Any], config: StackConfig, listener: _Listener) -> Recording:
    specs = SpecReader()
    services = []
    for service in told["services"]:
        args = InferenceServiceArgs.model_validate(specs.spec(service["spec"]))
        plan = plan_service(args, service["name"])
        # The component also knows what it collides with.
        plan = replace(plan, findings=listener.findings(service["findings"]))
        services.append(
            ProgramService(
                service["name"], service["file"], service["line"], service["provider"], plan
            )
        )
    return Recording(
        resources=tuple(Recorded(**resource) for resource in told["resources"]),
        services=tuple(services),
        findings=(*config.findings, *listener.findings(told["findings"])),
        encrypted=config.encrypted,
        left=told["left"],
    )


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
