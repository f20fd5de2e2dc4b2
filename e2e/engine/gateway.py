"""Stand-ins for a gateway controller and for the endpoint behind it.

No gateway runs here. Tests with them show what an update waits for, not that a gateway works.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.harness import Cluster, Object
from e2e.harness.api import ApiError
from e2e.harness.stand_ins import Answer, HttpStandIn, Request, StandIn

GATEWAYS = "gateway.networking.k8s.io/v1/Gateway"
ROUTES = "gateway.networking.k8s.io/v1/HTTPRoute"
POOLS = "inference.networking.k8s.io/v1/InferencePool"
_CONTROLLER = "e2e.fusioninfer.io/stand-in"


@dataclass
class GatewayStandIn(StandIn):
    """Context manager that accepts routing objects of a namespace after a delay.

    Attributes:
        cluster: The cluster.
        namespace: Namespace of the objects.
        delay: Seconds from first seeing a generation until writing its status.
        address: Address of every Gateway.
        rejected: Reasons by the kind that it rejects.
        spoke: Time of the first status of each object, by `kind/name@generation`.
    """

    cluster: Cluster
    namespace: str
    delay: float = 1.5
    address: str = "127.0.0.1"
    rejected: dict[str, str] = field(default_factory=dict)
    spoke: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._stop = threading.Event()

    def work(self) -> None:
        while not self._stop.wait(0.1):
            routes = self.cluster.list(ROUTES, self.namespace)
            for kind in (GATEWAYS, ROUTES, POOLS):
                for each in self.cluster.list(kind, self.namespace):
                    self._look(kind, each, routes)

    def stop(self) -> None:
        self._stop.set()

    def _look(self, kind: str, each: Object, routes: list[Object]) -> None:
        meta = each["metadata"]
        key = f"{each['kind']}/{meta['name']}@{meta['generation']}"
        seen = self._seen.setdefault(f"{key} {meta['uid']}", time.monotonic())
        status = self._status(each, routes)
        if status is None or time.monotonic() - seen < self.delay:
            return
        if _without_times(each.get("status")) == _without_times(status):
            return
        try:
            self.cluster.patch(
                kind, meta["name"], {"status": status}, self.namespace, subresource="status"
            )
        except ApiError as problem:
            if problem.status != 404:  # The object may have been deleted in the meantime.
                raise
        self.spoke.setdefault(key, time.monotonic())

    def _status(self, each: Object, routes: list[Object]) -> Object | None:
        kind = each["kind"]
        if kind == "Gateway":
            conditions = self._conditions(each, "Accepted", "Programmed")
            address = {"type": "IPAddress", "value": self.address}
            return {"conditions": conditions, "addresses": [address]}
        if kind == "HTTPRoute":
            refs = each["spec"].get("parentRefs") or []
        else:
            refs = [
                {"name": ref["name"]}
                for route in routes
                for rule in route["spec"]["rules"]
                for backend in rule.get("backendRefs") or ()
                if backend["name"] == each["metadata"]["name"]
                for ref in route["spec"].get("parentRefs") or ()
            ]
            if not refs:
                return None  # Controllers ignore a pool that no route references.
        conditions = self._conditions(each, "Accepted", "ResolvedRefs")
        return {
            "parents": [
                {"parentRef": ref, "controllerName": _CONTROLLER, "conditions": conditions}
                for ref in refs
            ]
        }

    def _conditions(self, each: Object, *types: str) -> list[Object]:
        reason = self.rejected.get(each["kind"])
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return [
            {
                "type": name,
                "status": "False" if reason else "True",
                "reason": reason or name,
                "message": f"said by the stand-in: {reason or 'fine'}",
                "observedGeneration": each["metadata"]["generation"],
                "lastTransitionTime": now,
            }
            for name in types
        ]


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_times(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key not in ("lastTransitionTime",)}
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return value


class EndpointStandIn(HttpStandIn):
    """Context manager that runs an HTTP server on loopback."""

    def __init__(self, *, unready: float = 0.0) -> None:
        """Start the server."""
        super().__init__()
        self.asked: list[tuple[float, int]] = []
        self._unready = unready

    def answer(self, request: Request) -> Answer:
        now = time.monotonic()
        first = self.asked[0][0] if self.asked else now
        there = request.path == "/v1/models" and now - first >= self._unready
        answer = Answer(body=json.dumps({"object": "list", "data": []}).encode())
        answer = answer if there else Answer(503)
        self.asked.append((now, answer.status))
        return answer
