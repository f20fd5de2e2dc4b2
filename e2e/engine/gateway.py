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
from e2e.harness.stand_ins import HttpStandIn, Request, Response, StandIn

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
        status_times: Time of the first status of each generation, by `kind/name@generation`.
    """

    cluster: Cluster
    namespace: str
    delay: float = 1.5
    address: str = "127.0.0.1"
    rejected: dict[str, str] = field(default_factory=dict)
    status_times: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._stop = threading.Event()

    def work(self) -> None:
        while not self._stop.wait(0.1):
            routes = self.cluster.list(ROUTES, self.namespace)
            for kind in (GATEWAYS, ROUTES, POOLS):
                for item in self.cluster.list(kind, self.namespace):
                    self._update_status(kind, item, routes)

    def stop(self) -> None:
        self._stop.set()

    def _update_status(self, kind: str, item: Object, routes: list[Object]) -> None:
        meta = item["metadata"]
        key = f"{item['kind']}/{meta['name']}@{meta['generation']}"
        seen = self._seen.setdefault(f"{key} {meta['uid']}", time.monotonic())
        status = self._make_status(item, routes)
        if status is None or time.monotonic() - seen < self.delay:
            return
        if _remove_times(item.get("status")) == _remove_times(status):
            return
        try:
            self.cluster.patch(
                kind, meta["name"], {"status": status}, self.namespace, subresource="status"
            )
        except ApiError as error:
            if error.status != 404:  # The object may have been deleted in the meantime.
                raise
        self.status_times.setdefault(key, time.monotonic())

    def _make_status(self, item: Object, routes: list[Object]) -> Object | None:
        kind = item["kind"]
        if kind == "Gateway":
            conditions = self._make_conditions(item, "Accepted", "Programmed")
            address = {"type": "IPAddress", "value": self.address}
            return {"conditions": conditions, "addresses": [address]}
        if kind == "HTTPRoute":
            refs = item["spec"].get("parentRefs") or []
        else:
            refs = [
                {"name": ref["name"]}
                for route in routes
                for rule in route["spec"]["rules"]
                for backend in rule.get("backendRefs") or ()
                if backend["name"] == item["metadata"]["name"]
                for ref in route["spec"].get("parentRefs") or ()
            ]
            if not refs:
                return None  # Controllers ignore a pool that no route references.
        conditions = self._make_conditions(item, "Accepted", "ResolvedRefs")
        return {
            "parents": [
                {"parentRef": ref, "controllerName": _CONTROLLER, "conditions": conditions}
                for ref in refs
            ]
        }

    def _make_conditions(self, item: Object, *types: str) -> list[Object]:
        reason = self.rejected.get(item["kind"])
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return [
            {
                "type": name,
                "status": "False" if reason else "True",
                "reason": reason or name,
                "message": f"from the stand-in: {reason or 'accepted'}",
                "observedGeneration": item["metadata"]["generation"],
                "lastTransitionTime": now,
            }
            for name in types
        ]


def _remove_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = {key: _remove_times(item) for key, item in value.items()}
        return {key: item for key, item in items.items() if key not in ("lastTransitionTime",)}
    if isinstance(value, list):
        return [_remove_times(item) for item in value]
    return value


class EndpointStandIn(HttpStandIn):
    """Context manager of an HTTP server that is ready after a delay since its first request."""

    def __init__(self, *, delay: float = 0.0) -> None:
        super().__init__()
        self.probes: list[tuple[float, int]] = []
        self._delay = delay

    def respond(self, request: Request) -> Response:
        now = time.monotonic()
        first = self.probes[0][0] if self.probes else now
        is_served = request.path == "/v1/models" and now - first >= self._delay
        answer = Response(body=json.dumps({"object": "list", "data": []}).encode())
        answer = answer if is_served else Response(503)
        self.probes.append((now, answer.status))
        return answer
