"""Runs a program in a child process, because a program may exit, hang or print."""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import faulthandler
import inspect
import json
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pulumi.runtime
from pulumi import Output
from pulumi.errors import RunError

from fusioninfer_pulumi.cli.program.mock_monitor import RecordingMonitor
from fusioninfer_pulumi.cli.program.project_files import UNKNOWN_WITHOUT_PULUMI, Project
from fusioninfer_pulumi.cli.program.recording import Recording
from fusioninfer_pulumi.component.pulumi_sdk import collected_services
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, Rule, error, warning
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput
from fusioninfer_pulumi.loading.documents import LoadedDocument
from fusioninfer_pulumi.plan.service_plan import ServicePlan

PROGRAM_FAILED = Rule("program-failed")
PROGRAM_MESSAGE = Rule("program-message")

#: Timeout for tasks that nothing awaits, and for each unresolved Output, after the program ends.
_GRACE_SECONDS = 0.5
_MAX_FRAMES = 8
#: Shorter values are not masked, because they occur in many words. Pulumi has the same limit.
_MIN_SECRET_LENGTH = 3


def main(
    files: Sequence[Connection], project: Project, timeout: float, *, show_secrets: bool
) -> None:
    """Run a project's program.

    The first of `files` receives the program's standard output and error. The second one receives
    pickles: the texts that the parent must mask, unless secrets are shown, and at the end a
    `Recording`. After `timeout` seconds, the stacks of all threads are printed, for the parent's
    error about the timeout.
    """
    output, messages = (file.fileno() for file in files)
    os.setsid()  # so that the parent can also kill the processes that the program starts
    for stream in (1, 2):
        os.dup2(output, stream)
    sys.stdout = sys.stderr = open(2, "w", 1, "utf-8", "replace", closefd=False)  # noqa: SIM115  # open until the process ends
    faulthandler.dump_traceback_later(timeout)
    os.chdir(project.program.parent)
    sys.path.insert(0, str(project.program.parent))
    sys.argv = [str(project.program)]

    def send(message: Any) -> None:
        os.write(messages, pickle.dumps(message))  # in one write: several threads may send

    if not show_secrets:
        _intercept_secrets(send)
    monitor = RecordingMonitor(project, show_secrets=show_secrets)
    services: list[tuple[str, ServicePlan]] = []
    collected_services.set(services)
    try:
        _run(project, monitor)
    except BaseException as exc:  # noqa: BLE001  # also KeyboardInterrupt and the like
        *first, last = _explain_failure(exc)
        frames = _find_user_frames(exc, project.root)
        send(Recording((*first, replace(last, frames=frames))))
        return
    findings = (
        *(warning(PROGRAM_MESSAGE, (), text) for text in monitor.messages),
        # Sorted, because the order of registrations depends on the SDK's version.
        *(warning(UNKNOWN_WITHOUT_PULUMI, (), text) for text in sorted(monitor.unknown)),
    )
    objects = tuple(item for items in monitor.objects.values() for item in items)
    documents = tuple(
        LoadedDocument(monitor.origins[name]._replace(document=number), plan=plan)
        for number, (name, plan) in enumerate(services, start=1)
    )
    # Registered after the program has ended, because `copy.copy` would also use it.
    copyreg.pickle(Output, _reduce_output)
    send(Recording(findings, objects, documents))


def _reduce_output(output: Output[Any]) -> tuple[Any, ...]:
    """Pickle an Output as its text if that is known and not secret, otherwise as UnknownOutput."""

    async def read() -> Any:
        with contextlib.suppress(Exception):
            if not await output.is_secret():
                return await asyncio.wait_for(output.future(), _GRACE_SECONDS)
        return None

    text = asyncio.get_event_loop().run_until_complete(read())
    return (str, (text,)) if isinstance(text, str) else (UnknownOutput, ())


