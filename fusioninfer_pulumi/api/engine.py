"""The engine of roles whose container the library writes."""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import Field

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import string_format


class EngineName(str, enum.Enum):
    """The engines whose containers can be written."""

    VLLM = "vllm"
    SGLANG = "sglang"


ReleaseText = Annotated[
    str,
    string_format(
        r"^[0-9]+\.[0-9]+\.[0-9]+(\.post[0-9]+)?$", "a release such as 0.32.0, without a v"
    ),
]

Registry = Annotated[
    str,
    string_format(
        r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*$",
        "a registry such as registry.example.com, and a path in it, without a / at its end",
    ),
]


class EngineArgs(SpecModel):
    """Which engine a role runs, and in which release, where its template names no image.

    Beside a template with an image it asks for the rest of the container, which the template's own
    values replace.
    """

    name: Annotated[EngineName, Field(strict=False)] = EngineName.VLLM
    """`vllm` (default) or `sglang`."""

    version: ReleaseText | None = None
    """Its release, such as `0.32.0`; by default the one that this version of the library names,
    which `plan` shows."""
