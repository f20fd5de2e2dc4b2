"""The process that runs a program, which may end, hang or print as it likes.

The SDK runs with a subclass of its mock monitor. `tests/cli/test_program_sdk.py` tests
what is taken from it beyond that: `Output.secret` and `runtime.invoke_output` are replaced in this
process, and `SETTINGS.callbacks` keeps transforms. Without it the SDK opens a gRPC server, for an
engine that would call them back.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import faulthandler
import importlib
import inspect
import io
import json
import os
import pickle
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, cast

import pulumi.runtime
from pulumi import Output
from pulumi.errors import RunError
from pulumi.runtime.settings import SETTINGS

from fusioninfer_pulumi.cli.program.parent_process import Request
from fusioninfer_pulumi.cli.program.recorder import Engine, Recorder
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_FAILED,
    UNKNOWN_WITHOUT_PULUMI,
    ProgramService,
    Recording,
)
from fusioninfer_pulumi.component.pulumi_sdk import collect_services
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, error
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput, is_output
from fusioninfer_pulumi.plan.service_plan import ServicePlan

T = TypeVar("T")

#: Seconds for tasks that nothing awaits, such as log messages, after the program's end.
_GRACE = 0.5
_MAX_FRAMES = 8
#: Start of the SDK's error about a value that cannot be a property.
_SERIALISING = "While processing resource: "
#: Shorter values occur in too many words. Pulumi's command line has the same limit.
_SHORTEST_SECRET = 3


def main(connection: Connection, request: Request) -> None:
    """Runs the program and sends what it registers, or why it failed.

    Args:
        connection: Gets a text for each secret value, then one recording or tuple of errors.
        request: What to run.
    """
    os.setsid()  # the processes that the program starts are ended with it
    for stream in (1, 2):
        os.dup2(request.printed.fileno(), stream)
    sys.stdout = sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), encoding="utf-8", errors="replace", write_through=True
    )
    program = request.project.program
    importlib.invalidate_caches()  # the folder may have been written a moment ago
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program)]

    lock = threading.Lock()

    def send(message: Any) -> None:
        data = io.BytesIO()
        _Pickler(data).dump(message)
        try:
            with lock:
                connection.send_bytes(data.getvalue())
        except OSError:  # the program has closed it, such as with `os.closerange`
            os._exit(1)

    faulthandler.dump_traceback_later(request.limit)
    try:
        outcome: Any = _run(request, send)
    except BaseException as problem:  # noqa: BLE001  # GeneratorExit is an error of the program, too
        *first, last = _failure(problem, request.project.root)
        outcome = (*first, replace(last, frames=_frames(problem, request.project.root)))
    send(outcome)


class _Pickler(pickle.Pickler):
    """Replaces Outputs by their text, if it is known, else by UnknownOutput."""

    def reducer_override(self, value: Any) -> Any:
        if is_output(value):
            text = asyncio.get_event_loop().run_until_complete(_known(value))
            return (str, (text,)) if isinstance(text, str) else (UnknownOutput, ())
        for plain in (str, int, float):
            if isinstance(value, plain) and not isinstance(value, enum.Enum):
                return plain, (plain(value),)
        return NotImplemented


async def _known(output: Output[Any]) -> Any:
    """Returns the value of an Output, None if it is secret or unknown."""
    with contextlib.suppress(Exception):
        if not await output.is_secret():
            return await asyncio.wait_for(output.future(), _GRACE)
    return None


def _run(request: Request, send: Callable[[str], None]) -> Recording:
    """Runs a program; returns what it registers, and raises what it raises."""
    project, config = request.project, request.config
    recorder = Recorder(request.secrets, project)
    services: list[tuple[str, ServicePlan]] = []
    collect_services.set(services)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(_Executor(max_workers=4))
    # Futures of a failed program that no task awaits are not reported.
    loop.set_exception_handler(lambda _loop, _context: None)
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=project.name,
            stack=config.stack,
            monitor=recorder,
            engine=Engine(recorder),
            dry_run=True,
            organization="organization",
            root_directory=str(project.root),
        )
    )
    SETTINGS.callbacks = recorder
    pulumi.runtime.set_all_config(config.values, list(config.encrypted))
    setattr(Output, "secret", staticmethod(_sending(Output.secret, send)))  # noqa: B010  # mypy
    for name in ("invoke_output", "invoke_output_single"):
        setattr(pulumi.runtime, name, recorder.invoke_output)

    def body() -> None:
        pulumi.runtime.register_stack_transformation(recorder.constructed)
        with _failing_exits():
            if project.runtime == "yaml":
                from fusioninfer_pulumi.cli.program.yaml_program import YamlProgram

                YamlProgram(project).run()
            else:
                runpy.run_path(str(project.program), run_name="__main__")

    with _failing_exits():
        loop.run_until_complete(pulumi.runtime.run_in_stack(body))
        # Log messages and other tasks that nothing awaits may finish.
        if pending := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(pending, timeout=_GRACE))
    return Recording(
        tuple(item for _, item in sorted(recorder.objects, key=itemgetter(0))),
        tuple(ProgramService(*recorder.places[name], plan) for name, plan in services),
        tuple(sorted(recorder.findings.values(), key=_finding_order)),
        config.encrypted,
    )


def _finding_order(finding: Finding) -> str:
    """Sorts findings about registrations, which the SDK sends in any order, behind the others."""
    return finding.message if finding.rule == UNKNOWN_WITHOUT_PULUMI.id else ""


class _Executor(ThreadPoolExecutor):
    """Makes the SDK's calls to the monitor in the event loop, so that their order is the same.

    Functions of the program run in threads.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not str(getattr(fn, "__module__", "")).startswith("pulumi."):
            return super().submit(fn, *args, **kwargs)

        async def call() -> T:
            result: Any = fn(*args, **kwargs)
            return cast("T", await result if inspect.isawaitable(result) else result)

        return asyncio.run_coroutine_threadsafe(call(), asyncio.get_running_loop())


