"""A statement about an engine's command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class EngineNote:
    """One statement about an engine's command line.

    Attributes:
        severity: `error` (cannot work), `warning` (legal but probably wrong) or `info`.
        flag: The flag that is meant, in its long spelling; empty when none is.
        message: What was found and what would work.
    """

    severity: Severity
    flag: str
    message: str
