"""Generated commands, run by real shells with stand-ins for Ray and the engines."""

from __future__ import annotations

import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from profiles import examples

from fusioninfer_pulumi.api.role import Launcher
from fusioninfer_pulumi.engines.command_flags import get_flag_value, split_joined_flags
from fusioninfer_pulumi.engines.engine_commands import parse_command
from fusioninfer_pulumi.engines.launchers import build_command

STOCK = "vllm/vllm-openai:v0.11.0"
NEWER = "vllm/vllm-openai:v0.12.0"
RAY = ["--distributed-executor-backend", "ray"]
HEAD = ["start", "--head", "--port=6379"]
LWS = {"LWS_LEADER_ADDRESS": "leader.svc", "LWS_WORKER_INDEX": "3", "LWS_GROUP_SIZE": "4"}
SHELLS = [name for name in ("sh", "bash", "dash") if shutil.which(name)]


def leader(container: dict[str, Any], launcher: str, nodes: int, **variables: str) -> list[str]:
    """Return the leader's process arguments, as the kubelet derives them from command and args."""
    return _words(container, launcher, nodes, variables, is_leader=True)


def worker(
    container: dict[str, Any], launcher: str, nodes: int, *, retry: bool = False, **variables: str
) -> list[str]:
    return _words(container, launcher, nodes, variables, is_leader=False, retry=retry)


def _words(
    container: dict[str, Any], launcher: str, nodes: int, variables: dict[str, str], **node: bool
) -> list[str]:
    result = build_command(
        parse_command(container),
        Launcher(launcher),
        nodes,
        is_leader=node["is_leader"],
        waits=node.get("retry", False),
    )
    assert result is not None
    return [expanded(word, variables) for word in [*result.command, *(result.args or [])]]


