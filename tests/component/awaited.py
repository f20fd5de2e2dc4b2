"""A service with a router, for tests of waits."""

from __future__ import annotations

from typing import Any

from routed import routed

from fusioninfer_pulumi import InferenceService

GATEWAY = {
    "gatewayClassName": "istio",
    "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
}


def awaited(level: str = "Serving", **fields: Any) -> Any:
    """Return the service's manifest with these fields of the router."""
    built = routed(**{"httproute": {}, "gateway": GATEWAY, **fields})
    built["spec"]["wait"] = {"level": level, "timeout": "20m"}
    return built


def deployed(engine: Any, level: str = "Serving", **fields: Any) -> Any:
    """Deploy the service, and return the registered resources."""
    value = awaited(level, **fields)
    return engine.run(lambda: InferenceService("svc", value) and None)
