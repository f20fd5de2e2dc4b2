"""Measures the processor time of commands and imports, as whole processes.

Modules are already compiled, as for every start after the first one.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_MANIFEST = _ROOT / "examples" / "qwen-monolithic" / "inference-service.yaml"
#: Goal and bound (see `Result`) of our commands, as multiples of the first process in `PROCESSES`.
#: A command that runs a program imports Pulumi's SDK, which takes half of its time.
GOALS = {
    "fusioninfer-pulumi check": (2.5, 5.5),
    "fusioninfer-pulumi render": (2.5, 5.5),
    "fusioninfer-pulumi plan, a program": (6, 8.5),
}
_MAIN = ("-m", "fusioninfer_pulumi.cli.main")

#: Arguments of Python by the name of the process. The first one is the baseline, the last two show
#: what Pulumi's SDK takes.
PROCESSES: Mapping[str, Sequence[str]] = {
    "import pydantic, yaml": ("-c", "import pydantic, yaml"),
    "one pydantic model, yaml": (
        "-c",
        "import pydantic, yaml\nclass M(pydantic.BaseModel):\n  a: int\nM(a=1)",
    ),
    "import fusioninfer_pulumi": ("-c", "import fusioninfer_pulumi"),
    "fusioninfer-pulumi check": (*_MAIN, "check", str(_MANIFEST)),
    "fusioninfer-pulumi render": (*_MAIN, "render", str(_MANIFEST)),
    "fusioninfer-pulumi plan, a program": (
        *_MAIN,
        "plan",
        str(_ROOT / "examples" / "qwen-monolithic"),
    ),
    "import pulumi": ("-c", "import pulumi"),
    "import pulumi, pulumi_kubernetes": ("-c", "import pulumi, pulumi_kubernetes"),
}


def measure_medians(runs: int, processes: Sequence[str]) -> dict[str, float]:
    """Run the processes in turn, so that changes of the machine's load affect all of them.

    Args:
        runs: Runs of each, after one that compiles.
        processes: Keys of `PROCESSES`.

    Returns:
        Median seconds of processor time, user and system, by process.
    """
    used: dict[str, list[float]] = {name: [] for name in processes}
    for run in range(runs + 1):
        for name in processes:
            seconds = _time([sys.executable, *PROCESSES[name]])
            if run or not runs:
                used[name].append(seconds)
    return {name: statistics.median(times) for name, times in used.items()}


def _time(command: Sequence[str]) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=_ROOT, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime
