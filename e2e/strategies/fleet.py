"""Pods of a service with stand-ins for engines, and endpoint pickers that choose among them."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from e2e.harness import Cluster, EndpointPicker, Object
from e2e.harness.ext_proc import ExternalProcessor, PickerResponse
from e2e.harness.processes import LOOPBACK, Lifetime, find_ports
from e2e.routers import PICKERS, make_picker, make_routed, render_objects
from e2e.strategies.engine import MODEL, Engine, Load

TIMEOUT = 60
PLAIN: Object = {"tls": {"enabled": False}}
"""No TLS, because Python's gRPC always verifies certificates; gateways accept self-signed ones."""

Change = Callable[[Object], Object]


def unchanged(manifest: Object) -> Object:
    return manifest


class Fleet(Lifetime):
    """Pods of rendered LeaderWorkerSets, with a stand-in at each pod's address.

    The engines use a free port of this machine, which is also the port of the generated pool.
    """

    def __init__(self, cluster: Cluster, namespace: str, service: Change = unchanged) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.engines: dict[str, Engine] = {}
        (self._port,) = find_ports(1)
        self._service = service
        self._stack = ExitStack()

    def open(self) -> None:
        self.cluster.add_nodes(1)

    def close(self) -> None:
        self._stack.close()

    def make_manifest(self, name: str = "svc", **router: Any) -> Object:
        manifest = self._service(make_routed(self.namespace, name, **router))
        for role in manifest["spec"]["roles"][1:]:
            (container,) = role["template"]["spec"]["containers"]
            container["args"] += ["--port", str(self._port)]
        return manifest

    def deploy(self, *names: str, pods: int) -> None:
        """Apply all objects of services and start a stand-in for each pod."""
        for name in names:
            self.cluster.apply(render_objects(self.make_manifest(name)))
        selector = "leaderworkerset.sigs.k8s.io/name"
        ready = self.cluster.wait(
            lambda: self._list_pods_with_address(selector, pods),
            TIMEOUT,
            lambda: self.cluster.pods(self.namespace),
        )
        for pod in ready:
            engine = Engine(pod["status"]["podIP"], self._port)
            self.engines[pod["metadata"]["name"]] = self._stack.enter_context(engine)

    def _list_pods_with_address(self, selector: str, count: int) -> list[Object]:
        pods = self.cluster.pods(self.namespace, selector)
        bound = [pod for pod in pods if pod["status"].get("podIP")]
        return bound if len(bound) == count else []

    def load(self, loads: Mapping[str, Load] | None = None, default: Load | None = None) -> None:
        """Set the load of each pod, to the default for pods without a load."""
        for name, engine in self.engines.items():
            engine.load = (loads or {}).get(name, default or Load())

    def wait_scraped(self, pods: Sequence[str] = ()) -> None:
        """Wait until the picker uses the current metrics of these pods, or of all pods.

        It scrapes a pod again only after processing the previous scrape.
        """
        chosen = [self.engines[name] for name in pods or self.engines]
        before = [server.scrapes for server in chosen]
        self.cluster.wait(
            lambda: all(s.scrapes >= b + 3 for s, b in zip(chosen, before, strict=True)),
            TIMEOUT,
            lambda: f"scrapes: { ({s.endpoint: s.scrapes for s in chosen}) }",
        )

    def apply_router(self, version: str, change: Change = unchanged, **router: Any) -> list[Object]:
        """Apply the router's objects; return them as stored."""
        picker = router.pop("endpointPicker", PLAIN)
        image = {"image": PICKERS[version].image}
        manifest = change(self.make_manifest(endpointPicker={**picker, **image}, **router))
        objects = [o for o in render_objects(manifest) if o["kind"] != "LeaderWorkerSet"]
        return self.cluster.apply(objects)

    @contextmanager
    def run_picker(
        self, version: str, change: Change = unchanged, **router: Any
    ) -> Iterator[PickerClient]:
        """Run a picker with only the objects of `apply_router`."""
        with self.connect(version, self.apply_router(version, change, **router)) as client:
            yield client

    @contextmanager
    def connect(
        self, version: str, objects: Sequence[Object], authority: bytes | None = None
    ) -> Iterator[PickerClient]:
        """Run a picker with these objects and connect to it."""
        with make_picker(self.cluster, version, objects) as picker:
            picker.wait_serving()
            # Pickers report SERVING a second earlier, before they create their certificate.
            self.cluster.wait(lambda: _is_listening(picker.grpc_port), message=picker.program.tail)
            target = f"{LOOPBACK}:{picker.grpc_port}"
            with ExternalProcessor(target, authority) as processor:
                yield PickerClient(self, picker, processor)


class PickerClient:
    """Client of a running endpoint picker."""

    def __init__(self, fleet: Fleet, picker: EndpointPicker, processor: ExternalProcessor) -> None:
        self._fleet = fleet
        self.processor = processor
        self.picker = picker
        self._names = {engine.endpoint: name for name, engine in fleet.engines.items()}
        self._numbers = itertools.count()

    def send_request(
        self,
        prompt: str | None = None,
        model: str = MODEL,
        headers: Mapping[str, str] | None = None,
    ) -> PickerResponse:
        """Send a completion request, by default with a prompt that shares no prefix."""
        text = f"{next(self._numbers):08} is new. " * 10 if prompt is None else prompt
        return self.processor.send_request({"model": model, "prompt": text}, headers=headers)

    def pick(self, prompt: str | None = None, model: str = MODEL) -> str:
        return self.get_pod(self.send_request(prompt, model))

    def get_pod(self, answer: PickerResponse) -> str:
        assert answer.endpoint is not None, f"the picker answers {answer.status} {answer.body!r}"
        return self.get_pod_at(answer.endpoint)

    def get_pod_at(self, endpoint: str) -> str:
        return self._names[endpoint]

    def pick_many(self, count: int, prompt: str | None = None, model: str = MODEL) -> Counter[str]:
        return Counter(self.pick(prompt, model) for _ in range(count))

    def cache_prompt(self, prompt: str) -> str:
        """Send a prompt once; return its pod after the picker has recorded it."""
        pod = self.pick(prompt)
        # Pickers record it after responding. On a busy machine they also scrape metrics late.
        time.sleep(0.3)
        self._fleet.wait_scraped()
        return pod


def _is_listening(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 5):
        return True
    return False


def make_loads(pods: Sequence[str], **values: Sequence[Any]) -> dict[str, Load]:
    """Return loads of pods: `waiting=(0, 5)` sets 0 for the first pod and 5 for the second."""
    return {
        pod: replace(Load(), **{key: value[index] for key, value in values.items()})
        for index, pod in enumerate(pods)
    }
