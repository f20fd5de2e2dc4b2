"""Recorded startups of engines, and the command lines and accelerators of their logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml_files

from fusioninfer_capacity.fit.accelerators import ACCELERATORS
from fusioninfer_capacity.fit.engines import Accelerator
from fusioninfer_pulumi.engines.engine import EngineCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command

GIB = 2**30
Log = Mapping[str, Any]

LOGS: list[Log] = yaml_files.read(Path(__file__).parent / "fit" / "startup_logs.yaml")
_IMAGES = {"vllm": "vllm/vllm-openai", "sglang": "lmsysorg/sglang"}
_PROGRAMS = {
    "vllm": ["vllm", "serve"],
    "sglang": ["python3", "-m", "sglang.launch_server", "--model-path"],
}


def command_of(log: Log) -> EngineCommand:
    """Return the engine's command line of a log."""
    image = f"{_IMAGES[log['engine']]}:v{log['version']}"
    program = [*_PROGRAMS[log["engine"]], log["model"]]
    container = {"name": "e", "image": image, "command": program, "args": log["arguments"]}
    return parse_command(container)


def accelerator_of(log: Log) -> Accelerator:
    """Return the accelerator of a log, with the logged memory if there is one."""
    known = ACCELERATORS[log["gpu"]]
    if "total" not in log:
        return known
    return Accelerator(known.name, int(log["total"] * GIB), known.large_batches)
