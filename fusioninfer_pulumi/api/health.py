"""Startup probes of a role's serving container."""

from __future__ import annotations

from pydantic import model_validator

from fusioninfer_pulumi.api.base import SpecModel
from fusioninfer_pulumi.api.messages import rule_error
from fusioninfer_pulumi.api.rollout import Duration
from fusioninfer_pulumi.api.types import Bytes
from fusioninfer_pulumi.rules.common import FIELDS_EXCLUDE_EACH_OTHER


class StartupArgs(SpecModel):
    """How long an engine may take to load its model: a startup probe on its health path."""

    timeout: Duration | None = None
    """How long, such as `30m`."""

    model_size: Bytes | None = None
    """In its place: size of the weights that a pod reads, such as `140Gi`, by default `model.size`;
    with `readRate` and 5 minutes for everything else it gives the time."""

    read_rate: Bytes = "200Mi"
    """What a pod reads in a second, such as `1Gi`; `200Mi` by default, a network disk."""

    @model_validator(mode="after")
    def _one_of_both(self) -> StartupArgs:
        if self.timeout is not None and self.model_size is not None:
            raise rule_error(FIELDS_EXCLUDE_EACH_OTHER, "give timeout or modelSize, not both")
        return self