def expanded(text: str, variables: dict[str, str]) -> str:
    """Expand `$(NAME)` for known names, and `$$` to `$`, as the kubelet does."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


ARGUMENT = st.text(st.characters(exclude_characters="\0", codec="utf-8"))
SHELLY = st.text(alphabet="'\"\\$`(){}[]<>|&;#!*?~=% \t\n\rab1-")


@given(st.lists(ARGUMENT | SHELLY, max_size=6))
def test_arguments_survive_the_shell(host: Any, arguments: list[str]) -> None:
    arguments = [a for a in arguments if split_joined_flags([a]) == [a]]
    container = {"image": "x", "command": ["python3", "/serve.py"], "args": arguments}
    # The kubelet expands `$$` and `$(NAME)` in both forms.
    meant = [expanded(argument, {}) for argument in arguments]
    ray, engine = host.run(leader(container, "ray", 2))
    assert ray.arguments == HEAD
    assert (engine.program, engine.arguments) == ("python3", ["/serve.py", *meant, *RAY])


def test_kv_transfer_config_stays_json(host: Any) -> None:
    config = '{"kv_connector":"PyNcclConnector","kv_role":"kv_producer"}'
    args = ["--model", "deepseek-ai/DeepSeek-R1", "--kv-transfer-config", config]
    _, engine = host.run(leader({"image": STOCK, "args": args}, "ray", 2))
    assert engine.arguments == [
        "serve", "deepseek-ai/DeepSeek-R1", "--kv-transfer-config", config, *RAY
    ]  # fmt: skip


def test_kubelet_variables_are_expanded_inside_quotes(host: Any) -> None:
    container = {"image": STOCK, "args": ["m", "--served-model-name", "a b $(NAME) $NAME"]}
    _, engine = host.run(leader(container, "ray", 2, NAME="x y"))
    assert engine.arguments[-3] == "a b x y $NAME"


SCRIPTS = [
    ("vllm serve m -tp 2", ["serve", "m", "-tp", "2"]),
    ("exec vllm serve m", ["serve", "m"]),
    ("A=1 B='x y' vllm serve m", ["serve", "m"]),
    ("cd / && vllm serve m", ["serve", "m"]),
    ("cd / &&\nvllm serve m", ["serve", "m"]),
    ("vllm serve m | cat", ["serve", "m"]),
    ("true; vllm serve m >/dev/null 2>&1", ["serve", "m"]),
    ("\n# first\nset -eu\nM='a  b'\nvllm serve \"$M\" \\\n  -tp 2 \\\n  # last\n",
     ["serve", "a  b", "-tp", "2"]),
    ("vllm serve m \\\n  -tp 2 \\\n", ["serve", "m", "-tp", "2"]),
    ("true;\nvllm serve m \\\n", ["serve", "m"]),
    ("if false; then exit 1; else vllm serve b; fi", ["serve", "b"]),
    ("for m in a; do vllm serve $m; done", ["serve", "a"]),
    ("run() { vllm serve \"$@\"; }\nrun x y", ["serve", "x", "y"]),
    ("vllm serve m & wait", ["serve", "m"]),
    ("false || vllm serve m", ["serve", "m"]),
    ("(vllm serve m)", ["serve", "m"]),
    ("vllm serve $(echo a b) `echo c` \"$(echo 'd)' e)\"", ["serve", "a", "b", "c", "d) e"]),
    ("vllm serve \"$1\" \"$2\"", ["serve", "one", "two words"]),
]  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("script", "arguments"), SCRIPTS)
def test_launched_scripts_run_the_engine(
    host: Any, shell: str, script: str, arguments: list[str]
) -> None:
    container = {"command": [shell, "-c"], "args": [script, "name", "one", "two words"]}
    ray, engine = host.run(leader(container, "ray", 2))
    assert ray.arguments == HEAD
    assert (engine.program, engine.arguments) == ("vllm", [*arguments, *RAY])


@pytest.mark.parametrize("script", ["vllm serve m", "true; vllm serve m", "false || vllm serve m"])
def test_engine_does_not_run_if_ray_fails(fresh_host: Any, script: str) -> None:
    fresh_host.program("ray", "exit 3\n")
    process = fresh_host.start(leader({"command": ["sh", "-c", script]}, "ray", 2))
    process.communicate(timeout=30)
    assert process.returncode == 3
    assert [call.program for call in fresh_host.calls()] == ["ray"]


def test_errexit_applies_inside_the_braces(fresh_host: Any) -> None:
    script = "set -e\nfalse\nvllm serve m"
    process = fresh_host.start(leader({"command": ["sh", "-c", script]}, "ray", 2))
    process.communicate(timeout=30)
    assert process.returncode == 1
    assert [call.program for call in fresh_host.calls()] == ["ray"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "script", [None, "A=1 vllm serve m", "cd / && vllm serve m", "set -e\nvllm serve m >/dev/null"]
)
def test_engine_receives_sigterm(fresh_host: Any, shell: str, script: str | None) -> None:
    done, ready = (fresh_host.calls_dir.parent / name for name in ("done", "ready"))
    waits = f"trap 'echo $A >{done}; exit 7' TERM\n>{ready}\nwhile :; do sleep 0.05; done"
    fresh_host.program("vllm", waits)
    container: dict[str, Any] = {"image": STOCK, "args": ["--model", "m"]}
    if script is not None:
        container = {"command": [shell, "-c", script]}
    process = fresh_host.start(leader(container, "ray", 2), A="1")
    wait_for(ready.exists)
    assert fresh_host.calls()[-1].pid == process.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert (process.returncode, Path(done).read_text()) == (7, "1\n")


def wait_for(ready: Any) -> None:
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_worker_joins_the_leader(host: Any) -> None:
    (ray,) = host.run(worker({"image": STOCK}, "ray", 2, **LWS), **LWS)
    assert ray.arguments == ["start", "--address=leader.svc:6379", "--block"]


def test_worker_waits_for_the_leader(fresh_host: Any) -> None:
    # The head responds to the third attempt. Then Ray exits, and the worker too.
    tries = fresh_host.calls_dir.parent / "tries"
    fresh_host.program(
        "ray", f'[ "$1" = start ] && exit 5\necho >>{tries}; [ "$(wc -l <{tries})" -ge 3 ]\n'
    )
    fresh_host.program("sleep")
    process = fresh_host.start(worker({"image": STOCK}, "ray", 2, retry=True, **LWS), **LWS)
    output, _ = process.communicate(timeout=30)
    assert output == "waiting for the ray head at leader.svc:6379\n" * 2
    assert process.returncode == 5
    requests = ["health-check", "--address=leader.svc:6379"]
    calls = [call for call in fresh_host.calls() if call.program == "ray"]
    assert [call.arguments for call in calls] == [
        *[requests] * 3,
        ["start", "--address=leader.svc:6379", "--block"],
    ]
    assert calls[-1].pid == process.pid


def test_waiting_worker_ends_on_sigterm(fresh_host: Any) -> None:
    fresh_host.program("ray", "exit 1\n")
    fresh_host.program("sleep", f"exec {shutil.which('sleep')} 30")
    process = fresh_host.start(worker({"image": STOCK}, "ray", 2, retry=True, **LWS), **LWS)
    wait_for(lambda: "sleep" in [call.program for call in fresh_host.calls()])
    process.send_signal(signal.SIGTERM)
    # communicate() would wait for the interrupted sleep, which still has the pipe open.
    assert process.wait(timeout=25) == 143
    process.stdout.close()


MASTER = ["--master-addr", "leader.svc", "--master-port", "29500"]
MP = ["--distributed-executor-backend", "mp", "--nnodes", "4", "--node-rank"]


@pytest.mark.parametrize(
    "container",
    [
        {"image": "x", "command": ["vllm", "serve", "m"]},
        {"image": "vllm/vllm-openai:v0.12.0", "args": ["vllm", "serve", "m"]},
        {"image": "x", "command": ["sh", "-c", "cd / && vllm serve m | cat"]},
    ],
)
def test_multiprocessing_nodes_get_their_ranks(host: Any, container: dict[str, Any]) -> None:
    (engine,) = host.run(worker(container, "multiprocessing", 4, **LWS), **LWS)
    assert engine.arguments == ["serve", "m", *MP, "3", *MASTER, "--headless"]
    (engine,) = host.run(leader(container, "multiprocessing", 4, **LWS), **LWS)
    assert engine.arguments == ["serve", "m", *MP, "0", *MASTER]


def test_sglang_nodes_get_their_ranks(host: Any) -> None:
    container = {"command": ["sh", "-c", "python3 -m sglang.launch_server --tp 32"]}
    (engine,) = host.run(worker(container, "multiprocessing", 4, **LWS), **LWS)
    assert engine.arguments == [
        "-m", "sglang.launch_server", "--tp", "32", "--nnodes", "4", "--node-rank", "3",
        "--dist-init-addr", "leader.svc:20000",
    ]  # fmt: skip


SIZES = ["--data-parallel-size", "16", "--tensor-parallel-size", "2"]


def ranks(host: Any, container: dict[str, Any], *, is_leader: bool) -> list[str]:
    """Return the arguments of the engine on one of four nodes."""
    variables = {"POD_IP": "10.0.0.7", **LWS}
    words = (leader if is_leader else worker)(container, "data-parallel", 4, **variables)
    (call,) = host.run(words, **variables)
    arguments: list[str] = call.arguments
    return arguments


DATA_PARALLEL: list[dict[str, Any]] = [
    {"image": NEWER, "args": ["--model", "m", *SIZES]},
    {"image": NEWER, "args": ["--model", "m", "--data-parallel-size 16", "-tp", "2"]},
    {"image": "x", "command": ["vllm", "serve", "m", *SIZES]},
    {"image": "x", "command": ["vllm", "serve"], "args": ["m", *SIZES]},
    {"image": "x", "command": ["sh", "-c", "cd / && exec vllm serve m " + " ".join(SIZES)]},
    {"image": "x", "command": ["bash", "-c", 'vllm serve "$@"', "--", "m", *SIZES]},
]


@pytest.mark.parametrize("container", DATA_PARALLEL)
def test_leader_serves_on_its_address(host: Any, container: dict[str, Any]) -> None:
    arguments = ranks(host, container, is_leader=True)
    assert arguments[:2] == ["serve", "m"]
    assert get_flag_value(arguments, "--data-parallel-size") == "16"
    assert get_flag_value(arguments, "--data-parallel-size-local") == "4"
    assert get_flag_value(arguments, "--data-parallel-address") == "10.0.0.7"
    # With a first rank, even 0, vLLM balances requests on each node separately.
    assert "--headless" not in arguments
    assert "--data-parallel-start-rank" not in arguments


@pytest.mark.parametrize("container", DATA_PARALLEL)
def test_workers_run_their_ranks(host: Any, container: dict[str, Any]) -> None:
    arguments = ranks(host, container, is_leader=False)
    assert arguments[:2] == ["serve", "m"]
    assert "--headless" in arguments
    assert get_flag_value(arguments, "--data-parallel-size-local") == "4"
    assert get_flag_value(arguments, "--data-parallel-address") == "leader.svc"
    assert get_flag_value(arguments, "--data-parallel-start-rank") == "12"


@examples(0.5)
@given(st.lists(SHELLY, max_size=4))
def test_data_parallel_arguments_survive_the_shell(host: Any, more: list[str]) -> None:
    more = [item for item in more if split_joined_flags([item]) == [item]]
    container = {"image": "x", "command": ["vllm", "serve"], "args": ["m", *SIZES, *more]}
    meant = [expanded(argument, {}) for argument in more]
    arguments = ranks(host, container, is_leader=False)
    assert arguments[2 : 2 + len(SIZES) + len(more)] == [*SIZES, *meant]
