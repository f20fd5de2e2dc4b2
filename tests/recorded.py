"""The state of a stack as the engine tells it: LeaderWorkerSets of components."""

from __future__ import annotations

from typing import Any

LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def urn(logical: str, kind: str = LWS) -> str:
    return f"urn:pulumi:dev::app::fusioninfer:index:InferenceService${kind}::{logical}"


def recorded(name: str, *, index: str | None = None, owner: str = "svc") -> dict[str, Any]:
    own = {"fusioninfer.io/service": owner, "fusioninfer.io/role-name": "inference"}
    if index is not None:
        own["fusioninfer.io/replica-index"] = index
    return {"type": LWS, "outputs": {"metadata": {"name": name, "labels": own}}}
