"""LeaderWorkerSets of components in a stack's state, as Pulumi reports it."""

from __future__ import annotations

from typing import Any

LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def urn(logical: str, kind: str = LWS) -> str:
    return f"urn:pulumi:dev::app::fusioninfer:index:InferenceService${kind}::{logical}"


def lws_entry(
    name: Any, *, index: str | None = None, owner: str | None = "svc", namespace: str = ""
) -> dict[str, Any]:
    labels = {"fusioninfer.io/service": owner, "fusioninfer.io/role-name": "inference"}
    if owner is None:
        labels = {}
    if index is not None:
        labels["fusioninfer.io/replica-index"] = index
    where = {"namespace": namespace} if namespace else {}
    return {"type": LWS, "outputs": {"metadata": {"name": name, **where, "labels": labels}}}
