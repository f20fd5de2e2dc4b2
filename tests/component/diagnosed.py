"""Pods of a service for tests of the diagnosis."""

from __future__ import annotations

from typing import Any

SET = "svc-inference-0"


def pod(name: str = "svc-inference-0-0", node: str | None = "n1", **status: Any) -> dict[str, Any]:
    labels = {"leaderworkerset.sigs.k8s.io/name": name.rpartition("-")[0]}
    spec: dict[str, Any] = {"containers": []} if node is None else {"nodeName": node}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}
