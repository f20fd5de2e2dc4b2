"""Checks of models and files that an engine loads, and of the names that pods serve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fusioninfer_pulumi.api.role import ComponentType
from fusioninfer_pulumi.engines.flags import flag_value, last_values
from fusioninfer_pulumi.engines.served_model import is_gated
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube.containers import SHARED_MEMORY, mounted
from fusioninfer_pulumi.pods.pod import Context, RolePods

TOKEN_FOR_GATED_MODEL = Rule(
    "token-for-gated-model",
    "warning",
    "Pods that download a gated model have a token.",
    remedy="Set HF_TOKEN from a Secret.",
    source="https://huggingface.co/docs/hub/models-gated",
)
SERVED_MODELS_DIFFER = Rule(
    "served-models-differ",
    "warning",
    "All pods behind one router or Service serve the same names.",
    remedy="Give the roles one `--served-model-name`, or make two services.",
    source="vLLM answers 404 for a model that it does not serve",
)

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


FILE_NOT_MOUNTED = Rule(
    "file-not-mounted",
    "warning",
    "A volume of the container holds the files that arguments name.",
    remedy="Mount the volume that holds them.",
    source="the path is outside of what docker/Dockerfile of the engines fills",
)

#: Flags that name a file or folder.
_FLAGS = (
    "--config", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--tokenizer",
    "--tokenizer-path", "--hf-config-path", "--chat-template", "--tool-parser-plugin",
)  # fmt: skip
#: What the engines' own images hold.
_IN_IMAGES = re.compile(r"/(vllm-workspace|sgl-workspace|usr|opt|root|home|tmp|dev|proc)/")


def named_file_findings(pods: RolePods, _: Context) -> Iterator[Finding]:
    """Warns of paths that an engine's own image does not have."""
    command, engine = pods.command, pods.command.engine
    # A script may fetch the files that it names.
    if engine is None or not command.image.stock or command.script is not None:
        return
    named = [command.model, *(flag_value(command.arguments, flag) for flag in _FLAGS)]
    adapters = last_values(command.arguments, engine.lora_flags["modules"]) or ()
    named += [adapter.partition("=")[2] for adapter in adapters if "," not in adapter]
    for path in dict.fromkeys(named):
        if path is None or re.fullmatch(r"/[^\s$]*", path) is None or _IN_IMAGES.match(path):
            continue
        if not _held(pods, path):
            message = f"no volume of the container holds {path}, nor does its image; mount one"
            yield warning(FILE_NOT_MOUNTED, pods.leader.command_path, message)


def _held(pods: RolePods, path: str) -> bool:
    parts = path.rstrip("/").split("/")
    folders = ["/".join(parts[:end]) or "/" for end in range(1, len(parts) + 1)]
    if any(mounted(pods.leader.container, folder) is not None for folder in folders):
        return True
    mounts = [mount.get("mountPath") for mount in pods.leader.container.get("volumeMounts") or ()]
    below = f"{path.rstrip('/')}/"
    return any(isinstance(path, str) and path.startswith(below) for path in mounts)
