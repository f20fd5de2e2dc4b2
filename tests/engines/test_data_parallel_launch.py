"""vLLM's data parallel ranks on several nodes, run by real shells against a stand-in."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from fusioninfer_pulumi.engines.flags import flag_value, split_joined_flags
from fusioninfer_pulumi.engines.launch import LaunchError, leader_launch, worker_launch

STOCK = "vllm/vllm-openai:v0.12.0"
ENV = {"POD_IP": "10.0.0.7", "LWS_LEADER_ADDRESS": "leader.svc", "LWS_WORKER_INDEX": "3"}
SIZES = ["--data-parallel-size", "16", "--tensor-parallel-size", "2"]
SHELLY = st.text(alphabet="'\"\\$`(){}[]<>|&;#!*?~=% \t\n\rab1")


def engine(host: Any, container: dict[str, Any], *, leader: bool) -> list[str]:
    """The arguments that the engine of one of four nodes gets."""
    launch = (leader_launch if leader else worker_launch)(container, "data-parallel", 4)
    words = [
        # What the kubelet makes of them.
        re.sub(r"\$\((\w+)\)", lambda name: ENV.get(name[1], name[0]), word)
        for word in [*launch.command, *(launch.args or [])]
    ]
    (call,) = host.run(words, **ENV)
    arguments: list[str] = call.arguments
    return arguments


CONTAINERS: list[dict[str, Any]] = [
    {"image": STOCK, "args": ["--model", "m", *SIZES]},
    {"image": STOCK, "args": ["--model", "m", "--data-parallel-size 16", "-tp", "2"]},
    {"image": "x", "command": ["vllm", "serve", "m", *SIZES]},
    {"image": "x", "command": ["vllm", "serve"], "args": ["m", *SIZES]},
    {"image": "x", "command": ["sh", "-c", "cd / && exec vllm serve m " + " ".join(SIZES)]},
    {"image": "x", "command": ["bash", "-c", 'vllm serve "$@"', "--", "m", *SIZES]},
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_leader_serves_from_its_own_address(host: Any, container: dict[str, Any]) -> None:
    arguments = engine(host, container, leader=True)
    assert arguments[:2] == ["serve", "m"]
    assert flag_value(arguments, "--data-parallel-size") == "16"
    assert flag_value(arguments, "--data-parallel-size-local") == "4"
    assert flag_value(arguments, "--data-parallel-address") == "10.0.0.7"
    # With a first rank, were it 0, vLLM balances on every node by itself.
    assert "--headless" not in arguments
    assert "--data-parallel-start-rank" not in arguments


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_other_nodes_run_their_ranks(host: Any, container: dict[str, Any]) -> None:
    arguments = engine(host, container, leader=False)
    assert arguments[:2] == ["serve", "m"]
    assert "--headless" in arguments
    assert flag_value(arguments, "--data-parallel-size-local") == "4"
    assert flag_value(arguments, "--data-parallel-address") == "leader.svc"
    assert flag_value(arguments, "--data-parallel-start-rank") == "12"


def test_one_rank_a_node_needs_no_shell() -> None:
    container = {"image": STOCK, "args": ["--model", "m", "--data-parallel-size", "4"]}
    launch = worker_launch(container, "data-parallel", 4)
    assert launch.command == ["vllm", "serve"]
    assert (launch.args or [])[-2:] == ["--data-parallel-start-rank", "$(LWS_WORKER_INDEX)"]


@examples(0.5)
@given(st.lists(SHELLY, max_size=4))
def test_arguments_come_back(host: Any, more: list[str]) -> None:
    more = [each for each in more if split_joined_flags([each]) == [each]]
    container = {"image": "x", "command": ["vllm", "serve"], "args": ["m", *SIZES, *more]}
    arguments = engine(host, container, leader=False)
    assert arguments[2 : 2 + len(SIZES) + len(more)] == [*SIZES, *more]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"image": "lmsysorg/sglang:v0.5.3", "args": SIZES}, "use launcher: multiprocessing"),
    ({"image": STOCK, "args": ["--model", "m"]}, "state parallelism.data"),
    ({"image": STOCK, "args": ["--data-parallel-size", "6"]}, "6 cannot be divided among 4 nodes"),
    ({"image": STOCK, "args": [*SIZES, "-dpl", "2"]}, "of 2 ranks each"),
    ({"image": STOCK, "args": [*SIZES, "--headless"]}, "--headless cannot be used"),
    ({"image": STOCK, "args": [*SIZES, "-dpb", "ray"]}, "use launcher: ray"),
    ({"command": ["python3", "-m", "vllm.entrypoints.openai.api_server", *SIZES]}, "`vllm serve`"),
    ({"command": ["sh", "-c", "python3 -m sglang.launch_server"]}, "starts sglang"),
]


@pytest.mark.parametrize(("container", "said"), REFUSED)
def test_what_cannot_be_launched_is_refused(container: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(said)):
        worker_launch(container, "data-parallel", 4)
