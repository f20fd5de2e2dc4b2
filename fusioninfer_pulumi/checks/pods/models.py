"""Checks of models and files that an engine loads, and of the names that pods serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.engines.served_model import is_gated
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

TOKEN_FOR_GATED_MODEL = Rule("token-for-gated-model")
SERVED_MODELS_DIFFER = Rule("served-models-differ")

_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_TOKEN_PATH")


def model_findings(pods: RolePods, ctx: Context) -> Iterator[Finding]:
    """Checks the model that a role's engine loads by its name."""
    command, pod = pods.command, pods.leader
    model = command.model
    if model is None or command.engine is None or not command.readable or ctx.model is not None:
        return
    if is_gated(model) and not _has_token_or_files(pods):
        message = f"{model} is gated, and the container has no HF_TOKEN; take it from a Secret"
        yield warning(TOKEN_FOR_GATED_MODEL, (*pod.container_path, "env"), message)


def _has_token_or_files(pods: RolePods) -> bool:
    container = pods.leader.container
    if container.get("envFrom"):
        return True
    names = {str(variable.get("name")) for variable in container.get("env") or ()}
    # A volume may hold the files, or the token that `hf auth login` has left.
    mounts = (str(mount.get("mountPath")) for mount in container.get("volumeMounts") or ())
    volumes = any(path.rstrip("/") != SHARED_MEMORY for path in mounts)
    others = {"HF_ENDPOINT", "VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE"}
    return volumes or bool(names & {*_TOKENS, *others})


def served_findings(roles: Sequence[tuple[Context, RolePods]]) -> Iterator[Finding]:
    """Warns of worker roles of one service that serve different names."""
    known = [
        (ctx, names)
        for ctx, pods in roles
        if ctx.role.component_type is ComponentType.WORKER
        and ctx.role.replicas
        and (engine := pods.command.engine) is not None
        and engine.refuses_unknown_models
        and (names := pods.command.served_names) is not None
    ]
    for ctx, names in known[1:]:
        first, others = known[0]
        missing = [name for name in names if name not in others]
        if not missing and set(names) == set(others):
            continue
        yield warning(
            SERVED_MODELS_DIFFER,
            ctx.at(),
            f"serves {', '.join(names)}, role {first.role.name} serves {', '.join(others)}: "
            "requests go to pods of both, and some get 404; give both one --served-model-name",
        )
