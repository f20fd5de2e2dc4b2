"""One run of a program: its own event loop, its own settings of the SDK, its own recorder."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import runpy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pulumi.runtime
from pulumi.runtime import settings
from pulumi.runtime.config import set_all_config

from fusioninfer_pulumi.cli.program.config import StackConfig
from fusioninfer_pulumi.cli.program.engine import Engine, Notes
from fusioninfer_pulumi.cli.program.failure import exit_error, program_error
from fusioninfer_pulumi.cli.program.isolate import isolated
from fusioninfer_pulumi.cli.program.masks import Secrets
from fusioninfer_pulumi.cli.program.monitor import Recorder
from fusioninfer_pulumi.cli.program.project import Project
from fusioninfer_pulumi.cli.program.records import Recording
from fusioninfer_pulumi.cli.program.server_set import server_set_unknown
from fusioninfer_pulumi.component.recorder import collect_plans

T = TypeVar("T")

#: A process has one working directory and one set of modules.
_ONE_AT_A_TIME = threading.RLock()
#: Seconds that tasks which nobody awaits (such as log messages) have after the program's end.
_GRACE = 0.5
#: Attempts at ending the tasks of a program that calls `sys.exit` in several of them.
_ROUNDS = 10
_ORGANIZATION = "organization"
_SETTINGS = (
    "callbacks",
    "dry_run",
    "engine",
    "monitor",
    "organization",
    "project",
    "root_directory",
    "stack",
)


def record(project: Project, config: StackConfig, secrets: Secrets) -> Recording:
    """Runs a project's program and returns what it registered.

    Raises:
        ProgramError: The program failed.
    """
    notes = Notes()
    for warning in config.warnings:
        notes.add(warning)
    recorder = Recorder(notes, secrets)
    plans: list[Any] = []

    def session() -> None:
        with (
            _configured(project, config, recorder, Engine(notes)),
            _collected(plans),
            server_set_unknown(),
        ):
            _run(project, recorder)

    # The SDK keeps its settings in context variables: what the copy sees stays in the copy.
    context = contextvars.copy_context()
    with _ONE_AT_A_TIME, isolated(project.root, project.program):
        try:
            _outside_of_loops(lambda: context.run(session))
        except Exception as problem:
            raise program_error(problem, project.root) from problem
    return Recording(recorder.recorded(), tuple(plans), notes.texts(), config.encrypted)


def _run(project: Project, recorder: Recorder) -> None:
    executor = _InlineExecutor(max_workers=4)
    loop = asyncio.new_event_loop()
    loop.set_default_executor(executor)
    # Futures of a failed program may be collected long after; nobody wants to hear of them.
    loop.set_exception_handler(lambda _loop, _context: None)

    def program() -> None:
        pulumi.runtime.register_stack_transformation(recorder.constructed)
        try:
            runpy.run_path(str(project.program), run_name="__main__")
        except SystemExit as problem:
            failure = exit_error(problem)
            if failure is not None:
                raise failure from problem

    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(program))
        loop.run_until_complete(_settle(_GRACE))
    except SystemExit as problem:  # in a callback, where nothing above sees it
        failure = exit_error(problem)
        if failure is not None:
            raise failure from problem
    finally:
        _end_tasks(loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
        executor.shutdown(wait=False, cancel_futures=True)
        loop.close()


def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what still runs; a task that was about to exit the process takes another round."""
    for _ in range(_ROUNDS):
        with contextlib.suppress(SystemExit):
            loop.run_until_complete(_settle(0))
            return


async def _settle(grace: float) -> None:
    """Waits a moment for tasks that nobody awaits, then ends them."""
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    if not pending:
        return
    _, late = await asyncio.wait(pending, timeout=grace)
    for task in late:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


@contextlib.contextmanager
def _configured(
    project: Project, config: StackConfig, recorder: Recorder, engine: Engine
) -> Iterator[None]:
    before = {name: getattr(settings.SETTINGS, name) for name in _SETTINGS}
    settings.configure(
        settings.Settings(
            project=project.name,
            stack=config.stack,
            monitor=recorder,
            engine=engine,
            dry_run=True,
            organization=_ORGANIZATION,
            root_directory=str(project.root),
        )
    )
    settings.SETTINGS.callbacks = recorder.callbacks
    settings.ROOT.set(None)
    set_all_config(config.values, list(config.secret_keys))
    try:
        yield
    finally:
        # A setting's first value in a context also becomes the default of every other context;
        # setting it from None does that again.
        for name, value in before.items():
            setattr(settings.SETTINGS, name, None)
            setattr(settings.SETTINGS, name, value)


@contextlib.contextmanager
def _collected(plans: list[Any]) -> Iterator[None]:
    """Lets InferenceService components hand over their plans."""
    token = collect_plans.set(plans)
    try:
        yield
    finally:
        collect_plans.reset(token)


def _outside_of_loops(run: Callable[[], T]) -> T:
    """Calls a function that runs an event loop, in a thread if this one is already running one."""
    if asyncio._get_running_loop() is None:  # noqa: SLF001  # the public one raises, which would
        return run()  # stand in the context of whatever the program raises
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(run).result()


class _InlineExecutor(ThreadPoolExecutor):
    """Makes the SDK's calls to the monitor at once, so that their order is always the same.

    What a program itself sends to threads still runs in threads.
    """

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not str(getattr(fn, "__module__", "")).startswith("pulumi."):
            return super().submit(fn, *args, **kwargs)
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:  # noqa: BLE001  # belongs to whoever awaits the future
            future.set_exception(problem)
        return future
