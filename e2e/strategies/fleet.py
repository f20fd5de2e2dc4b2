"""The pods of a service with somebody at home, and pickers that choose among them."""

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
from e2e.harness.ext_proc import Answer, ExternalProcessor
from e2e.harness.processes import LOOPBACK, Lifetime, free_ports
from e2e.routers import PICKERS, generated_picker, objects_of, routed
from e2e.strategies.engine import MODEL, Engine, Load

PATIENCE = 60
PLAIN: Object = {"tls": {"enabled": False}}
"""The picker without TLS, as the library writes it: what it signs itself for, Python's gRPC cannot
take unseen, as gateways do."""

Change = Callable[[Object], Object]


def same(manifest: Object) -> Object:
    return manifest


class Fleet(Lifetime):
    """The pods of a namespace, each played by a stand-in at its address.

    The pods are real objects, made by LeaderWorkerSet of what the library renders. The engines'
    port is one that nothing on this machine listens on, and the generated pool follows it.
    """

    def __init__(self, cluster: Cluster, namespace: str, service: Change = same) -> None:
        """Decide what will run."""
        self.cluster = cluster
        self.namespace = namespace
        self.engines: dict[str, Engine] = {}
        (self._port,) = free_ports(1)
        self._service = service
        self._stack = ExitStack()

    def open(self) -> None:
        self.cluster.add_nodes(1)

    def close(self) -> None:
        self._stack.close()

    def manifest(self, name: str = "svc", **router: Any) -> Object:
        made = self._service(routed(self.namespace, name, **router))
        for role in made["spec"]["roles"][1:]:
            (container,) = role["template"]["spec"]["containers"]
            container["args"] += ["--port", str(self._port)]
        return made

    def deploy(self, *names: str, pods: int) -> None:
        """Apply services whole and man their serving pods and workers."""
        for name in names:
            self.cluster.apply(objects_of(self.manifest(name)))
        selector = "leaderworkerset.sigs.k8s.io/name"
        found = self.cluster.wait(
            lambda: self._with_address(selector, pods),
            PATIENCE,
            lambda: self.cluster.pods(self.namespace),
        )
        for pod in found:
            engine = Engine(pod["status"]["podIP"], self._port)
            self.engines[pod["metadata"]["name"]] = self._stack.enter_context(engine)

    def _with_address(self, selector: str, count: int) -> list[Object]:
        found = self.cluster.pods(self.namespace, selector)
        there = [pod for pod in found if pod["status"].get("podIP")]
        return there if len(there) == count else []

    def load(self, loads: Mapping[str, Load] | None = None, default: Load | None = None) -> None:
        """Say how busy the pods are; those that are not named get the default."""
        for name, engine in self.engines.items():
            engine.load = (loads or {}).get(name, default or Load())

    def wait_scraped(self, pods: Sequence[str] = ()) -> None:
        """Wait until the picker acts on what the metrics of these pods, or of all, say now.

        It reads a pod's metrics again only once it has taken in those before.
        """
        chosen = [self.engines[name] for name in pods or self.engines]
        before = [server.scrapes for server in chosen]
        self.cluster.wait(
            lambda: all(s.scrapes >= b + 3 for s, b in zip(chosen, before, strict=True)),
            PATIENCE,
            lambda: f"scrapes: { ({s.endpoint: s.scrapes for s in chosen}) }",
        )

    def routing(self, version: str, change: Change = same, **router: Any) -> list[Object]:
        """Apply what a router becomes, and return it as the API server stores it."""
        own = router.pop("endpointPicker", PLAIN)
        image = {"image": PICKERS[version].image}
        manifest = change(self.manifest(endpointPicker={**own, **image}, **router))
        objects = [o for o in objects_of(manifest) if o["kind"] != "LeaderWorkerSet"]
        return self.cluster.apply(objects)

    @contextmanager
    def picker(self, version: str, change: Change = same, **router: Any) -> Iterator[Chooser]:
        """Run a picker with what a router becomes, and nothing else; see `routing`."""
        with self.run(version, self.routing(version, change, **router)) as chooser:
            yield chooser

    @contextmanager
    def run(
        self, version: str, objects: Sequence[Object], authority: bytes | None = None
    ) -> Iterator[Chooser]:
        """Run a picker with stored objects; see `ExternalProcessor` for the authority."""
        with generated_picker(self.cluster, version, objects) as picker:
            picker.wait_serving()
            # SERVING comes before: making a certificate of its own takes a picker a second.
            self.cluster.wait(lambda: _listens(picker.grpc_port), message=picker.program.tail)
            target = f"{LOOPBACK}:{picker.grpc_port}"
            with ExternalProcessor(target, authority) as processor:
                yield Chooser(self, picker, processor)


class Chooser:
    """A running picker that is asked."""

    def __init__(self, fleet: Fleet, picker: EndpointPicker, processor: ExternalProcessor) -> None:
        self._fleet = fleet
        self.processor = processor
        self.picker = picker
        self._names = {engine.endpoint: name for name, engine in fleet.engines.items()}
        self._numbers = itertools.count()

    def ask(
        self,
        prompt: str | None = None,
        model: str = MODEL,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one completion request; without a prompt, one of which no block was ever seen."""
        text = f"{next(self._numbers):08} is new. " * 10 if prompt is None else prompt
        return self.processor.ask({"model": model, "prompt": text}, headers=headers)

    def pick(self, prompt: str | None = None, model: str = MODEL) -> str:
        return self.pod(self.ask(prompt, model))

    def pod(self, answer: Answer) -> str:
        assert answer.endpoint is not None, f"the picker answers {answer.status} {answer.body!r}"
        return self.named(answer.endpoint)

    def named(self, endpoint: str) -> str:
        return self._names[endpoint]

    def picks(self, count: int, prompt: str | None = None, model: str = MODEL) -> Counter[str]:
        return Counter(self.pick(prompt, model) for _ in range(count))

    def warm(self, prompt: str) -> str:
        """Send a prompt once and return its pod, when the picker has recorded which it was."""
        pod = self.pick(prompt)
        # Pickers do that after they have answered; on a busy machine they also read metrics later.
        time.sleep(0.3)
        self._fleet.wait_scraped()
        return pod


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 5):
        return True
    return False


def busy(pods: Sequence[str], **values: Sequence[Any]) -> dict[str, Load]:
    """Loads of pods: `waiting=(0, 5)` is the value of the first pod and that of the second."""
    return {
        pod: replace(Load(), **{key: value[index] for key, value in values.items()})
        for index, pod in enumerate(pods)
    }