def _run(project: Project, monitor: RecordingMonitor) -> None:
    """Run a program to its end; its exceptions propagate."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(_Executor(max_workers=4))
    # After a program fails, asyncio would print the exceptions of tasks that nothing awaited.
    loop.set_exception_handler(lambda _loop, _context: None)
    monitor.install()
    pulumi.runtime.set_all_config(project.config, list(project.encrypted))

    def run_program() -> None:
        pulumi.runtime.register_stack_transformation(monitor.record_order)
        try:
            if project.runtime == "yaml":
                from fusioninfer_pulumi.cli.program.yaml_program import YamlProgram

                YamlProgram(project).run()
            else:
                runpy.run_path(str(project.program), run_name="__main__")
        except SystemExit as exit_:
            if exit_.code:
                raise

    loop.run_until_complete(pulumi.runtime.run_in_stack(run_program))
    # Let log messages and other tasks that nothing awaits finish.
    if pending := asyncio.all_tasks(loop):
        loop.run_until_complete(asyncio.wait(pending, timeout=_GRACE_SECONDS))


class _Executor(ThreadPoolExecutor):
    """Runs the SDK's calls to the monitor in the event loop, so that their order never varies.

    Functions of the program run in threads.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not str(getattr(fn, "__module__", "")).startswith("pulumi."):
            return super().submit(fn, *args, **kwargs)

        async def call() -> Any:
            result = fn(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(call(), asyncio.get_running_loop())


def _intercept_secrets(send: Callable[[str], None]) -> None:
    """Make `Output.secret` also send the texts and numbers in its argument, except mappings' keys.

    `pulumi.Config` passes the config's secrets to `Output.secret`, so they are sent too. Pulumi's
    CLI masks only secrets of the config.
    """
    make_secret = Output.secret

    def send_texts(value: Any) -> None:
        if isinstance(value, (Mapping, list, tuple)):
            items = value.values() if isinstance(value, Mapping) else value
            for item in items:
                send_texts(item)
        elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = str(value)
            # Error messages may contain the text as a literal of JSON or Python.
            for form in (text, json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines()):
                if len(form) >= _MIN_SECRET_LENGTH:
                    send(form)

    def send_and_make_secret(value: Any) -> Output[Any]:
        send_texts(value)
        output = make_secret(value)
        output.apply(send_texts)  # Outputs in the argument get their values later
        return output

    setattr(Output, "secret", staticmethod(send_and_make_secret))  # noqa: B010  # a method


def _explain_failure(problem: BaseException) -> Iterator[Finding]:
    """Convert an exception of a program to findings, one for each line of its message."""
    # Errors of the component are both an InvalidServiceError and a RunError.
    if isinstance(problem, InvalidServiceError):
        prefix = "InvalidServiceError: "
        for title, finding in zip(problem.titles, problem.findings, strict=True):
            line = f"{prefix}{title}: {finding}" if title else f"{prefix}{finding}"
            prefix = ""  # only the first line has the prefix
            yield replace(finding, location=(), converted=(), message=line)
        return
    text = str(problem)
    if not isinstance(problem, RunError):  # a RunError stops a program with only its message
        text = f"{type(problem).__name__}: {problem}".removesuffix(": ")
    if isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    for line in filter(None, map(str.strip, (text.strip() or "failed").splitlines())):
        yield error(PROGRAM_FAILED, (), line)


def _find_user_frames(problem: BaseException | None, root: Path) -> tuple[str, ...]:
    """Return the last stack frames in the user's files, such as `app.py:12 in build`.

    Lines of code are left out, because they may contain a secret. If the exception has no frames
    because an asyncio task lost them, the frames of its cause are returned.
    """
    while problem is not None:
        frames = []
        for file, line, name, _ in traceback.extract_tb(problem.__traceback__):
            path = Path(file)
            if path.is_relative_to(root) and "site-packages" not in path.parts:
                function = "" if name == "<module>" else f" in {name}"
                frames.append(f"{path.relative_to(root)}:{line}{function}")
        if frames:
            return tuple(frames[-_MAX_FRAMES:])
        problem = problem.__cause__ or problem.__context__
    return ()
