"""Reads vLLM's KV transfer settings, which pair prefill and decode."""

from __future__ import annotations

import json
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.facts import VLLM_CONNECTORS, spelled
from fusioninfer_pulumi.engines.flags import canonical, flag_value, split_joined_flags
from fusioninfer_pulumi.engines.notes import EngineNote

#: vLLM's flag with the connector's settings, a JSON object.
KV_TRANSFER_FLAG = "--kv-transfer-config"
_REMOVED = "PyNcclConnector"


def kv_transfer_config(command: EngineCommand) -> dict[str, Any] | str | None:
    """Reads `--kv-transfer-config`.

    Args:
        command: The container's command line.

    Returns:
        The settings; the text as written when it is not a JSON object; None when the flag is
        absent. Keys written as `--kv-transfer-config.kv_role kv_both` are merged in, as vLLM does.
    """
    arguments = split_joined_flags(command.arguments)
    text = flag_value(arguments, KV_TRANSFER_FLAG)
    settings: dict[str, Any] = {}
    if text is not None:
        try:
            parsed = json.loads(text)
        except ValueError:
            return text
        if not isinstance(parsed, dict):
            return text
        settings.update(parsed)
    for argument in arguments:
        name = argument.partition("=")[0]
        flag, dot, key = name.partition(".")
        if dot and canonical(flag) == KV_TRANSFER_FLAG and "." not in key:
            settings[key] = flag_value(arguments, name)
    return settings or None if text is None else settings


def connector_notes(command: EngineCommand) -> list[EngineNote]:
    """Says when a KV connector does not exist in the engine.

    Only PyNcclConnector is judged: it is in no registry from 0.10.2 on, and older releases and
    other names (connectors can come from modules of one's own) are not known well enough.

    Args:
        command: The container's command line.

    Returns:
        A warning, which names the connectors that exist, or nothing.
    """
    settings = kv_transfer_config(command)
    version = command.image.version
    if command.engine != "vllm" or not isinstance(settings, dict):
        return []
    if settings.get("kv_connector") != _REMOVED or settings.get("kv_connector_module_path"):
        return []
    if version is not None and version < min(VLLM_CONNECTORS):
        return []
    release = max(known for known in VLLM_CONNECTORS if version is None or known <= version)
    return [
        EngineNote(
            "warning",
            KV_TRANSFER_FLAG,
            f"{_REMOVED} is not a connector of vLLM's V1 engine, which stops with 'Unsupported "
            f"connector type': vLLM {spelled(release)} has {', '.join(VLLM_CONNECTORS[release])}",
        )
    ]
