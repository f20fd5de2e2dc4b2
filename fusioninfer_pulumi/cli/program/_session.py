"""One run of a program, in a process that is its own.

What this package takes from the SDK beyond its documented functions, all of it held by
`tests/cli/test_program_sdk.py`:

- `SETTINGS.callbacks`, an object with the methods `register_transform`, `register_stack_transform`,
  `register_invoke_transform`, `register_resource_hook` and `register_error_hook`. Without one the
  SDK opens a gRPC server, for an engine that would call the program's functions back.
- The module of the functions that the SDK sends to the loop's executor, which separates its calls
  to the monitor from threads of the program.
- `MockMonitor` and the names of a monitor's methods (`RegisterResource`, `Invoke`); `set_mocks`
  offers only `Mocks`, which see neither parents nor whether a component is remote, and answer an
  unknown value with a known one. Messages are those of `pulumi.runtime.proto`.
- `Output.secret`, `runtime.invoke_output` and `runtime.invoke_output_single` are public, and how an
  Output is read (`__getattr__`, `__getitem__`) is documented, but all are replaced: see `_secrets`,
  `Recorder.invoke_output` and `_server_set`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import runpy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, TypeVar

import pulumi.runtime
from pulumi.runtime.settings import SETTINGS

from fusioninfer_pulumi.cli.program._failures import failing_exits, places_of, user_frames
from fusioninfer_pulumi.cli.program._secrets import noted
from fusioninfer_pulumi.cli.program._server_set import with_server_set
from fusioninfer_pulumi.cli.program._wire import SpecWriter, findings_to_json
from fusioninfer_pulumi.cli.program.project import Project, StackConfig
from fusioninfer_pulumi.cli.program.recorder import Engine, Recorder
from fusioninfer_pulumi.cli.program.recording import Secrets
from fusioninfer_pulumi.component.run_mode import CollectedService, collect_services

T = TypeVar("T")

#: Seconds for tasks that nothing awaits, such as log messages, after the program's end.
_GRACE = 0.5
_ORGANIZATION = "organization"


def record(
    project: Project,
    config: StackConfig,
    secrets: Secrets,
    loop: asyncio.AbstractEventLoop,
    send: Callable[..., None],
) -> dict[str, Any]:
    """Runs a project's program in a loop; raises what the program raises.

    Returns:
        What it registered, as plain JSON values.
    """
    recorder = Recorder(secrets)
    services: list[CollectedService] = []
    collect_services.set(services)  # InferenceService components hand over their plans
    _configure(project, config, recorder)
    _replace(recorder, send)
    left = _run(project, recorder, loop)
    writer = SpecWriter()
    return {
        "resources": [asdict(recorded) for recorded in recorder.recorded()],
        "services": [
            {
                "name": service.name,
                "spec": writer.plain(service.args),
                "findings": findings_to_json(service.plan.findings),
                **asdict(registered),
            }
            for service, registered in zip(services, recorder.services(), strict=True)
        ],
        "findings": findings_to_json(recorder.warnings()),
        "left": left,
    }


def _run(project: Project, recorder: Recorder, loop: asyncio.AbstractEventLoop) -> str:
    """Runs the program; returns where it called `sys.exit` with success, empty without a call."""
    loop.set_default_executor(_Executor(max_workers=4))
    # Futures of a failed program that no task awaits are not reported.
    loop.set_exception_handler(lambda _loop, _context: None)
    left: list[str] = []

    def body() -> None:
        pulumi.runtime.register_stack_transformation(recorder.constructed)
        try:
            with failing_exits():
                runpy.run_path(str(project.program), run_name="__main__")
        except SystemExit as exit_:
            left.extend(user_frames(project.root, places_of(exit_))[-1:] or [project.program.name])

    with contextlib.suppress(SystemExit), failing_exits():
        loop.run_until_complete(pulumi.runtime.run_in_stack(body))
        # Log messages and other tasks that nothing awaits may finish.
        if pending := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(pending, timeout=_GRACE))
    return "".join(left)


def _configure(project: Project, config: StackConfig, recorder: Recorder) -> None:
    pulumi.runtime.configure(
        pulumi.runtime.Settings(
            project=project.name,
            stack=config.stack,
            monitor=recorder,
            engine=Engine(recorder),
            dry_run=True,
            organization=_ORGANIZATION,
            root_directory=str(project.root),
        )
    )
    SETTINGS.callbacks = recorder
    pulumi.runtime.set_all_config(config.values, list(config.encrypted))


def _replace(recorder: Recorder, send: Callable[..., None]) -> None:
    """Replaces functions of the SDK."""
    replacements: tuple[tuple[Any, str, Any], ...] = (
        (pulumi.Output, "__getattr__", with_server_set(pulumi.Output.__getattr__)),
        (pulumi.Output, "__getitem__", with_server_set(pulumi.Output.__getitem__)),
        (pulumi.Output, "secret", staticmethod(noted(pulumi.Output.secret, send))),
        (pulumi.runtime, "invoke_output", recorder.invoke_output),
        (pulumi.runtime, "invoke_output_single", recorder.invoke_output),
    )
    for holder, name, replacement in replacements:
        setattr(holder, name, replacement)


class _Executor(ThreadPoolExecutor):
    """Makes the SDK's calls to the monitor at once, so that their order is always the same.

    A call that has to wait for a transform goes on in the event loop. What a program itself sends
    to threads runs in threads.
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
