"""The child process that runs a program, which may exit, hang or print."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import faulthandler
import inspect
import io
import json
import os
import pickle
import runpy
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from typing import Any

import pulumi.runtime
from pulumi import Output
from pulumi.errors import RunError

from fusioninfer_pulumi.cli.program.project_files import Project
from fusioninfer_pulumi.cli.program.recorder import Recorder
from fusioninfer_pulumi.cli.program.recording import (
    PROGRAM_FAILED,
    PROGRAM_MESSAGE,
    UNKNOWN_WITHOUT_PULUMI,
    Recording,
    mask_secrets,
)
from fusioninfer_pulumi.component.pulumi_sdk import collect_services
from fusioninfer_pulumi.findings import Finding, InvalidServiceError, error, warning
from fusioninfer_pulumi.kube.pulumi_outputs import UnknownOutput, is_output
from fusioninfer_pulumi.loading.documents import Document
from fusioninfer_pulumi.plan.service_plan import ServicePlan

#: After the program's end, tasks that nothing awaits, such as log messages, have this long.
_GRACE_SECONDS = 0.5
_MAX_FRAMES = 8
#: Start of the SDK's error about a value that cannot be a property.
_SERIALIZATION_ERROR = "While processing resource: "
#: Shorter values are not masked, because they occur in many words. Pulumi has the same limit.
_MIN_SECRET_LENGTH = 3


def main(
    output: Connection,
    messages: Connection,
    project: Project,
    timeout: float,
    *,
    show_secrets: bool,
) -> None:
    """Run the program with standard output and error in the file `output`.

    The file `messages` gets pickles: the text of each secret unless secrets are shown, and at the
    end a `Recording`, or a tuple of errors. After `timeout` seconds the threads' stacks are
    printed.
    """
    os.setsid()  # so that the parent can also kill the processes that the program starts
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    sys.stdout = sys.stderr = open(2, "w", 1, "utf-8", "replace", closefd=False)  # noqa: SIM115  # open until the process ends
    program = project.program
    os.chdir(program.parent)
    sys.path.insert(0, str(program.parent))
    sys.argv = [str(program)]
    secrets: set[str] = set()

    def send(message: Any) -> None:
        data = io.BytesIO()
        _Pickler(data).dump(message)
        os.write(messages.fileno(), data.getvalue())  # at once, because threads may send, too

    def send_secret(text: str) -> None:
        secrets.add(text)
        send(text)

    def mask(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        return tuple(
            replace(item, message=mask_secrets(item.message, secrets)) for item in findings
        )

    faulthandler.dump_traceback_later(timeout)
    recorder = Recorder(project, show_secrets=show_secrets)
    services: list[tuple[str, ServicePlan]] = []
    collect_services.set(services)
    if not show_secrets:
        _intercept_secrets(send_secret)
    try:
        _run(project, recorder)
    except BaseException as problem:  # noqa: BLE001  # GeneratorExit is an error of the program, too
        *first, last = _explain_failure(problem)
        send(mask([*first, replace(last, frames=_find_user_frames(problem, project.root))]))
        return
    documents = [
        Document(
            recorder.origins[name]._replace(document=number),
            plan=replace(plan, findings=mask(plan.findings)),
        )
        for number, (name, plan) in enumerate(services, start=1)
    ]
    # The SDK registers resources in any order.
    objects = tuple(item for _, item in sorted(recorder.objects, key=itemgetter(0)))
    findings = [
        *(warning(PROGRAM_MESSAGE, (), text) for text in recorder.messages),
        *(warning(UNKNOWN_WITHOUT_PULUMI, (), text) for text in sorted(recorder.unknown)),
    ]
    send(Recording(objects, tuple(documents), mask(findings), project.encrypted))


class _Pickler(pickle.Pickler):
    """Replaces an Output by its text if that is known, otherwise by UnknownOutput."""

    def reducer_override(self, value: Any) -> Any:
        if is_output(value):
            text = asyncio.get_event_loop().run_until_complete(_read_output(value))
            return (str, (text,)) if isinstance(text, str) else (UnknownOutput, ())
        for plain in (str, int, float):
            if isinstance(value, plain) and not isinstance(value, enum.Enum):
                return plain, (plain(value),)
        return NotImplemented


async def _read_output(output: Output[Any]) -> Any:
    """Return the value of an Output, None if it is secret or unknown."""
    with contextlib.suppress(Exception):
        if not await output.is_secret():
            return await asyncio.wait_for(output.future(), _GRACE_SECONDS)
    return None


def _run(project: Project, recorder: Recorder) -> None:
    """Run a program to its end; its exceptions propagate."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(_Executor(max_workers=4))
    # Otherwise asyncio prints exceptions that nothing awaited after a program has failed.
    loop.set_exception_handler(lambda _loop, _context: None)
    recorder.install()
    pulumi.runtime.set_all_config(project.config, list(project.encrypted))

    def run_program() -> None:
        pulumi.runtime.register_stack_transformation(recorder.record_position)
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
    """Make `Output.secret` also send the texts and numbers in its argument.

    `pulumi.Config` passes secrets of the stack's config to `Output.secret`. Pulumi's command line
    masks only these in the program's output.
    """
    make_secret = Output.secret

    def send_texts(value: Any) -> None:
        for text in _list_texts(value):
            send(text)

    def send_and_make_secret(value: Any) -> Output[Any]:
        send_texts(value)
        output = make_secret(value)
        output.apply(send_texts)  # it may contain Outputs, whose values are known later
        return output

    setattr(Output, "secret", staticmethod(send_and_make_secret))  # noqa: B010  # a method