def _sending(
    secret: Callable[[Any], Output[Any]], send: Callable[[str], None]
) -> Callable[[Any], Output[Any]]:
    """`Output.secret`, which also sends the texts and numbers in the value that it gets.

    Pulumi's command line masks only secrets of the stack's config in text; `pulumi.Config`
    passes those to `Output.secret`.
    """

    def send_texts(value: Any) -> None:
        for text in _texts(value):
            send(text)

    def sending(value: Any) -> Output[Any]:
        send_texts(value)
        output = secret(value)
        if not isinstance(value, (str, int, float)):
            output.apply(send_texts)  # it may contain Outputs, whose values come later
        return output

    return sending


def _texts(value: Any) -> Iterator[str]:
    """The texts and numbers in a plain value, also as literals quote them. Keys are not secret."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
        forms = (text, json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines())
        yield from (form for form in forms if len(form) >= _SHORTEST_SECRET)


@contextlib.contextmanager
def _failing_exits() -> Iterator[None]:
    """Converts a failing `sys.exit` to an error, because the SDK does not propagate it."""
    try:
        yield
    except SystemExit as exit_:
        if isinstance(exit_.code, int) and exit_.code:
            raise RunError(f"the program called sys.exit({exit_.code})") from exit_
        if exit_.code:
            raise RunError(f"SystemExit: {exit_.code}") from exit_


def _failure(problem: BaseException, root: Path) -> Iterator[Finding]:
    """Converts an exception of a program to findings, one for each line of its message."""
    if isinstance(problem, InvalidServiceError):
        # Those of the component are a RunError, too, and end with their rules.
        for number, finding in enumerate(problem.findings):
            title = problem.titles[number]
            line = f"{title}: {finding}" if title else str(finding)
            line = line if number else f"InvalidServiceError: {line}"
            yield replace(finding, location=(), converted=(), message=line)
        return
    text = _named(problem)
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        text = ": ".join(line.strip() for line in str(problem).splitlines())
    elif isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_relative(problem.filename, root) or problem.filename}:{problem.lineno}"
        text = f"{type(problem).__name__}: {problem.msg} ({place})"
    elif str(problem).startswith(_SERIALISING):
        # The SDK's text prints the whole property with all its values.
        cause = problem
        while cause.__cause__ is not None:
            cause = cause.__cause__
        resource = str(problem).splitlines()[0].removeprefix(_SERIALISING)
        text = f"resource {resource}: {_named(cause)}"
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    for line in filter(None, (text or "failed").splitlines()):
        yield error(PROGRAM_FAILED, (), line)


def _named(problem: BaseException) -> str:
    """An exception's type and text."""
    return f"{type(problem).__name__}: {problem}".removesuffix(": ")


def _frames(problem: BaseException, root: Path) -> tuple[str, ...]:
    """The last frames of the user's files, without their text, which may contain a secret.

    Where a task lost them, those of the exception's cause.
    """
    current: BaseException | None = problem
    for _ in range(_MAX_FRAMES):
        if current is None:
            break
        frames = tuple(
            f"{path}:{frame.lineno}" + ("" if frame.name == "<module>" else f" in {frame.name}")
            for frame in traceback.extract_tb(current.__traceback__)
            if (path := _relative(frame.filename, root)) is not None
        )
        if frames:
            return frames[-_MAX_FRAMES:]
        current = current.__cause__ or current.__context__
    return ()


def _relative(file: str, root: Path) -> str | None:
    """The path of a user's file; None for an installed package, and for <string>."""
    path = Path(file)
    if file.startswith("<") or "site-packages" in path.parts or not path.is_relative_to(root):
        return None
    return str(path.relative_to(root))
