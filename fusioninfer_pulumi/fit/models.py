"""The table of models, by their names on Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fusioninfer_pulumi.fit.architecture import Architecture, read_config


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """Each model's `config` and the `source` of it; written by `tools/model_table.py`."""
    text = (Path(__file__).parent / "models.json").read_text(encoding="utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)
    return found


@cache
def known_architecture(name: str) -> Architecture | None:
    """The architecture of a model of the table, None for another one."""
    found = models().get(name)
    return read_config(found["config"]) if found is not None else None
