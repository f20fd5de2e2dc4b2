"""The accelerators that an engine asks for are compared with those of its replica."""

from __future__ import annotations

from typing import Any

import pytest

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.parallelism import (
    EngineNote,
    Parallelism,
    check_parallelism,
    read_parallelism,
)

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
PROGRAMS = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"]}


def command(engine: str, arguments: str | list[Any]) -> EngineCommand:
    words = arguments.split() if isinstance(arguments, str) else arguments
    return read_command({"name": "c", "image": "x", "command": PROGRAMS[engine], "args": words})


@pytest.mark.parametrize(
    ("engine", "arguments", "expected"),
    [
        ("vllm", "m", Parallelism(1, 1, 1, None, False)),
        ("vllm", "m --tensor-parallel-size 16", Parallelism(16, 1, 1, None, True)),
        ("vllm", "m -tp=8 -pp 2", Parallelism(8, 2, 1, None, True)),
        ("vllm", "m -tp 2 -dp 16 -dpl 8", Parallelism(2, 1, 16, 8, True)),
        ("vllm", "m --data_parallel_size=4 -pcp 2", Parallelism(1, 1, 4, None, True, 2)),
        ("vllm", "m -dp 4 --data-parallel-rank 1", Parallelism(1, 1, 4, 1, True)),
        ("vllm", "m -dp 4 -dpl 0", Parallelism(1, 1, 4, 0, True)),
        ("vllm", ["m", "--tensor-parallel-size 4"], Parallelism(4, 1, 1, None, True)),
        # SGLang's flags are not vLLM's.
        ("vllm", "m --tp 4", Parallelism(1, 1, 1, None, False)),
        ("sglang", "--tp 16 --pp-size 2", Parallelism(16, 2, 1, None, True)),
        ("sglang", "--tensor-parallel-size 4 --dp 2", Parallelism(4, 1, 2, None, True)),
        ("sglang", "--tp-size 8 --dp-size 8 --enable-dp-attention",
         Parallelism(8, 1, 1, None, True)),
        ("sglang", "--tp-size 8 --attn-dp-size 8", Parallelism(8, 1, 1, None, True)),
        # Not known.
        ("sglang", "--tp 8 --dp 2 --attn-cp-size 2", None),
        ("vllm", "m -tp $TP", None),
        ("vllm", "m -tp $(TP)", None),
        ("vllm", "m -tp 0", None),
        ("vllm", "m -tp", None),
        ("vllm", "m --config c.yaml", None),
        ("vllm", ["m", OUTPUT], None),
    ],
)  # fmt: skip
def test_read(engine: str, arguments: str | list[Any], expected: Parallelism | None) -> None:
    assert read_parallelism(command(engine, arguments)) == expected


def test_unknown_engine() -> None:
    unknown = read_command({"image": "x", "args": ["--tensor-parallel-size", "64"]})
    assert read_parallelism(unknown) is None
    assert check_parallelism(unknown, 8, 1) == []


@pytest.mark.parametrize(
    ("parallelism", "nodes", "devices"),
    [
        (Parallelism(8, 2, 1, None, True), None, 16),
        (Parallelism(2, 1, 16, 8, True), None, 32),
        (Parallelism(2, 1, 16, 8, True), 1, 16),
        (Parallelism(2, 1, 16, 8, True), 2, 32),
        (Parallelism(2, 1, 16, 8, True), 4, 32),
        (Parallelism(2, 1, 2, None, True, 2), 1, 8),
    ],
)
def test_devices(parallelism: Parallelism, nodes: int | None, devices: int) -> None:
    assert parallelism.devices(nodes) == devices


@pytest.mark.parametrize(
    ("engine", "arguments", "per_pod", "nodes", "expected"),
    [
        ("vllm", "m --tensor-parallel-size 32", 8, 4, []),
        ("vllm", "m", 1, 1, []),
        ("vllm", "m --tensor-parallel-size 32", 8, 2, [EngineNote(
            "error", "--tensor-parallel-size",
            "--tensor-parallel-size 32 needs 32 accelerators, but a replica has "
            "2 nodes x 8 = 16")]),
        ("vllm", "m -tp 8 -pp 4", 8, 2, [EngineNote(
            "error", "--tensor-parallel-size",
            "--tensor-parallel-size 8 x --pipeline-parallel-size 4 needs 32 accelerators, but a "
            "replica has 2 nodes x 8 = 16")]),
        ("vllm", "m -tp 2", 1, 1, [EngineNote(
            "error", "--tensor-parallel-size",
            "--tensor-parallel-size 2 needs 2 accelerators, but the pod has 1")]),
        ("vllm", "m -tp 2", 8, 1, [EngineNote(
            "warning", "--tensor-parallel-size",
            "--tensor-parallel-size 2 uses 2 accelerators, but the pod has 8: 6 stay idle")]),
        ("vllm", "m -tp 1", 2, 1, [EngineNote(
            "warning", "--tensor-parallel-size",
            "--tensor-parallel-size 1 uses 1 accelerator, but the pod has 2: 1 stay idle")]),
        ("vllm", "m", 8, 2, [EngineNote(
            "warning", "--tensor-parallel-size",
            "no parallelism is given, so vllm uses 1 accelerator, but a replica has "
            "2 nodes x 8 = 16: give --tensor-parallel-size 16, or ask for fewer accelerators")]),
        # Ranks that run in other deployments do not count.
        ("vllm", "m -tp 2 -dp 16 -dpl 4", 8, 1, []),
        ("vllm", "m -tp 4 -dp 16 -dpl 4", 8, 1, [EngineNote(
            "error", "--tensor-parallel-size",
            "--tensor-parallel-size 4 x --data-parallel-size-local 4 on each node needs 16 "
            "accelerators, but the pod has 8")]),
        ("vllm", "m -dp 16", 8, 1, [EngineNote(
            "error", "--data-parallel-size",
            "--data-parallel-size 16 needs 16 accelerators, but the pod has 8")]),
        ("vllm", "m -tp 8 -dp 16 -dpn 3", 8, 1, []),
        # The head without ranks of its own: what the others run is not said.
        ("vllm", "m -tp 64 -dp 16 -dpl 0", 8, 1, []),
        ("vllm", "m -tp $TP", 8, 1, []),
        ("sglang", "--tp 16 --dp 2 --enable-dp-attention", 8, 2, []),
        ("sglang", "--tp 8 --dp 2", 8, 1, [EngineNote(
            "error", "--tp-size",
            "--tp-size 8 x --dp-size 2 needs 16 accelerators, but the pod has 8")]),
        ("sglang", "", 8, 1, [EngineNote(
            "warning", "--tp-size",
            "no parallelism is given, so sglang uses 1 accelerator, but the pod has 8: give "
            "--tp-size 8, or ask for fewer accelerators")]),
    ],
)  # fmt: skip
def test_check(
    engine: str, arguments: str, per_pod: int, nodes: int, expected: list[EngineNote]
) -> None:
    assert check_parallelism(command(engine, arguments), per_pod, nodes) == expected


def test_through_a_shell_script() -> None:
    script = {"image": "x", "command": ["/bin/sh", "-c", "cd /x && vllm serve m -tp 16 | tee log"]}
    assert [note.severity for note in check_parallelism(read_command(script), 8, 1)] == ["error"]
