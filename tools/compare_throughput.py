"""Writes `capacity/tests/fit/throughput.json`: published and estimated throughputs.

The cases are in `capacity/tests/fit/throughput.yaml`. In a separate environment:

    pip install aiconfigurator-core==0.12.0 && python tools/compare_throughput.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "capacity")]

from fusioninfer_capacity.fit.accelerators import ACCELERATORS  # noqa: E402  # by the line above
from fusioninfer_capacity.fit.architecture import find_architecture  # noqa: E402  # likewise
from fusioninfer_capacity.fit.estimate import StepTimeEstimates  # noqa: E402  # likewise
from fusioninfer_capacity.fit.load import Load, estimate_combined  # noqa: E402  # likewise
from fusioninfer_capacity.fit.memory import fit  # noqa: E402  # likewise
from fusioninfer_pulumi.engines.engine_commands import parse_command  # noqa: E402  # likewise

DIRECTORY = ROOT / "capacity" / "tests" / "fit"


def main() -> None:
    """Write the results that can be estimated."""
    cases = yaml.safe_load((DIRECTORY / "throughput.yaml").read_text(encoding="utf-8"))
    rows = [row for case in cases for row in estimate_rows(case)]
    lines = ",\n".join(json.dumps(row) for row in rows)
    (DIRECTORY / "throughput.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rows)} results")


def estimate_rows(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the published results of a page, each with the estimate; not those without one."""
    model, gpu, tensor = case["model"], case["gpu"], case["tensor"]
    words = [*case["arguments"], "--tensor-parallel-size", str(tensor)]
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.11.0", "args": words,
                 "command": ["vllm", "serve", model]}  # fmt: skip
    architecture = find_architecture(model)
    assert architecture is not None, "cases are of models of the table"
    fitted = fit(parse_command(container), architecture, ACCELERATORS[gpu])
    times = StepTimeEstimates(model, gpu, "vllm", tensor, 1)
    rows = []
    for length, output, measured in case["results"]:
        # Published results are measured with 500 concurrent requests.
        max_requests = min(500, fitted.count_max_requests(length + output))
        best = estimate_combined(times, Load(1, length, output), max_requests)
        if best is not None:
            rows.append({
                "page": case["page"], "model": model, "gpu": gpu, "tensor": tensor,
                "input": length, "output": output, "measured": measured,
                "estimated": round(best.rate * (length + output), 2), "times": times.release,
            })  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
