"""Complete command lines of leaders and workers, and complete rejection messages."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from rows import each_row

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_editing import EditError
from fusioninfer_pulumi.engines.engine import ContainerCommand
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.launchers import build_command, choose_launcher

OUTPUT: Any = type("Output", (), {"__module__": "pulumi.output"})()
STOCK = "vllm/vllm-openai:v0.11.0"
NEWER = "vllm/vllm-openai:v0.12.0"
HEAD = "ray start --head --port=6379 &&"
RAY = "--distributed-executor-backend ray"
JOIN = "ray start --address=$LWS_LEADER_ADDRESS:6379 --block"


def leader_launch(
    container: dict[str, Any], launcher: str, nodes: int, *, is_leader: bool = True
) -> ContainerCommand | None:
    return build_command(parse_command(container), Launcher(launcher), nodes, is_leader=is_leader)


def worker_launch(container: dict[str, Any], launcher: str, nodes: int) -> ContainerCommand | None:
    return leader_launch(container, launcher, nodes, is_leader=False)


def shell(script: str) -> dict[str, Any]:
    return {"image": STOCK, "command": ["/bin/sh", "-c", script]}


def test_default_launcher_depends_on_engine() -> None:
    engines = ({"image": STOCK}, {"image": "x"}, {"image": "lmsysorg/sglang:v0.5.3"})
    assert [choose_launcher(parse_command(engine).engine, 2) for engine in engines] == [
        "ray",
        "ray",
        "multiprocessing",
    ]
    vllm = parse_command({"image": STOCK}).engine
    assert [choose_launcher(vllm, 2, data) for data in (4, 3)] == ["data-parallel", "ray"]


@each_row(
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
        # Other programs keep --model unchanged.
        (
            {"image": "x", "command": ["python3", "-m", "vllm.entrypoints.openai.api_server"],
             "args": ["--model", "m"]},
            f"{HEAD} exec python3 -m vllm.entrypoints.openai.api_server --model m {RAY}",
        ),
        # An existing backend is not repeated.
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
def test_ray_leader_starts_the_head(container: dict[str, Any], script: str) -> None:
    before = copy.deepcopy(container)
    assert leader_launch(container, "ray", 4) == ContainerCommand(["/bin/sh", "-c"], [script])
    assert container == before


def test_ray_leader_splits_joined_flags() -> None:
    container = {"image": STOCK, "args": ["--model=m", "--kv-transfer-config '{\"a\": 1}'"]}
    assert leader_launch(container, "ray", 2) == ContainerCommand(
        ["/bin/sh", "-c"], [f"{HEAD} exec vllm serve m --kv-transfer-config '{{\"a\": 1}}' {RAY}"]
    )


def test_ray_leader_with_unknown_program_starts_the_head() -> None:
    container = {"image": "x", "command": ["/start it"], "args": ["a"]}
    assert leader_launch(container, "ray", 2) == ContainerCommand(
        ["/bin/sh", "-c"], [f"{HEAD} exec '/start it' a {RAY}"]
    )


@each_row(
    ("script", "expected"),
    [
        ("vllm serve m", f"{HEAD} exec vllm serve m {RAY}"),
        ("exec vllm serve m", f"{HEAD} exec vllm serve m {RAY}"),
        ("A=1 vllm serve m", f"{HEAD} A=1 exec vllm serve m {RAY}"),
        ("cd x && vllm serve m", f"{HEAD} cd x && exec vllm serve m {RAY}"),
        ("vllm serve m | tee log", f"{HEAD} vllm serve m {RAY} | tee log"),
        ("vllm serve m >log 2>&1", f"{HEAD} exec vllm serve m {RAY} >log 2>&1"),
        ("vllm serve m # why", f"{HEAD} exec vllm serve m {RAY} # why"),
        ("vllm serve m \\\n  -tp 2 \\\n", f"{HEAD} exec vllm serve m \\\n  -tp 2 {RAY} \\\n"),
        (f"vllm serve m {RAY}", f"{HEAD} exec vllm serve m {RAY}"),
        ("set -e\nvllm serve m\n", f"{HEAD} {{\nset -e\nexec vllm serve m {RAY}\n}}"),
        ("x; vllm serve m # why", f"{HEAD} {{\nx; exec vllm serve m {RAY} # why\n}}"),
        ("x; vllm serve m \\\n", f"{HEAD} {{\nx; exec vllm serve m {RAY} \\\n\n}}"),
        ("vllm serve m & wait", f"{HEAD} {{\nvllm serve m {RAY} & wait\n}}"),
        ("if a; then vllm serve m; fi", f"{HEAD} {{\nif a; then vllm serve m {RAY}; fi\n}}"),
    ],
)
def test_ray_leader_script_starts_the_head(script: str, expected: str) -> None:
    assert leader_launch(shell(script), "ray", 2) == ContainerCommand(
        ["/bin/sh", "-c", expected], None
    )
    in_args = {"command": ["bash", "-ec"], "args": [script, "name", OUTPUT]}
    assert leader_launch(in_args, "ray", 2) == ContainerCommand(
        ["bash", "-ec"], [expected, "name", OUTPUT]
    )


def test_ray_worker_joins_the_head() -> None:
    assert worker_launch({"image": STOCK}, "ray", 2) == ContainerCommand(["/bin/sh", "-c"], [JOIN])
    assert worker_launch(shell("vllm serve m"), "ray", 2) == ContainerCommand(
        ["/bin/sh", "-c"], [JOIN]
    )


VLLM = ["--distributed-executor-backend", "mp", "--nnodes", "2", "--node-rank"]
MASTER = ["--master-addr", "$(LWS_LEADER_ADDRESS)", "--master-port", "29500"]
LEADER = [*VLLM, "0", *MASTER]
WORKER = [*VLLM, "$(LWS_WORKER_INDEX)", *MASTER, "--headless"]


@each_row(
    ("container", "command", "args"),
    [
        ({"image": NEWER, "args": ["--model", "m"]}, [], ["--model", "m"]),
        ({"image": NEWER}, [], []),
        ({"image": "x", "command": ["vllm", "serve"], "args": ["m", OUTPUT]},
         ["vllm", "serve"], ["m", OUTPUT]),
        ({"image": "x", "command": ["vllm", "serve", "m"]}, ["vllm", "serve", "m"], []),
        ({"image": NEWER, "args": ["vllm", "serve", "m"]}, ["vllm", "serve"], ["m"]),
        ({"image": "x", "args": ["vllm", "serve", "m"]}, [], ["vllm", "serve", "m"]),
        ({"image": NEWER, "args": ["m", "--a '{}'"]}, [], ["m", "--a", "{}"]),
        ({"image": "x", "command": ["vllm", "serve", "m", "--a '{}'"]},
         ["vllm", "serve", "m", "--a", "{}"], []),
        ({"image": "x", "command": ["vllm"], "args": ["serve", "--a '{}'"]},
         ["vllm"], ["serve", "--a", "{}"]),
        ({"image": NEWER, "args": ["m", "-dp", "16", "-dpl", "8"]}, [],
         ["m", "-dp", "16", "-dpl", "8"]),
        ({"image": NEWER, "args": ["m", "-dp", "16", "-dpl", "$(N)"]}, [],
         ["m", "-dp", "16", "-dpl", "$(N)"]),
    ],
)  # fmt: skip
def test_multiprocessing_adds_ranks(
    container: dict[str, Any], command: list[Any], args: list[Any]
) -> None:
    assert leader_launch(container, "multiprocessing", 2) == ContainerCommand(
        command, [*args, *LEADER]
    )
    assert worker_launch(container, "multiprocessing", 2) == ContainerCommand(
        command, [*args, *WORKER]
    )


def test_multiprocessing_does_not_repeat_flags() -> None:
    args = ["m", "-n", "2", "-r=$(LWS_WORKER_INDEX)", "--master_addr", "x", "--master-port=1"]
    args += ["--distributed-executor-backend=mp"]
    container = {"image": NEWER, "args": args}
    assert leader_launch(container, "multiprocessing", 2) is None
    assert worker_launch(container, "multiprocessing", 2) == ContainerCommand(
        [], [*args, "--headless"]
    )
    joined = leader_launch({"image": NEWER, "args": ["m", "--nnodes 2"]}, "multiprocessing", 2)
    assert joined is not None
    assert (joined.args or []).count("--nnodes") == 1


def test_multiprocessing_adds_ranks_to_a_script() -> None:
    container = shell("cd x && vllm serve m | tee log")
    common = "--distributed-executor-backend mp --nnodes 2 --node-rank"
    master = '--master-addr "${LWS_LEADER_ADDRESS}" --master-port 29500'
    assert leader_launch(container, "multiprocessing", 2) == ContainerCommand(
        ["/bin/sh", "-c", f"cd x && vllm serve m {common} 0 {master} | tee log"], None
    )
    rank = '"${LWS_WORKER_INDEX}"'
    script = f"cd x && vllm serve m {common} {rank} {master} --headless | tee log"
    assert worker_launch(container, "multiprocessing", 2) == ContainerCommand(
        ["/bin/sh", "-c", script], None
    )


SGLANG = ["python3", "-m", "sglang.launch_server"]


def test_sglang_launches_with_multiprocessing() -> None:
    container = {"image": "lmsysorg/sglang:v0.5.3", "command": SGLANG, "args": ["--tp", "16"]}
    init = ["--dist-init-addr", "$(LWS_LEADER_ADDRESS):20000"]
    assert leader_launch(container, "multiprocessing", 2) == ContainerCommand(
        SGLANG, ["--tp", "16", "--nnodes", "2", "--node-rank", "0", *init]
    )
    assert worker_launch(container, "multiprocessing", 2) == ContainerCommand(
        SGLANG, ["--tp", "16", "--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)", *init]
    )
    value = {"args": [*SGLANG, "--nccl-init-addr", "x:1", "--nnodes", "2", "--node-rank", "1"]}
    assert worker_launch(value, "multiprocessing", 2) is None
    script = shell("python3 -m sglang.launch_server --tp 16")
    result = worker_launch(script, "multiprocessing", 2)
    assert result is not None
    assert result.command[2] == (
        "python3 -m sglang.launch_server --tp 16 --nnodes 2 --node-rank "
        '"${LWS_WORKER_INDEX}" --dist-init-addr "${LWS_LEADER_ADDRESS}:20000"'
    )


OUTPUT_SCRIPT = "the script of the container's shell is a pulumi Output"
NO_ENGINE = "the container's shell script starts neither vLLM nor SGLang"
RAY_TWICE = "the container's shell script starts ray itself, so a second ray start would fail"
HEADLESS = "starts workers with --headless, which only `vllm serve` accepts"
RANKS_OF_RAY = "--data-parallel-backend ray cannot be used with launcher: {}; remove it"
API_SERVER = ["python3", "-m", "vllm.entrypoints.openai.api_server"]
SIZES = ["--data-parallel-size", "16", "--tensor-parallel-size", "2"]


@each_row(
    ("container", "launcher", "message"),
    [
        ({"image": "me/model:1", "args": ["m"]}, "ray", "program that its image starts is unknown"),
        ({"image": OUTPUT, "args": ["m"]}, "ray", "the program that its image starts is unknown"),
        ({"command": ["sh", "-c", OUTPUT]}, "ray", OUTPUT_SCRIPT),
        (shell("cat <<X\nX\nvllm serve m"), "ray", "script has a here-document (<<), which is"),
        (shell("vllm serve 'm"), "ray", "script has an unclosed ', which is not supported"),
        (shell("./start.sh"), "ray", NO_ENGINE),
        (shell("bash -c 'vllm serve m'"), "ray", NO_ENGINE),
        (shell("vllm serve m & sglang serve x"), "ray", "starts an engine in several places"),
        (shell("if a; then vllm serve m; else vllm serve n; fi"), "multiprocessing",
         "starts an engine in several places; write the command as a list"),
        (shell("ray start --head; vllm serve m"), "ray", RAY_TWICE),
        (shell("bash /v/multi-node-serving.sh leader; vllm serve m"), "ray", RAY_TWICE),
        ({"command": SGLANG}, "ray", "SGLang does not support launcher: ray; use launcher: mu"),
        (shell("sglang serve m"), "ray", "SGLang does not support launcher: ray"),
        ({"command": ["/start"]}, "multiprocessing", "command and image name neither vLLM nor"),
        ({"command": ["vllm", "serve"], "args": OUTPUT}, "multiprocessing",
         "args is a pulumi Output as a whole"),
        ({"command": ["sh", "-c", OUTPUT]}, "multiprocessing", OUTPUT_SCRIPT),
        (shell("./start.sh"), "multiprocessing", NO_ENGINE),
        ({"command": API_SERVER}, "multiprocessing", HEADLESS),
        ({"image": NEWER, "args": ["m", "--headless"]}, "multiprocessing", "--headless cannot be"),
        ({"image": NEWER, "args": ["m", "-dp", "2", "-dpr", "1"]}, "multiprocessing",
         "--data-parallel-start-rank cannot be used with launcher: multiprocessing"),
        ({"image": NEWER, "args": ["m", "-dp", "2", "--data-parallel-hybrid-lb"]},
         "multiprocessing", "--data-parallel-hybrid-lb cannot be used"),
        ({"image": NEWER, "args": ["m", "-dp", "2", "-dpb", "ray"]}, "multiprocessing",
         RANKS_OF_RAY.format("multiprocessing")),
        ({"image": "lmsysorg/sglang:v0.5.3", "args": SIZES}, "data-parallel",
         "use launcher: multiprocessing"),
        ({"image": NEWER, "args": ["--model", "m"]}, "data-parallel", "set parallelism.data"),
        ({"image": NEWER, "args": ["--data-parallel-size", "6"]}, "data-parallel",
         "6 cannot be divided among 4 nodes"),
        ({"image": NEWER, "args": [*SIZES, "-dpl", "2"]}, "data-parallel", "of 2 ranks each"),
        ({"image": NEWER, "args": [*SIZES, "--headless"]}, "data-parallel", "--headless cannot be"),
        ({"image": NEWER, "args": [*SIZES, "-dpb", "ray"]}, "data-parallel",
         RANKS_OF_RAY.format("data-parallel")),
        ({"command": [*API_SERVER, *SIZES]}, "data-parallel", HEADLESS),
    ],
)  # fmt: skip
def test_command_that_cannot_be_launched_is_rejected(
    container: dict[str, Any], launcher: str, message: str
) -> None:
    with pytest.raises(EditError, match=re.escape(message)):
        leader_launch(container, launcher, 4)


def test_sglang_workers_do_not_use_ray() -> None:
    with pytest.raises(EditError):
        worker_launch({"command": SGLANG}, "ray", 2)


def test_one_data_parallel_rank_per_node_needs_no_shell() -> None:
    container = {"image": NEWER, "args": ["--model", "m", "--data-parallel-size", "4"]}
    result = worker_launch(container, "data-parallel", 4)
    assert result is not None
    assert result.command == ["vllm", "serve"]
    assert (result.args or [])[-2:] == ["--data-parallel-start-rank", "$(LWS_WORKER_INDEX)"]
