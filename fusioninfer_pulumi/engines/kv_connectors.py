"""What an engine's arguments say of how it hands its KV cache over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, split_joined_flags
from fusioninfer_pulumi.engines.kv_offloading import OFFLOADING
from fusioninfer_pulumi.engines.kv_transfer import KV_TRANSFER_FLAG, kv_transfer_config

#: vLLM's connector over NIXL (RDMA, NVLink or TCP).
NIXL = "NixlConnector"
#: vLLM's and SGLang's flag with the settings of their KV cache events, a JSON object.
KV_EVENTS_FLAG = "--kv-events-config"

#: Where NIXL's agents of two vLLM pods meet: the address is the one that others reach, and ranks
#: count up from the port (vLLM `vllm/envs.py`; the default address is localhost).
NIXL_HOST_ENV = "VLLM_NIXL_SIDE_CHANNEL_HOST"
NIXL_PORT_ENV = "VLLM_NIXL_SIDE_CHANNEL_PORT"

_SGLANG_MODE = "--disaggregation-mode"
_SGLANG_BACKEND = "--disaggregation-transfer-backend"
_SGLANG_DEFAULT_BACKEND = "mooncake"
_SGLANG_NIXL = "nixl"
#: Holds other connectors in its extra settings.
_MULTI = "MultiConnector"


@dataclass(frozen=True)
class KvSetup:
    """How an engine hands its KV cache over.

    Attributes:
        connector: vLLM's connector, or SGLang's transfer backend, as given.
        role: vLLM's `kv_role`, or SGLang's `prefill` or `decode`; None where none is given.
        names: The connector, and those inside of it.
    """

    connector: str
    role: str | None
    names: tuple[str, ...]

    @property
    def uses_nixl(self) -> bool:
        """Whether vLLM's NixlConnector is at work, which needs an address of its own."""
        return NIXL in self.names

    @property
    def transfers(self) -> tuple[str, ...]:
        """The connectors by which the cache goes to other pods, which both sides need."""
        return tuple(each for each in self.names if each not in (_MULTI, OFFLOADING)) or self.names


def kv_setup(command: EngineCommand) -> KvSetup | str | None:
    """Reads how an engine hands its KV cache over.

    Args:
        command: The container's command line.

    Returns:
        The setup; what is wrong with it, as the end of a sentence; None when nothing is given, or
        the engine is not known.
    """
    if command.engine == "sglang":
        arguments = split_joined_flags(command.arguments)
        mode = flag_value(arguments, _SGLANG_MODE)
        if mode in (None, "null"):
            return None
        backend = flag_value(arguments, _SGLANG_BACKEND) or _SGLANG_DEFAULT_BACKEND
        return KvSetup(backend, mode, (backend,))
    if command.engine != "vllm":
        return None
    settings = kv_transfer_config(command)
    if settings is None:
        given = has_flag(split_joined_flags(command.arguments), KV_TRANSFER_FLAG)
        return "has no value" if given else None
    if isinstance(settings, str):
        return "is not a JSON object"
    connector = settings.get("kv_connector")
    if not isinstance(connector, str):
        return "names no kv_connector"
    role = settings.get("kv_role")
    return KvSetup(connector, role if isinstance(role, str) else None, tuple(_connectors(settings)))


def sglang_setup(mode: str, backend: str | None) -> tuple[list[tuple[str, str]], KvSetup]:
    """SGLang's flags for one side of a transfer, `prefill` or `decode`, and what they mean."""
    chosen = backend or _SGLANG_NIXL
    flags = [(_SGLANG_MODE, mode), (_SGLANG_BACKEND, chosen)]
    return flags, KvSetup(chosen, mode, (chosen,))


def kv_transfer_settings(
    connector: str, role: str, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The settings of a connector, which `--kv-transfer-config` takes as JSON."""
    settings: dict[str, Any] = {"kv_connector": connector, "kv_role": role}
    if extra:
        settings["kv_connector_extra_config"] = dict(extra)
    return settings


def multi_settings(connectors: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The settings of one connector that works through several, asked in this order."""
    return kv_transfer_settings(_MULTI, "kv_both", {"connectors": list(connectors)})


def kv_json(settings: Mapping[str, Any]) -> str:
    """Settings as the documents write them."""
    return _compact(settings)


def kv_events_json(engine: str, endpoint: str, topic: str) -> str:
    """The value of `--kv-events-config` that publishes events over ZMQ."""
    # SGLang has no such switch and refuses unknown keys.
    enabled = {"enable_kv_cache_events": True} if engine == "vllm" else {}
    return _compact({**enabled, "publisher": "zmq", "endpoint": endpoint, "topic": topic})


def _connectors(settings: Mapping[str, Any]) -> Iterator[str]:
    name = settings.get("kv_connector")
    if isinstance(name, str):
        yield name
    extra = settings.get("kv_connector_extra_config")
    inner = extra.get("connectors") if name == _MULTI and isinstance(extra, Mapping) else None
    for each in inner if isinstance(inner, list) else ():
        if isinstance(each, Mapping):
            yield from _connectors(each)


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