def _list_texts(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a plain value, also quoted as in literals, but no keys."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _list_texts(item)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        text = str(value)
        forms = (text, json.dumps(text)[1:-1], repr(text)[1:-1], *text.splitlines())
        yield from (form for form in forms if len(form) >= _MIN_SECRET_LENGTH)


def _explain_failure(problem: BaseException) -> Iterator[Finding]:
    """Convert an exception of a program to findings, one for each line of its message."""
    # Errors of the component are both an InvalidServiceError and a RunError.
    if isinstance(problem, InvalidServiceError):
        for number, finding in enumerate(problem.findings):
            title = problem.titles[number]
            line = f"{title}: {finding}" if title else str(finding)
            line = line if number else f"InvalidServiceError: {line}"
            yield replace(finding, location=(), converted=(), message=line)
        return
    text = _format_exception(problem)
    if isinstance(problem, RunError):
        # Programs raise it to stop without a traceback, so its type is not printed. The message
        # about a missing config value has two lines.
        text = ": ".join(line.strip() for line in str(problem).splitlines())
    elif str(problem).startswith(_SERIALIZATION_ERROR):
        # The SDK's message contains the whole property with all its values.
        cause = problem
        while cause.__cause__ is not None:
            cause = cause.__cause__
        resource = str(problem).splitlines()[0].removeprefix(_SERIALIZATION_ERROR)
        text = f"resource {resource}: {_format_exception(cause)}"
    elif isinstance(problem, ModuleNotFoundError):
        text += "; the program runs in the Python environment of fusioninfer-pulumi"
    for line in filter(None, (text or "failed").splitlines()):
        yield error(PROGRAM_FAILED, (), line)


def _format_exception(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {problem}".removesuffix(": ")


def _find_user_frames(problem: BaseException, root: Path) -> tuple[str, ...]:
    """Return the last stack frames in the user's files, without code, which may contain a secret.

    If the exception has none, because an asyncio task lost them, its cause may have some.
    """
    current: BaseException | None = problem
    while current is not None:
        frames = [
            f"{path.relative_to(root)}:{line}" + ("" if name == "<module>" else f" in {name}")
            for file, line, name, _ in traceback.extract_tb(current.__traceback__)
            if (path := Path(file)).is_relative_to(root) and "site-packages" not in path.parts
        ]
        if frames:
            return tuple(frames[-_MAX_FRAMES:])
        current = current.__cause__ or current.__context__
    return ()
