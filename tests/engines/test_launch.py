"""Whole commands of leaders and workers, and every refusal."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fusioninfer_pulumi.engines.command import read_command
from fusioninfer_pulumi.engines.launch import Launch, default_launcher, leader_launch, worker_launch

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
STOCK = "vllm/vllm-openai:v0.11.0"
NEWER = "vllm/vllm-openai:v0.12.0"
HEAD = "ray start --head --port=6379 &&"
RAY = "--distributed-executor-backend ray"
JOIN = "ray start --address=$LWS_LEADER_ADDRESS:6379 --block"


def shell(script: str) -> dict[str, Any]:
    return {"image": STOCK, "command": ["/bin/sh", "-c", script]}


def test_default_launcher() -> None:
    engines = ({"image": STOCK}, {"image": "x"}, {"image": "lmsysorg/sglang:v0.5.3"})
    assert [default_launcher(read_command(engine)) for engine in engines] == [
        "ray",
        "ray",
        "multiprocessing",
    ]


@pytest.mark.parametrize(
    ("container", "script"),
    [
        # The documents' example 2.
        (
            {"image": STOCK, "args": ["--model", "deepseek-ai/DeepSeek-R1",
                                      "--tensor-parallel-size", "32"]},
            f"{HEAD} exec vllm serve deepseek-ai/DeepSeek-R1 --tensor-parallel-size 32 {RAY}",
        ),
        ({"image": STOCK, "args": ["-tp", "32", "--model=m"]},
         f"{HEAD} exec vllm serve m -tp 32 {RAY}"),
        ({"image": STOCK, "args": ["m", "--model", "x"]},
         f"{HEAD} exec vllm serve m --model x {RAY}"),
        ({"image": STOCK, "args": ["--model"]}, f"{HEAD} exec vllm serve --model {RAY}"),
        ({"image": STOCK}, f"{HEAD} exec vllm serve {RAY}"),
        ({"image": STOCK, "args": ["vllm", "serve", "m"]}, f"{HEAD} exec vllm serve m {RAY}"),
        ({"image": "x", "command": ["vllm", "serve"], "args": ["--model", "m"]},
         f"{HEAD} exec vllm serve m {RAY}"),
        ({"image": "x", "command": ["vllm", "serve", "m"]}, f"{HEAD} exec vllm serve m {RAY}"),
        # Another program keeps --model as it was written.
        (
            {"image": "x", "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
             "args": ["--model", "m"]},
            f"{HEAD} exec python3 -m vllm.entrypoints.openai.api_server --model m {RAY}",
        ),
        # The backend is not doubled, whatever it is.
        ({"image": STOCK, "args": ["m", "--distributed-executor-backend", "ray"]},
         f"{HEAD} exec vllm serve m {RAY}"),
        ({"image": STOCK, "args": ["m", "--distributed_executor_backend=mp"]},
         f"{HEAD} exec vllm serve m --distributed_executor_backend=mp"),
        # Quoting.
        (
            {"image": STOCK, "args": ["m", "--kv-transfer-config", '{"a": "b"}', "it's", "$HOME",
                                      "$(X)", "", "a\nb"]},
            (f"""{HEAD} exec vllm serve m --kv-transfer-config '{{"a": "b"}}' 'it'"'"'s' '$HOME' """
            f"""'$(X)' '' 'a\nb' {RAY}"""),
        ),
    ],
)  # fmt: skip
def test_ray_leader(container: dict[str, Any], script: str) -> None:
    before = copy.deepcopy(container)
    assert leader_launch(container, "ray", 4) == Launch(["/bin/sh", "-c"], [script], None)
    assert container == before


def test_ray_leader_splits_joined_flags() -> None:
    container = {"image": STOCK, "args": ["--model=m", "--kv-transfer-config '{\"a\": 1}'"]}
    assert leader_launch(container, "ray", 2) == Launch(
        ["/bin/sh", "-c"],
        [f"{HEAD} exec vllm serve m --kv-transfer-config '{{\"a\": 1}}' {RAY}"],
        "an argument that held a flag and its value was split",
    )


def test_ray_leader_of_an_unknown_program() -> None:
    container = {"image": "x", "command": ["/start it"], "args": ["a"]}
    assert leader_launch(container, "ray", 2) == Launch(
        ["/bin/sh", "-c"],
        [f"{HEAD} exec '/start it' a {RAY}"],
        "'/start it' is not a known engine: it must take vLLM's --distributed-executor-backend",
    )


PASS_ON = (
    "the engine is not the last command of the script, so the script has to pass SIGTERM on to it"
)


@pytest.mark.parametrize(
    ("script", "expected", "note"),
    [
        ("vllm serve m", f"{HEAD} exec vllm serve m {RAY}", None),
        ("exec vllm serve m", f"{HEAD} exec vllm serve m {RAY}", None),
        ("A=1 vllm serve m", f"{HEAD} A=1 exec vllm serve m {RAY}", None),
        ("cd x && vllm serve m", f"{HEAD} cd x && exec vllm serve m {RAY}", None),
        ("vllm serve m | tee log", f"{HEAD} vllm serve m {RAY} | tee log", PASS_ON),
        ("vllm serve m >log 2>&1", f"{HEAD} exec vllm serve m {RAY} >log 2>&1", None),
        ("vllm serve m # why", f"{HEAD} exec vllm serve m {RAY} # why", None),
        ("vllm serve m \\\n  -tp 2 \\\n", f"{HEAD} exec vllm serve m \\\n  -tp 2 {RAY} \\\n", None),
        (f"vllm serve m {RAY}", f"{HEAD} exec vllm serve m {RAY}", None),
        ("set -e\nvllm serve m\n", f"{HEAD} {{\nset -e\nexec vllm serve m {RAY}\n}}", None),
        ("x; vllm serve m # why", f"{HEAD} {{\nx; exec vllm serve m {RAY} # why\n}}", None),
        ("x; vllm serve m \\\n", f"{HEAD} {{\nx; exec vllm serve m {RAY} \\\n\n}}", None),
        ("vllm serve m & wait", f"{HEAD} {{\nvllm serve m {RAY} & wait\n}}", PASS_ON),
        (
            "if a; then vllm serve m; else vllm serve n; fi",
            f"{HEAD} {{\nif a; then vllm serve m {RAY}; else vllm serve n {RAY}; fi\n}}",
            PASS_ON,
        ),
    ],
)
def test_ray_leader_of_a_script(script: str, expected: str, note: str | None) -> None:
    assert leader_launch(shell(script), "ray", 2) == Launch(["/bin/sh", "-c", expected], None, note)
    in_args = {"command": ["bash", "-ec"], "args": [script, "name", OUTPUT]}
    assert leader_launch(in_args, "ray", 2) == Launch(
        ["bash", "-ec"], [expected, "name", OUTPUT], note
    )


def test_ray_worker() -> None:
    assert worker_launch({"image": STOCK}, "ray", 2) == Launch(["/bin/sh", "-c"], [JOIN], None)
    assert worker_launch(shell("vllm serve m"), "ray", 2) == Launch(
        ["/bin/sh", "-c"],
        [JOIN],
        "workers only run ray: the container's script runs on the leader alone",
    )


VLLM = ["--distributed-executor-backend", "mp", "--nnodes", "2", "--node-rank"]
MASTER = ["--master-addr", "$(LWS_LEADER_ADDRESS)", "--master-port", "29500"]
LEADER = [*VLLM, "0", *MASTER]
WORKER = [*VLLM, "$(LWS_WORKER_INDEX)", *MASTER, "--headless"]


@pytest.mark.parametrize(
    ("container", "command", "args", "note"),
    [
        ({"image": NEWER, "args": ["--model", "m"]}, [], ["--model", "m"], None),
        ({"image": NEWER}, [], [], None),
        ({"image": "x", "command": ["vllm", "serve"], "args": ["m", OUTPUT]},
         ["vllm", "serve"], ["m", OUTPUT], None),
        ({"image": "x", "command": ["vllm", "serve", "m"]}, ["vllm", "serve", "m"], [], None),
        ({"image": NEWER, "args": ["vllm", "serve", "m"]}, ["vllm", "serve"], ["m"],
         "the program in args was moved to command"),
        ({"image": "x", "args": ["vllm", "serve", "m"]}, [], ["vllm", "serve", "m"], None),
        ({"image": NEWER, "args": ["m", "--a '{}'"]}, [], ["m", "--a", "{}"],
         "an argument that held a flag and its value was split"),
        ({"image": "x", "command": ["vllm", "serve", "m", "--a '{}'"]},
         ["vllm", "serve"], ["m", "--a", "{}"],
         "an argument that held a flag and its value was split"),
        ({"image": "x", "command": ["vllm"], "args": ["serve", "--a '{}'"]},
         ["vllm"], ["serve", "--a", "{}"],
         "an argument that held a flag and its value was split"),
        ({"image": NEWER, "args": ["m", "-dp", "16", "-dpl", "8"]}, [],
         ["m", "-dp", "16", "-dpl", "8"], None),
        ({"image": NEWER, "args": ["m", "-dp", "16", "-dpl", "$(N)"]}, [],
         ["m", "-dp", "16", "-dpl", "$(N)"], None),
    ],
)  # fmt: skip
def test_multiprocessing(
    container: dict[str, Any], command: list[Any], args: list[Any], note: str | None
) -> None:
    assert leader_launch(container, "multiprocessing", 2) == Launch(command, [*args, *LEADER], note)
    assert worker_launch(container, "multiprocessing", 2) == Launch(command, [*args, *WORKER], note)


def test_multiprocessing_does_not_double_flags() -> None:
    args = ["m", "-n", "2", "-r=$(LWS_WORKER_INDEX)", "--master_addr", "x", "--master-port=1"]
    args += ["--distributed-executor-backend=mp"]
    container = {"image": NEWER, "args": args}
    assert leader_launch(container, "multiprocessing", 2) == Launch([], args, None)
    assert worker_launch(container, "multiprocessing", 2) == Launch([], [*args, "--headless"], None)


def test_multiprocessing_of_a_script() -> None:
    container = shell("cd x && vllm serve m | tee log")
    common = "--distributed-executor-backend mp --nnodes 2 --node-rank"
    master = '--master-addr "${LWS_LEADER_ADDRESS}" --master-port 29500'
    assert leader_launch(container, "multiprocessing", 2) == Launch(
        ["/bin/sh", "-c", f"cd x && vllm serve m {common} 0 {master} | tee log"], None, None
    )
    rank = '"${LWS_WORKER_INDEX}"'
    script = f"cd x && vllm serve m {common} {rank} {master} --headless | tee log"
    assert worker_launch(container, "multiprocessing", 2) == Launch(
        ["/bin/sh", "-c", script], None, None
    )


SGLANG = ["python3", "-m", "sglang.launch_server"]


def test_sglang() -> None:
    container = {"image": "lmsysorg/sglang:v0.5.3", "command": SGLANG, "args": ["--tp", "16"]}
    init = ["--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000"]
    assert leader_launch(container, "multiprocessing", 2) == Launch(
        SGLANG, ["--tp", "16", "--nnodes", "2", "--node-rank", "0", *init], None
    )
    assert worker_launch(container, "multiprocessing", 2) == Launch(
        SGLANG,
        ["--tp", "16", "--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)", *init],
        None,
    )
    given = {"args": [*SGLANG, "--nccl-init-addr", "x:1", "--nnodes", "2", "--node-rank", "1"]}
    assert worker_launch(given, "multiprocessing", 2) == Launch([], given["args"], None)
    script = shell("python3 -m sglang.launch_server --tp 16")
    assert worker_launch(script, "multiprocessing", 2).command[2] == (
        "python3 -m sglang.launch_server --tp 16 --nnodes 2 --node-rank "
        '"${LWS_WORKER_INDEX}" --dist-init-addr "${LWS_LEADER_ADDRESS}:20000"'
    )


@pytest.mark.parametrize(
    ("launcher", "nodes"), [("none", 4), ("ray", 1), ("multiprocessing", 1), ("none", 1)]
)
def test_left_as_written(launcher: str, nodes: int) -> None:
    for container, expected in (
        ({"command": ["a"], "args": ["b", OUTPUT]}, Launch(["a"], ["b", OUTPUT], None)),
        ({"args": ["b"]}, Launch([], ["b"], None)),
        ({}, Launch([], None, None)),
    ):
        assert leader_launch(container, launcher, nodes) == expected
        assert worker_launch(container, launcher, nodes) == expected
