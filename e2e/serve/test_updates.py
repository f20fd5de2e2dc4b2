"""Serves: a service is updated by Pulumi under load."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.engine.project import CommandResult, Project, missing
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import RUNNING, Load, by_pod, figures, outage
from e2e.serve.services import IMAGE, MODEL, objects_of, role, router, service
from e2e.serve.serving import START_SECONDS, Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}"),
]

OTHER_IMAGE = f"mirror.example/{IMAGE}"
"""The same release from elsewhere: every pod is replaced, and serves as before."""

ABSENT_IMAGE = f"absent.example/{IMAGE}"
"""No registry has it."""

LONG_TOKENS = 300
"""Take an engine some seconds."""


class Stack:
    """A service of two replicas that Pulumi has deployed, behind Envoy."""

    def __init__(self, running: Serving) -> None:
        self.running = running
        self.image = IMAGE
        self.namespace = running.cluster.new_namespace()
        folder = Path(tempfile.mkdtemp(dir=os.environ["TMPDIR"])) / "app"
        self.project = Project(folder, running.cluster.kubeconfig, seconds=2 * START_SECONDS)
        self.update()
        self.gateway = Gateway(running.cluster, self.namespace, "svc-httproute")

    def update(self, *, image: str | None = None, replicas: int = 2) -> None:
        """Run `pulumi up`, with the same image unless one is given; wait until all serves."""
        self.image = image or self.image
        manifest = self._write(self.image, replicas, START_SECONDS)
        objects = objects_of(manifest)
        self.running.bring(objects)
        self.project.up().assert_succeeded()
        wait_serving(self.running, objects, self.namespace)

    def try_update(self, image: str, seconds: float) -> CommandResult:
        self._write(image, 2, seconds)
        return self.project.up()

    def _write(self, image: str, replicas: int, seconds: float) -> Object:
        limit = {"timeout": f"{seconds:.0f}s"}
        inference = role(replicas=replicas, image=image)
        manifest = service(self.namespace, router(), inference, wait=limit, rollout=limit)
        self.project.write(manifest)
        return manifest

    def load(self, tokens: int = 8, clients: int = 2) -> Load:
        host = self.gateway.host
        return Load(self.gateway.url, MODEL, host=host, clients=clients, tokens=tokens)

    def pods(self) -> list[Object]:
        return self.running.pods(self.namespace, LEADERS)

    def images(self) -> set[str]:
        return {_image(pod) for pod in self.pods()}


def _image(pod: Object) -> str:
    (container,) = pod["spec"]["containers"]
    return str(container["image"])


@pytest.fixture(scope="module")
def stack(running: Serving) -> Iterator[Stack]:
    made = Stack(running)
    yield made
    made.gateway.close()
    running.cluster.delete_namespace(made.namespace)


@pytest.mark.proves("An image change under load fails no request")
def test_image_change_loses_no_request(stack: Stack) -> None:
    assert stack.images() == {IMAGE}
    with stack.load() as load:
        load.wait(40)
        before = len(load.answers)
        stack.update(image=OTHER_IMAGE)
        during = len(load.answers)
        load.wait(20)
    assert stack.images() == {OTHER_IMAGE}
    _tell(load, before=before, during=during)
    assert load.failed() == []


@pytest.mark.long
@pytest.mark.proves("Scaling up and down under load fails no request")
def test_scaling_loses_no_request(stack: Stack) -> None:
    with stack.load() as load, stack.load(LONG_TOKENS, clients=3) as long:
        load.wait(40)
        before = len(load.answers)
        stack.update(replicas=3)
        grown = len(load.answers)
        load.wait(40)
        busy = by_pod(stack.pods(), RUNNING)
        shrinks = len(load.answers)
        stack.update(replicas=2)
        shrunk = len(load.answers)
        load.wait(20)
    _tell(load, before=before, growing=grown)
    _tell(load, before=shrinks, shrinking=shrunk)
    print(f"requests on pods before one went: {busy}; {figures(long.answers)}")
    assert load.failed() == long.failed() == []


@pytest.mark.long
@pytest.mark.proves("A failing image and its repair fail no request")
def test_rollback_loses_no_request(stack: Stack) -> None:
    kept = {pod["metadata"]["uid"] for pod in stack.pods()}
    with stack.load() as load:
        load.wait(40)
        before = len(load.answers)
        output = stack.try_update(ABSENT_IMAGE, 45)
        failed = len(load.answers)
        assert output.status != 0
        assert "is not available after 45s" in output.text
        assert kept & {pod["metadata"]["uid"] for pod in stack.pods()}
        stack.update()
        repaired = len(load.answers)
        load.wait(20)
    assert stack.images() == {stack.image}
    assert len(kept & {pod["metadata"]["uid"] for pod in stack.pods()}) == 1
    _tell(load, before=before, failing=failed, repairing=repaired)
    assert load.failed() == []


def _tell(load: Load, *, before: int, **until: int) -> None:
    """Print the figures before an update, and of its phases until those numbers of answers."""
    print(f"before: {figures(load.answers[:before])}")
    for phase, end in until.items():
        print(f"{phase}: {figures(load.answers[before:end])}; {outage(load.answers[before:end])}")
        before = end
