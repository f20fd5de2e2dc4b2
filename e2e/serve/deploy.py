"""Deployment of rendered services."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.harness import Object
from e2e.harness.pods import LEADERS
from e2e.serve.gateway import Gateway
from e2e.serve.load import Load, complete
from e2e.serve.services import MODEL, render_objects, service
from e2e.serve.serving import Serving
from fusioninfer_pulumi.engines.engine_commands import parse_command


@dataclass(frozen=True)
class Deployed:
    """A service with ready pods behind an Envoy."""

    running: Serving
    namespace: str
    gateway: Gateway

    def pods(self, selector: str = LEADERS) -> list[Object]:
        """Return pods that are not terminating; by default leaders."""
        return self.running.pods(self.namespace, selector)

    def uids(self, selector: str = LEADERS) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods(selector)}

    def send_request(self, prompt: str, model: str = MODEL, **more: Any) -> Object:
        """Send a request through the gateway; return the response, by default of eight tokens."""
        gateway = self.gateway
        answer: Object = complete(gateway.url, model, prompt, host=gateway.host, **more)
        assert answer["usage"]["completion_tokens"] == more.get("tokens", 8)
        return answer

    def load(self, model: str = MODEL, **more: Any) -> Load:
        return Load(self.gateway.url, model, host=self.gateway.host, **more)


@contextmanager
def deploy_service(running: Serving, *roles: Object, **spec: Any) -> Iterator[Deployed]:
    """Deploy a service with these roles, and delete it afterwards."""
    manifest = service(running.cluster.new_namespace(), *roles, **spec)
    with deploy_manifest(running, manifest) as it:
        yield it


@contextmanager
def deploy_manifest(running: Serving, manifest: Object) -> Iterator[Deployed]:
    """Deploy the service `svc` with a route, and delete its namespace afterwards."""
    namespace = manifest["metadata"]["namespace"]
    _apply_manifest(running, manifest)
    gateway = Gateway(running.cluster, namespace, "svc-httproute")
    try:
        yield Deployed(running, namespace, gateway)
    finally:
        gateway.close()
        running.cluster.delete_namespace(namespace)


def apply_service(running: Serving, namespace: str, *roles: Object, **spec: Any) -> None:
    _apply_manifest(running, service(namespace, *roles, **spec))


def _apply_manifest(running: Serving, manifest: Object) -> None:
    objects = render_objects(manifest)
    running.apply(objects)
    wait_serving(running, objects, manifest["metadata"]["namespace"])


def render_file(service: Path) -> list[Object]:
    program = Path(sys.executable).with_name("fusioninfer-pulumi")
    command = [str(program), "render", str(service)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [document for document in yaml.safe_load_all(output.stdout) if document]


def apply(serving: Serving, service: Path, namespace: str) -> None:
    objects = render_file(service)
    serving.apply(objects, namespace)
    wait_serving(serving, objects, namespace)


def wait_serving(serving: Serving, objects: list[Object], namespace: str) -> None:
    """Wait until all leaders and endpoint pickers are ready."""
    replicas = sum(
        item["spec"]["replicas"] for item in objects if item["kind"] == "LeaderWorkerSet"
    )
    serving.wait_ready(namespace, replicas, LEADERS)
    wait_for_pickers(serving, objects, namespace)


def wait_for_pickers(serving: Serving, objects: list[Object], namespace: str) -> None:
    for item in objects:
        if item["kind"] == "Deployment":
            serving.wait_ready(namespace, item["spec"]["replicas"], _format_selector(item), 120)


def _format_selector(deployment: Object) -> str:
    labels = deployment["spec"]["selector"]["matchLabels"]
    return ",".join(f"{key}={value}" for key, value in labels.items())


def find_model_name(objects: list[Object]) -> str:
    """Return the served model name of the first engine that sets one."""
    for item in objects:
        if item["kind"] != "LeaderWorkerSet":
            continue
        template = item["spec"]["leaderWorkerTemplate"]
        leader = template.get("leaderTemplate") or template["workerTemplate"]
        for container in leader["spec"]["containers"]:
            for name in parse_command(container).served_names or ():
                return name
    raise ValueError("no engine sets its served model name")
