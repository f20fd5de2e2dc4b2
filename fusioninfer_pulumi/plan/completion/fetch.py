"""The container that fetches a model, before the engine of each pod or in the warm-up Job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fusioninfer_pulumi.plan.completion.model_files import token_variable
from fusioninfer_pulumi.spec.model import FETCHER_USER, ModelArgs, S3Args

Manifest = dict[str, Any]

_REQUESTS = {"requests": {"cpu": "100m", "memory": "512Mi"}}
_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    # Stated, because a pod that runs its engine as root would pass that on.
    "runAsUser": FETCHER_USER,
    "runAsGroup": FETCHER_USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def fetch_container(
    model: ModelArgs,
    name: str,
    command: Sequence[str],
    sources: Sequence[tuple[str, str]],
    mounts: list[Manifest],
) -> Manifest:
    """Builds the container.

    Args:
        model: The model; its credentials become variables that name Secrets.
        name: Name of the container.
        command: What it runs.
        sources: Source and folder of what it fetches.
        mounts: Where it writes.
    """
    env = fetch_env(model, {source.partition("://")[0] for source, _ in sources})
    return {
        "name": name,
        "image": model.fetcher.image,
        "command": list(command),
        "args": [word for pair in sources for word in pair],
        **({"env": env} if env else {}),
        "resources": dict(model.fetcher.resources or _REQUESTS),
        "securityContext": dict(model.fetcher.security_context or _SECURITY),
        "volumeMounts": mounts,
    }


def fetch_env(model: ModelArgs, schemes: Collection[str]) -> list[Manifest]:
    """Variables by which KServe's storage-initializer and others like it find their credentials."""
    env = [dict(each) for each in model.fetcher.env]
    if model.token_secret is not None and "hf" in schemes:
        env.append(token_variable(model))
    s3 = model.s3 if "s3" in schemes else S3Args()
    if s3.secret_name is not None:
        keys = {
            "AWS_ACCESS_KEY_ID": s3.access_key_id_key,
            "AWS_SECRET_ACCESS_KEY": s3.secret_access_key_key,
        }
        for variable, key in keys.items():
            reference = {"name": s3.secret_name, "key": key}
            env.append({"name": variable, "valueFrom": {"secretKeyRef": reference}})
    for variable, value in {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_DEFAULT_REGION": s3.region,
    }.items():
        if value is not None:
            env.append({"name": variable, "value": value})
    return env
