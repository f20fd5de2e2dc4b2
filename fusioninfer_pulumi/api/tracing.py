"""Traces of a service."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import string_format

_Collector = Annotated[
    str,
    string_format(
        r"^https?://[^\s/]+/?$",
        "an address such as http://otel-collector.observability:4317, without a path",
    ),
]


class TracingArgs(SpecModel):
    """OpenTelemetry traces of endpoint picker and engines, by OTLP over gRPC."""

    endpoint: _Collector
    """Collector, such as `http://otel-collector.observability:4317`; `https` for TLS."""

    sampling: float = Field(default=0.1, ge=0, le=1)
    """Share of the requests that are traced where the client has not decided; 0.1 by default."""

    engines: bool = True
    """Whether vLLM traces too: sets `--otlp-traces-endpoint`, which restarts its pods."""

    picker: bool = True
    """Whether the endpoint picker traces, where there is one."""
