"""Startup probes of a role's serving container."""

from __future__ import annotations

from pydantic import model_validator
from typing_extensions import Unpack

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.rollout import Duration
from fusioninfer_pulumi.api.types import Bytes
from fusioninfer_pulumi.generated import dicts

class StartupArgs(SpecModel):
    """How long an engine may take to load its model: a startup probe on its health path."""

    def __init__(self, **fields: Unpack[dicts.StartupArgsDict]) -> None: ...
    timeout: Duration | None = None
    "How long, such as `30m`."
    model_size: Bytes | None = None
    "In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;\n    with `readRate` and 5 minutes for everything else it gives the time."
    read_rate: Bytes = "200Mi"
    "What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."

    @model_validator(mode="after")
    def _one_of_both(self) -> StartupArgs: ...
