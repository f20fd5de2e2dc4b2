"""A service behind a router whose objects are awaited."""

from __future__ import annotations

from typing import Any

from routed import routed

from fusioninfer_pulumi import InferenceService

GATEWAY = {
    "gatewayClassName": "istio",
    "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
}


def awaited(level: str = "Serving", **fields: Any) -> Any:
    """Its manifest; the fields are the router's."""
    built = routed(**{"httproute": {}, "gateway": GATEWAY, **fields})
    built["spec"]["wait"] = {"level": level, "timeout": "20m"}
    return built


def deployed(engine: Any, level: str = "Serving", **fields: Any) -> Any:
    """What a program registers that deploys it."""
    value = awaited(level, **fields)
    return engine.run(lambda: InferenceService("svc", value) and None)
