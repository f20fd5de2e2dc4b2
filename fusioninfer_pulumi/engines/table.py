"""Answers questions about an engine's command line: ports, probes, blocks, versions, connectors.

The facts behind the answers, with their evidence, are in `facts`.
"""

from __future__ import annotations

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import DEFAULT_PORTS, HEALTH_PATHS
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.kv_transfer import connector_notes, kv_transfer_config
from fusioninfer_pulumi.engines.launcher_notes import launcher_notes

__all__ = [
    "PORT_FLAG",
    "block_size",
    "connector_notes",
    "default_port",
    "health_path",
    "kv_transfer_config",
    "launcher_notes",
    "serves_https",
    "serving_port",
    "split_joined_flags",
]

#: Flag of both engines that says on which port they serve.
PORT_FLAG = "--port"


def serving_port(command: EngineCommand) -> int | None:
    """The engine's `--port`; None when it is not given, or not a port number."""
    if command.engine is None:
        return None
    port = integer(flag_value(split_joined_flags(command.arguments), PORT_FLAG))
    return port if port is not None and 0 < port < 65536 else None


def default_port(engine: str | None) -> int | None:
    """The port that an engine serves HTTP on without `--port`; None for an unknown engine."""
    return DEFAULT_PORTS.get(engine) if engine is not None else None


def health_path(engine: str | None) -> str | None:
    """The path that answers 200 once an engine serves; None for an unknown engine."""
    return HEALTH_PATHS.get(engine) if engine is not None else None


def serves_https(command: EngineCommand) -> bool:
    """Whether the engine's port speaks TLS, so that probes need `scheme: HTTPS`."""
    return command.engine is not None and has_flag(
        split_joined_flags(command.arguments), "--ssl-certfile", "--ssl-keyfile"
    )


def block_size(command: EngineCommand) -> int | None:
    """Tokens in a KV cache block: vLLM's `--block-size`, SGLang's `--page-size`, as given."""
    names = {"vllm": "--block-size", "sglang": "--page-size"}
    if command.engine is None:
        return None
    size = integer(flag_value(split_joined_flags(command.arguments), names[command.engine]))
    return size if size is not None and size > 0 else None
