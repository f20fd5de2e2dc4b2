"""The state of a stack as Pulumi reports it: LeaderWorkerSets of components."""

from __future__ import annotations

from typing import Any

LWS = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"


def urn(logical: str, kind: str = LWS) -> str:
    return f"urn:pulumi:dev::app::fusioninfer:index:InferenceService${kind}::{logical}"


def recorded(
    name: Any, *, index: str | None = None, owner: str | None = "svc", namespace: str = ""
) -> dict[str, Any]:
    fields = {"fusioninfer.io/service": owner, "fusioninfer.io/role-name": "inference"}
    if owner is None:
        fields = {}
    if index is not None:
        fields["fusioninfer.io/replica-index"] = index
    where = {"namespace": namespace} if namespace else {}
    return {"type": LWS, "outputs": {"metadata": {"name": name, **where, "labels": fields}}}
