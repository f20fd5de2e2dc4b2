"""Serves: a service is updated by Pulumi under load."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.engine.project import Project, missing
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, figures
from e2e.serve.services import IMAGE, MODEL, NEED, objects_of, role, router, service
from e2e.serve.serving import START_SECONDS, Serving

pytestmark = [
    pytest.mark.serve,
    pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}"),
]

OTHER_IMAGE = f"mirror.example/{IMAGE}"
"""The same release from elsewhere: every pod is replaced, and serves as before."""

NEEDS = f"{NEED} with the Pulumi engine on PATH"


class Stack:
    """A service of two replicas that Pulumi has deployed, behind Envoy.

    Attributes:
        running: The cluster.
        namespace: Of the service.
        project: Pulumi's.
        gateway: In front of the service.
    """

    def __init__(self, running: Serving) -> None:
        """Deploy it."""
        self.running = running
        self.namespace = running.cluster.new_namespace()
        folder = Path(tempfile.mkdtemp(dir=os.environ["TMPDIR"])) / "app"
        self.project = Project(folder, running.cluster.kubeconfig, seconds=2 * START_SECONDS)
        self.update()
        self.gateway = Gateway(running.cluster, self.namespace, "svc-httproute")

    def update(self, *, image: str = IMAGE, replicas: int = 2) -> None:
        """Run `pulumi up`, and wait until everything serves."""
        inference = role(replicas=replicas, image=image)
        wait = {"timeout": f"{START_SECONDS:.0f}s"}
        manifest = service(self.namespace, router(), inference, wait=wait, rollout=wait)
        objects = objects_of(manifest)
        self.running.bring(objects)
        self.project.write(manifest)
        self.project.up().assert_fine()
        wait_serving(self.running, objects, self.namespace)

    def load(self) -> Load:
        """Two clients."""
        return Load(self.gateway.url, MODEL, host=self.gateway.host, clients=2)

    def images(self) -> set[str]:
        """Those of the engines' pods."""
        return {_image(pod) for pod in self.running.pods(self.namespace, LEADERS)}


def _image(pod: Object) -> str:
    (container,) = pod["spec"]["containers"]
    return str(container["image"])


@pytest.fixture(scope="module")
def stack(running: Serving) -> Iterator[Stack]:
    made = Stack(running)
    yield made
    made.gateway.close()
    made.project.down()
    running.cluster.delete_namespace(made.namespace)


@pytest.mark.proves(
    "`pulumi up` with another image replaces every pod of two replicas under load, and no request "
    "fails",
    needs=NEEDS,
)
def test_an_image_change_loses_no_request(stack: Stack) -> None:
    assert stack.images() == {IMAGE}
    with stack.load() as load:
        load.wait(40)
        before = len(load.answers)
        stack.update(image=OTHER_IMAGE)
        during = len(load.answers)
        load.wait(20)
    assert stack.images() == {OTHER_IMAGE}
    print(f"before: {figures(load.answers[:before])}")
    print(f"during: {figures(load.answers[before:during])}")
    print(f"after: {figures(load.answers[during:])}")
    assert load.failed() == []


@pytest.mark.long
@pytest.mark.proves(
    "`pulumi up` with one replica more, and then one less, loses no request under load",
    needs=NEEDS,
)
def test_scaling_loses_no_request(stack: Stack) -> None:
    with stack.load() as load:
        load.wait(20)
        stack.update(image=OTHER_IMAGE, replicas=3)
        load.wait(20)
        stack.update(image=OTHER_IMAGE, replicas=2)
        load.wait(20)
    print(figures(load.answers))
    assert load.failed() == []
