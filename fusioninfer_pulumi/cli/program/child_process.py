"""The process that runs a program, which may end, hang or print as it likes.

The SDK runs with a subclass of its mock monitor. `tests/cli/test_program_sdk.py` tests
what is taken from it beyond that: `Output.secret`, `Output.__getattr__`, `Output.__getitem__` and
`runtime.invoke_output` are replaced in this process, and `SETTINGS.callbacks` keeps transforms.
Without it the SDK opens a gRPC server, for an engine that would call them back.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import pulumi.runtime
from pulumi import Output
from pulumi.errors import RunError
from pulumi.output import UNKNOWN, Unknown
from pulumi.runtime.settings import SETTINGS

from fusioninfer_pulumi.cli.program.parent_process import Request
from fusioninfer_pulumi.cli.program.project_files import Project, StackConfig
from fusioninfer_pulumi.cli.program.recorder import Engine, Recorder
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_FAILED,
    ProgramError,
)
from fusioninfer_pulumi.component.pulumi_sdk import CollectedService, collect_services
from fusioninfer_pulumi.findings import InvalidServiceError, error
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput, is_output

T = TypeVar("T")

#: Seconds for tasks that nothing awaits, such as log messages, after the program's end.
_GRACE = 0.5
_MAX_FRAMES = 8
#: Start of the SDK's error about a value that cannot be a property.
_SERIALISING = "While processing resource: "
#: Shorter values occur in too many words. Pulumi's command line has the same limit.
_SHORTEST_SECRET = 3


#: Fields that the API server sets in metadata, Services and claims, in the SDK and in YAML.
_SERVER_SET = frozenset(
    {"cluster_ip", "cluster_ips", "ip_families", "ip_family_policy", "volume_name",
     "creation_timestamp", "generation", "resource_version", "uid",
     "creationTimestamp", "resourceVersion"}
)  # fmt: skip


def main(connection: Connection, request: Request) -> None:
    """Runs the program and sends what it registers, or why it failed.

    Args:
        connection: Gets a text for each secret value, then one recording or tuple of errors.
        request: What to run.
    """
    os.setsid()  # the processes that the program starts are ended with it
    printed = os.open(request.printed, os.O_WRONLY | os.O_APPEND)
    Path(request.printed).unlink()  # it may contain secrets: none remains if the command is killed
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.close(printed)
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
    recorder = Recorder(request.secrets, request.project)
    try:
        services = _run(request.project, request.config, recorder, send)
        outcome: Any = recorder.outcome(services)
    except BaseException as problem:  # noqa: BLE001  # GeneratorExit is an error of the program, too
        outcome = _failure(problem, request.project.root).findings
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


def _run(
    project: Project, config: StackConfig, recorder: Recorder, send: Callable[[str], None]
) -> list[CollectedService]:
    """Runs a program; returns its InferenceService components, and raises what it raises."""
    services: list[CollectedService] = []
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
    replacements: dict[tuple[Any, str], Any] = {
        (Output, "__getattr__"): _with_server_set(Output.__getattr__),
        (Output, "__getitem__"): _with_server_set(Output.__getitem__),
        (Output, "secret"): staticmethod(_sending(Output.secret, send)),
        (pulumi.runtime, "invoke_output"): recorder.invoke_output,
        (pulumi.runtime, "invoke_output_single"): recorder.invoke_output,
    }
    for (holder, name), replacement in replacements.items():
        setattr(holder, name, replacement)

    def body() -> None:
        pulumi.runtime.register_stack_transformation(recorder.constructed)
        with contextlib.suppress(SystemExit), _failing_exits():
            if project.runtime == "yaml":
                from fusioninfer_pulumi.cli.program.yaml_program import YamlProgram

                YamlProgram(project).run()
            else:
                runpy.run_path(str(project.program), run_name="__main__")

    with contextlib.suppress(SystemExit), _failing_exits():
        loop.run_until_complete(pulumi.runtime.run_in_stack(body))
        # Log messages and other tasks that nothing awaits may finish.
        if pending := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(pending, timeout=_GRACE))
    return services


class _Executor(ThreadPoolExecutor):
    """Makes the SDK's calls to the monitor at once, so that their order is always the same.

    A call that waits for a transform continues in the event loop. Functions of the program run in
    threads.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not str(getattr(fn, "__module__", "")).startswith("pulumi."):
            return super().submit(fn, *args, **kwargs)
        future: Future[T] = Future()
        try:
            result = fn(*args, **kwargs)
        except Exception as problem:  # noqa: BLE001  # belongs to whoever awaits the future
            future.set_exception(problem)
            return future
        if inspect.iscoroutine(result):
            return asyncio.run_coroutine_threadsafe(result, asyncio.get_running_loop())
        future.set_result(result)
        return future


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


