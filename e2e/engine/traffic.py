"""Clients whose requests follow HTTPRoutes, InferencePools and Services.

No gateway runs here. The stand-in reads the API server ten times a second and follows the Gateway
API: of two routes for a host the older one gets the requests, backends get requests by weight, and
a backend in another namespace needs a ReferenceGrant. A server at its address stands in for each
ready pod. The server outlives the pod, as an engine does during its graceful shutdown.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from e2e.engine.gateway import POOLS, ROUTES
from e2e.harness import Cluster, Object
from e2e.harness.pods import is_ready
from e2e.harness.stand_ins import StandIn
from e2e.strategies.engine import Engine

GRANTS = "gateway.networking.k8s.io/v1beta1/ReferenceGrant"
SERVICE = "fusioninfer.io/service"


@dataclass(frozen=True)
class Sent:
    """Result of a request: the pod that answered, or the reason for the failure."""

    namespace: str = ""
    service: str = ""
    pod: str = ""
    error: str = ""


@dataclass(frozen=True)
class Backend:
    """A backend that receives a share of the requests."""

    weight: int
    pods: Sequence[Object]
    error: str = ""


class Traffic(StandIn):
    """Context manager of clients that send requests to a host or a Service."""

    def __init__(
        self, cluster: Cluster, *namespaces: str, host: str = "", service: str = "", port: int
    ) -> None:
        """Set the target: a host of routes, or a Service of the first namespace."""
        self.sent: list[Sent] = []
        self.port = port
        self._cluster, self._namespaces = cluster, namespaces
        self._host, self._service = host, service
        self._backends: list[Backend] = []
        self._engines: set[str] = set()
        self._stop = threading.Event()
        self._ready = threading.Event()

    def wait(self, count: int) -> Sequence[Sent]:
        """Wait for a number of further requests, and return them."""
        begin = len(self.sent)
        deadline = time.monotonic() + 120
        while len(self.sent) < begin + count:
            assert time.monotonic() < deadline, f"{len(self.sent)} requests, {self._backends}"
            time.sleep(0.02)
        return self.sent[begin:]

    def count_errors(self) -> Counter[str]:
        return Counter(item.error for item in self.sent if item.error)

    def work(self) -> None:
        with ExitStack() as engines:
            clients = [threading.Thread(target=self._send_requests) for _ in range(2)]
            self._read(engines)
            for client in clients:
                client.start()
            try:
                while not self._stop.wait(0.1):
                    self._read(engines)
            finally:
                self._stop.set()
                for client in clients:
                    client.join()

    def stop(self) -> None:
        self._stop.set()

    def _read(self, engines: ExitStack) -> None:
        pods = [pod for namespace in self._namespaces for pod in self._cluster.pods(namespace)]
        ready = [pod for pod in pods if is_ready(pod) and pod["status"].get("podIP")]
        for pod in ready:
            address = pod["status"]["podIP"]
            if SERVICE in pod["metadata"]["labels"] and address not in self._engines:
                self._engines.add(address)
                engines.enter_context(Engine(address, self.port))
        follow = self._follow_route if self._host else self._follow_service
        self._backends = list(follow(ready))

    def _follow_service(self, ready: Sequence[Object]) -> Iterator[Backend]:
        namespace = self._namespaces[0]
        services = {s["metadata"]["name"]: s for s in self._cluster.list("v1/Service", namespace)}
        if self._service in services:
            selector = services[self._service]["spec"]["selector"]
            yield Backend(1, _select_pods(ready, namespace, selector))

    def _follow_route(self, ready: Sequence[Object]) -> Iterator[Backend]:
        routes = [route for name in self._namespaces for route in self._cluster.list(ROUTES, name)]
        matching = [route for route in routes if self._host in route["spec"].get("hostnames", ())]
        if not matching:
            return
        route = min(matching, key=lambda item: [
            item["metadata"][key] for key in ("creationTimestamp", "namespace", "name")
        ])  # fmt: skip
        home = route["metadata"]["namespace"]
        (rule,) = route["spec"]["rules"]
        for ref in rule["backendRefs"]:
            namespace, weight = ref.get("namespace", home), ref.get("weight", 1)
            if namespace != home and not self._is_granted(home, namespace):
                yield Backend(weight, (), f"no ReferenceGrant in {namespace}")
                continue
            assert ref["kind"] == "InferencePool"
            pools = {p["metadata"]["name"]: p for p in self._cluster.list(POOLS, namespace)}
            if ref["name"] not in pools:
                yield Backend(weight, (), f"no pool {ref['name']}")
                continue
            selector = pools[ref["name"]]["spec"]["selector"]["matchLabels"]
            yield Backend(weight, _select_pods(ready, namespace, selector))

    def _is_granted(self, home: str, namespace: str) -> bool:
        return any(
            source["namespace"] == home
            for grant in self._cluster.list(GRANTS, namespace)
            for source in grant["spec"]["from"]
        )

    def _send_requests(self) -> None:
        while not self._stop.is_set():
            self.sent.append(self._send_request())
            self._stop.wait(0.02)

    def _send_request(self) -> Sent:
        backends = self._backends
        if not any(backend.weight for backend in backends):
            return Sent(error="no route")
        (backend,) = random.choices(backends, [item.weight for item in backends])
        if not backend.pods:
            return Sent(error=backend.error or "no pod is ready")
        pod = random.choice(backend.pods)
        metadata = pod["metadata"]
        connection = http.client.HTTPConnection(pod["status"]["podIP"], self.port, timeout=30)
        try:
            connection.request("POST", "/v1/completions", '{"model": "m", "prompt": "x"}')
            status = connection.getresponse().status
        except OSError as error:
            return Sent(error=repr(error))
        finally:
            connection.close()
        failure = "" if status == 200 else f"status {status}"
        return Sent(metadata["namespace"], metadata["labels"][SERVICE], metadata["name"], failure)


def count_services(sent: Sequence[Sent]) -> Counter[str]:
    return Counter(item.service for item in sent if not item.error)


def _select_pods(
    pods: Sequence[Object], namespace: str, selector: Mapping[str, str]
) -> Sequence[Object]:
    return [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and selector.items() <= pod["metadata"]["labels"].items()
    ]
