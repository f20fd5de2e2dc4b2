"""Files that arguments name, and that no volume of the container holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fusioninfer_pulumi.engines.flags import flag_value, last_values
from fusioninfer_pulumi.findings import Finding, Rule, warning
from fusioninfer_pulumi.kube.containers import mounted
from fusioninfer_pulumi.pods.build import RolePods
from fusioninfer_pulumi.pods.pod import Context

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