def _with_server_set(read: Callable[[Any, Any], Output[Any]]) -> Callable[[Any, Any], Output[Any]]:
    """Reads a field of an Output; one that the API server sets is unknown, not None.

    The outputs of an object are its inputs here, so the SDK takes these fields for None. An unknown
    field would make the whole structure unknown.
    """

    def field(structure: Any, name: str) -> Any:
        if isinstance(structure, Unknown):
            return UNKNOWN
        is_mapping = isinstance(structure, Mapping)
        value = structure.get(name) if is_mapping else getattr(structure, name)
        return UNKNOWN if value is None else value

    def reading(output: Output[Any], name: Any) -> Output[Any]:
        if name not in _SERVER_SET:
            return read(output, name)
        return output.apply(lambda structure: field(structure, name), run_with_unknowns=True)

    return reading


class _ExitError(Exception):
    """The program called `sys.exit` with a failure."""


@contextlib.contextmanager
def _failing_exits() -> Iterator[None]:
    """Converts a failing `sys.exit` to an error, because the SDK does not propagate it."""
    try:
        yield
    except SystemExit as exit_:
        if not exit_.code:
            raise
        called = isinstance(exit_.code, int)
        text = (
            f"the program called sys.exit({exit_.code})" if called else f"SystemExit: {exit_.code}"
        )
        raise _ExitError(text) from exit_


def _failure(problem: BaseException, root: Path) -> ProgramError:
    """Converts an exception of a program to findings, one for each line of its message."""
    if isinstance(problem, ProgramError):
        return problem
    if isinstance(problem, InvalidServiceError):
        # Those of the component are a RunError, too, and end with their rules.
        titled = zip(problem.titles, problem.findings, strict=True)
        lines = [f"{title}: {finding}" if title else str(finding) for title, finding in titled]
        lines[:1] = [f"InvalidServiceError: {line}" for line in lines[:1]]
        return ProgramError(
            *(
                replace(finding, location=(), converted=(), message=line)
                for finding, line in zip(problem.findings, lines, strict=True)
            ),
            frames=_frames(problem, root),
        )
    message = str(problem)
    if isinstance(problem, RunError):
        # Meant to end a program without a traceback; the text of a missing config value has two
        # lines that belong together.
        text = ": ".join(line.strip() for line in message.splitlines())
        return ProgramError(error(PROGRAM_FAILED, (), text or "failed"))
    text = _named(problem)
    if isinstance(problem, SyntaxError) and problem.filename:
        place = f"{_relative(problem.filename, root) or problem.filename}:{problem.lineno}"
        text = f"{type(problem).__name__}: {problem.msg} ({place})"
    elif message.startswith(_SERIALISING):
        # The SDK's text prints the whole property with all its values.
        cause: BaseException = problem
        while cause.__cause__ is not None:
            cause = cause.__cause__
        text = f"resource {message.splitlines()[0].removeprefix(_SERIALISING)}: {_named(cause)}"
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    lines = [line for line in text.splitlines() if line]
    frames = _frames(problem, root)
    return ProgramError(*(error(PROGRAM_FAILED, (), line) for line in lines), frames=frames)


def _named(problem: BaseException) -> str:
    """An exception's type and text."""
    message = str(problem)
    if isinstance(problem, _ExitError):
        return message
    return f"{type(problem).__name__}: {message}" if message else type(problem).__name__


def _frames(problem: BaseException, root: Path) -> tuple[str, ...]:
    """Frames of the user's files; where a task lost them, those of the exception's cause."""
    seen: set[int] = set()
    current: BaseException | None = problem
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if frames := _user_frames(traceback.extract_tb(current.__traceback__), root):
            return frames
        current = current.__cause__ or current.__context__
    return ()


def _user_frames(frames: Iterable[traceback.FrameSummary], root: Path) -> tuple[str, ...]:
    """The last frames of the user's files, without their text, which may contain a secret."""
    return tuple(
        f"{path}:{frame.lineno}" + ("" if frame.name == "<module>" else f" in {frame.name}")
        for frame in frames
        if (path := _relative(frame.filename, root)) is not None
    )[-_MAX_FRAMES:]


def _relative(file: str, root: Path) -> str | None:
    """The path of a user's file; None for an installed package."""
    if file.startswith("<"):  # <string>, <frozen runpy>: no file at all
        return None
    try:
        path = Path(file).resolve().relative_to(root)
    except (OSError, ValueError):
        return None
    return None if "site-packages" in path.parts else str(path)
