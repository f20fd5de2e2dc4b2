"""Ports that an engine listens on beside the one that it serves on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fusioninfer_pulumi.engines.flags import parsed_json

#: `tcp://*:5557`: the endpoint on which a publisher listens itself.
_BOUND = re.compile(r"tcp://(?:\*|0\.0\.0\.0|\[?::\]?):([0-9]{1,5})")


@dataclass(frozen=True)
class EnginePorts:
    """Ports of one purpose, one behind the other.

    Attributes:
        what: What listens there, for messages.
        field: Field of a role that states the first one.
    """

    what: str
    first: int
    count: int = 1
    field: tuple[str, ...] = ()


def event_ports(settings: str | None, ranks: int) -> list[EnginePorts]:
    """The ports on which ranks publish the events of their KV cache, one each.

    vLLM and SGLang add a rank's number to the port (`ZmqEventPublisher.offset_endpoint_port`).
    """
    try:
        event_settings = parsed_json(settings or "{}")
    except ValueError:
        return []
    endpoint = event_settings.get("endpoint") if isinstance(event_settings, dict) else None
    bound = _BOUND.fullmatch(endpoint) if isinstance(endpoint, str) else None
    if bound is None:
        return []
    return [EnginePorts("KV cache events", int(bound[1]), ranks, ("kvEvents", "endpoint"))]
