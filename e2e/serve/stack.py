"""A service that Pulumi deploys and updates under load."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from e2e.engine.project import Project
from e2e.engine.services import poll
from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.deploy import wait_serving
from e2e.serve.gateway import Gateway
from e2e.serve.load import BY_SOURCE, Load, sum_metric
from e2e.serve.services import MODEL, render_objects, service
from e2e.serve.serving import START_TIMEOUT, Serving

COMPUTED, FETCHED = "local_compute", "external_kv_transfer"
"""Where a decode engine's prompt tokens come from."""


class Stack:
    """A service behind Envoy; `make` returns roles and other fields of its spec for settings."""

    def __init__(
        self, running: Serving, make: Callable[..., tuple[list[Object], Object]], **settings: Any
    ) -> None:
        self.running = running
        self.settings = settings
        self.namespace = running.cluster.new_namespace()
        self._make = make
        folder = Path(tempfile.mkdtemp(dir=os.environ["TMPDIR"])) / "app"
        self.project = Project(folder, running.cluster.kubeconfig, timeout=4 * START_TIMEOUT)
        self.update()
        self.gateway = Gateway(running.cluster, self.namespace, "svc-httproute")

    def close(self) -> None:
        self.gateway.close()
        self.running.cluster.delete_namespace(self.namespace)

    def update(self, **changes: Any) -> None:
        """Run `pulumi up` with changed settings; wait until all pods serve and none terminates."""
        self.settings |= changes
        objects = render_objects(self.write(START_TIMEOUT, **self.settings))
        self.running.load_manifest_images(objects)
        self.project.up().assert_succeeded()
        wait_serving(self.running, objects, self.namespace)
        self.running.cluster.wait(lambda: not self._list_terminating(), 180, self._list_terminating)

    def write(self, timeout: float, **settings: Any) -> Object:
        """Write a program with these settings and timeouts; return the manifest of the service."""
        roles, more = self._make(**settings)
        timeouts = {"timeout": f"{timeout:.0f}s"}
        rollout = {**more.pop("rollout", {}), **timeouts}
        manifest = service(self.namespace, *roles, wait=timeouts, rollout=rollout, **more)
        self.project.write(manifest)
        return manifest

    def _list_terminating(self) -> list[Object]:
        pods = self.running.cluster.pods(self.namespace, LEADERS)
        return [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]

    def load(self, *, clients: int = 2, **more: Any) -> Load:
        return Load(self.gateway.url, MODEL, host=self.gateway.host, clients=clients, **more)

    @contextmanager
    def prompt_tokens(self, selector: str, port: int) -> Iterator[Callable[[str], int]]:
        """Yield a function that counts prompt tokens by their source, once the context has ended.

        It reads engines once a second, also those that terminate meanwhile.
        """
        texts: dict[str, str] = {}

        def read() -> None:
            for pod in self.running.cluster.pods(self.namespace, selector):
                url = f"http://{pod['status'].get('podIP')}:{port}/metrics"
                try:
                    answer = urllib3.request("GET", url, timeout=10, retries=False)
                except (urllib3.exceptions.HTTPError, ValueError):
                    continue  # The engine is starting or has exited.
                texts[pod["metadata"]["uid"]] = answer.data.decode()

        def sum_source(source: str) -> float:
            return sum(sum_metric(text, BY_SOURCE, source=source) for text in texts.values())

        read()
        before = {source: sum_source(source) for source in (COMPUTED, FETCHED)}
        with poll(read, every=1):
            yield lambda source: round(sum_source(source) - before[source])
        read()
