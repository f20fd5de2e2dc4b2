"""Updates by Pulumi under load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest

from e2e.engine.project import PROGRAMS
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.load import RUNNING, Load, describe_failures, describe_latency, read_by_pod
from e2e.serve.services import IMAGE, needs, role, router
from e2e.serve.serving import Serving
from e2e.serve.stack import Stack

pytestmark = [pytest.mark.serve, needs(*PROGRAMS)]

OTHER_IMAGE = f"mirror.example/{IMAGE}"
"""The same release from another registry, so that an update replaces every pod."""

ABSENT_IMAGE = f"absent.example/{IMAGE}"
LONG_TOKENS = 300
"""An engine needs some seconds for so many tokens."""

SCALE_DOWNS = 10


def _make(*, image: str, replicas: int) -> tuple[list[Object], Object]:
    return [router(), role(replicas=replicas, image=image)], {}


def _list_pods(stack: Stack) -> list[Object]:
    return stack.running.pods(stack.namespace, LEADERS)


def _list_images(stack: Stack) -> set[str]:
    return {
        container["image"] for pod in _list_pods(stack) for container in pod["spec"]["containers"]
    }


@pytest.fixture(scope="module")
def stack(running: Serving) -> Iterator[Stack]:
    with closing(Stack(running, _make, image=IMAGE, replicas=2)) as deployed:
        yield deployed


@pytest.mark.verifies("An image change under load fails no request")
def test_image_change_loses_no_request(stack: Stack) -> None:
    assert _list_images(stack) == {IMAGE}
    with stack.load() as load:
        load.wait(40)
        before = len(load.answers)
        stack.update(image=OTHER_IMAGE)
        during = len(load.answers)
        load.wait(20)
    assert _list_images(stack) == {OTHER_IMAGE}
    _print_phases(load, before=before, during=during)
    assert load.list_failed() == []


@contextmanager
def keep_processors_busy() -> Iterator[None]:
    """Keep all processors busy, so that endpoint picker, Envoy and engines are slow."""
    command = [sys.executable, "-c", "while True: pass"]
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            stack.callback(stack.enter_context(subprocess.Popen(command)).kill)
        yield


@pytest.mark.long
@pytest.mark.verifies(
    f"Scaling up and down {SCALE_DOWNS} times under load on busy processors fails no request"
)
def test_scaling_loses_no_request(stack: Stack) -> None:
    with stack.load() as load, stack.load(tokens=LONG_TOKENS, clients=3) as long:
        load.wait(40)
        before = len(load.answers)
        for _ in range(SCALE_DOWNS):
            stack.update(replicas=3)
            after_growing = len(load.answers)
            load.wait(40)
            with keep_processors_busy():
                busy = read_by_pod(_list_pods(stack), RUNNING)
                before_shrinking = len(load.answers)
                stack.update(replicas=2)
                after_shrinking = len(load.answers)
                load.wait(20)
            _print_phases(load, before=before, growing=after_growing)
            _print_phases(load, before=before_shrinking, shrinking=after_shrinking)
            print(f"requests by pod before scaling down: {busy}; {describe_latency(long.answers)}")
            before = len(load.answers)
            assert load.list_failed() == long.list_failed() == []


@pytest.mark.long
@pytest.mark.verifies("A failing image and its repair fail no request")
def test_rollback_loses_no_request(stack: Stack) -> None:
    uids = {pod["metadata"]["uid"] for pod in _list_pods(stack)}
    with stack.load() as load:
        load.wait(40)
        before = len(load.answers)
        stack.write(45, image=ABSENT_IMAGE, replicas=2)
        output = stack.project.up()
        failed = len(load.answers)
        assert output.status != 0
        assert "is not available after 45s" in output.text
        assert uids & {pod["metadata"]["uid"] for pod in _list_pods(stack)}
        stack.update()
        repaired = len(load.answers)
        load.wait(20)
    assert _list_images(stack) == {stack.settings["image"]}
    assert len(uids & {pod["metadata"]["uid"] for pod in _list_pods(stack)}) == 1
    _print_phases(load, before=before, failing=failed, repairing=repaired)
    assert load.list_failed() == []


def _print_phases(load: Load, *, before: int, **until: int) -> None:
    """Print latency before an update and in its phases, which end at these numbers of answers."""
    print(f"before: {describe_latency(load.answers[:before])}")
    for phase, end in until.items():
        answers = load.answers[before:end]
        print(f"{phase}: {describe_latency(answers)}; {describe_failures(answers)}")
        before = end
