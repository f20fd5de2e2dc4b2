"""The undocumented parts of the SDK that the program runner uses still exist.

The list with the reasons is in `fusioninfer_pulumi/cli/program/mock_monitor.py`.
"""

from __future__ import annotations

import inspect
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pulumi
import pytest
from pulumi.runtime.mocks import MockMonitor

from fusioninfer_pulumi.cli.program.mock_monitor import RecordingMonitor
from fusioninfer_pulumi.cli.program.recording import Recording

Run = Callable[..., Recording]
SDK = Path(pulumi.__file__).parent

REGISTERS = """
    def same(args):
        return pulumi.ResourceTransformResult(props=args.props, opts=args.opts)

    pulumi.runtime.register_stack_transform(same)
    pulumi.runtime.register_invoke_transform(lambda args: None)
    hook = pulumi.ResourceHook("wait", lambda args: None)
    k8s.core.v1.ConfigMap("a", metadata={"name": "a"}, opts=pulumi.ResourceOptions(
        transforms=[same], hooks=pulumi.ResourceHookBinding(before_create=[hook])))
    """


def sources() -> str:
    """Return the source of the SDK's runtime without its callback server, which ours replaces."""
    paths = set((SDK / "runtime").glob("*.py")) - {SDK / "runtime" / "_callbacks.py"}
    return "".join(path.read_text(encoding="utf-8") for path in sorted(paths))


def test_registered_functions_need_no_server(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def served(*_: Any, **__: Any) -> None:
        raise AssertionError("the SDK opens a server")

    monkeypatch.setattr(grpc.aio, "server", served)  # the child process inherits it
    assert len(run(REGISTERS).objects) == 1


def test_recorder_accepts_every_function_the_sdk_registers() -> None:
    called = set(re.findall(r"callback(?:s|_server)\.(register_\w+)\(", sources()))
    assert called >= {"register_transform", "register_stack_transform", "register_resource_hook"}
    # The mocks do not support state migrations, so the SDK rejects them itself.
    assert {
        name
        for name in called - {"register_state_migration"}
        if not hasattr(RecordingMonitor, name)
    } == set()


def test_recorder_answers_every_call_to_the_monitor() -> None:
    called = set(re.findall(r"monitor\.([A-Z]\w+)\(", sources()))
    assert called >= {"RegisterResource", "ReadResource", "Invoke", "Call"}
    assert {name for name in called if not hasattr(RecordingMonitor, name)} == set()
    assert issubclass(RecordingMonitor, MockMonitor)


def test_calls_to_the_monitor_run_in_the_main_thread(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = RecordingMonitor.RegisterResource

    def checking(self: RecordingMonitor, request: Any) -> Any:
        assert threading.current_thread() is threading.main_thread()
        return original(self, request)

    monkeypatch.setattr(
        RecordingMonitor, "RegisterResource", checking
    )  # the child process inherits it
    assert run('k8s.core.v1.ConfigMap("a", metadata={"name": "a"})').objects


@pytest.mark.parametrize("name", ["invoke_output", "invoke_output_single"])
def test_functions_that_return_an_output_take_a_token_and_arguments(name: str) -> None:
    parameters = list(inspect.signature(getattr(pulumi.runtime, name)).parameters)
    assert parameters[:2] == ["tok", "props"]
