"""Runs Pulumi programs with mocks; each test has its own event loop and settings."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from component.stacks import Stack, create_stack
from pulumi.runtime import mocks, resource, rpc, settings, stack
from pulumi.runtime.proto.source_pb2 import StackTrace

from fusioninfer_pulumi.api import InferenceServiceArgs
from fusioninfer_pulumi.component import cluster_access
from fusioninfer_pulumi.loading import load

STORIES = Path(__file__).parent.parent / "fixtures" / "inputs"


@dataclass(frozen=True)
class Registered:
    """A resource as the SDK registers it with the Pulumi engine."""

    urn: str
    request: Any

    @property
    def key(self) -> tuple[str, str]:
        return self.request.type, self.request.name

    @property
    def inputs(self) -> Any:
        """The properties: a secret is `("secret", value)`, an unknown value is `...`."""
        return _shown(rpc.deserialize_properties(self.request.object, keep_unknowns=True))


@dataclass
class Deployment:
    """Resources that one run of a program registered with the Pulumi engine."""

    registered: list[Registered] = field(default_factory=list)
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    exports: dict[str, Any] = field(default_factory=dict)
    made: Any = None

    @property
    def keys(self) -> list[tuple[str, str]]:
        return [item.key for item in self.registered]

    def __getitem__(self, name: str) -> Registered:
        """Return the only resource of a logical name that is not a component."""
        (item,) = [
            entry
            for entry in self.registered
            if entry.request.name == name and entry.request.custom
        ]
        return item

    @property
    def component(self) -> Registered:
        (item,) = [entry for entry in self.registered if not entry.request.custom]
        return item

    @property
    def children(self) -> list[Registered]:
        """Resources that are not components."""
        return [item for item in self.registered if item.request.custom]


def _shown(value: Any) -> Any:
    if rpc.is_rpc_secret(value):
        return ("secret", _shown(rpc.unwrap_rpc_secret(value)))
    if isinstance(value, Mapping):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return ... if isinstance(value, pulumi.output.Unknown) else value


class _Monitor(mocks.MockMonitor):
    def __init__(self, engine: Engine, deployment: Deployment) -> None:
        super().__init__(engine)
        self.deployment = deployment

    def RegisterResource(self, request: Any) -> Any:
        response = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self.deployment.registered.append(Registered(response.urn, request))
            self.deployment.order.append(request.name)
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:
        outputs = _shown(rpc.deserialize_properties(request.outputs, keep_unknowns=True))
        self.deployment.outputs.append((request.urn, outputs))
        self.deployment.order.append("outputs of " + request.urn.rpartition("::")[2])
        return super().RegisterResourceOutputs(request)


class Engine(pulumi.runtime.Mocks):
    """A mock of the Pulumi engine, whose cluster has the objects that a test sets.

    Attributes:
        live: Outputs that the cluster adds to an object, by its Kubernetes name.
        state: Resources of the stack after the last update, by URN; None if the engine does not
            report them.
    """

    def __init__(self) -> None:
        self.live: dict[str, dict[str, Any]] = {}
        self.state: dict[str, Any] | None = None

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, Any]:
        name = (args.inputs.get("metadata") or {}).get("name")
        return f"{args.name}-id", {**args.inputs, **self.live.get(name, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        if args.token == "pulumi:pulumi:readStackResourceOutputs" and self.state is not None:
            assert args.args["stackName"].endswith("/app/dev")
            return {"outputs": self.state}
        return {}, None

    def run(self, program: Callable[[], Any], *, preview: bool = False) -> Deployment:
        """Run a program as the engine would; export the mapping that it returns."""
        deployment = Deployment()
        monitor = _Monitor(self, deployment)
        saved = {name: getattr(settings.SETTINGS, name) for name in _SETTINGS}
        # A failed program leaves pending RPCs and outputs; `pulumi.runtime.test` clears them too.
        settings.SETTINGS.rpc_manager.clear()
        settings.SETTINGS.outputs.clear()
        try:
            contextvars.copy_context().run(_run, self, monitor, deployment, program, preview)
        finally:
            for name, value in saved.items():
                setattr(settings.SETTINGS, name, None)
                setattr(settings.SETTINGS, name, value)
        return deployment


class _InlineExecutor(ThreadPoolExecutor):
    """Call functions immediately, because the mock monitor leaves event loops open in threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # raised where the future is awaited
            future.set_exception(error)
        return future


_SETTINGS = ("callbacks", "dry_run", "engine", "monitor", "organization", "project", "stack")


def _run(
    engine: Engine,
    monitor: _Monitor,
    deployment: Deployment,
    program: Callable[[], Any],
    preview: bool,
) -> None:
    logger: Any = SimpleNamespace(
        debug=lambda _text: None,
        info=deployment.logged.append,
        warning=lambda text: deployment.logged.append(f"warning: {text}"),
        error=lambda text: deployment.logged.append(f"error: {text}"),
    )

    async def main() -> None:
        pulumi.runtime.set_mocks(
            engine, project="app", stack="dev", preview=preview, logger=logger, monitor=monitor
        )
        await stack.run_pulumi_func(body)
        # `run_pulumi_func` does not await the tasks of messages and of the stack's registration.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.gather(*tasks)
        for name, value in deployment.made.items() if isinstance(deployment.made, Mapping) else ():
            output = pulumi.Output.from_input(value)
            known = await output.is_known()
            deployment.exports[name] = await output.future() if known else ...

    def body() -> None:
        deployment.made = program()

    loop = asyncio.new_event_loop()
    executor = _InlineExecutor()
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main())
    finally:
        # A failed program leaves tasks that wait for each other.
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        executor.shutdown()
        asyncio.set_event_loop(None)
        loop.close()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    # Unlike a user's test with mocks, each run is a complete program.
    monkeypatch.setattr(cluster_access, "is_program_running", lambda: True)
    # Otherwise each resource reads the source of every stack frame; pytest alone has forty.
    monkeypatch.setattr(resource, "_get_stack_trace", StackTrace)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    yield Engine()
    logging.getLogger("asyncio").setLevel(logging.NOTSET)


@pytest.fixture(name="stack")
def _stack(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Stack:
    return create_stack(engine, monkeypatch)


@pytest.fixture
def story() -> Callable[[int], InferenceServiceArgs]:
    """Load a user story of the design documents by its number."""

    def read(number: int) -> InferenceServiceArgs:
        (path,) = STORIES.glob(f"fusioninfer-story-{number}-*.yaml")
        (args,) = load(path)
        return args

    return read
