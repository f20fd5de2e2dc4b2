"""Launches vLLM's data parallel ranks on several nodes: each runs its own, the leader serves.

As KServe and llm-d launch them, and `docs/serving/data_parallel_deployment.md` of vLLM describes:
the other nodes run `--headless` from their first rank on, and find the leader by its address.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from fusioninfer_pulumi.engines.command import EngineCommand, read_command
from fusioninfer_pulumi.engines.container_words import ContainerWords, read_words
from fusioninfer_pulumi.engines.flags import flag_value, has_flag, integer, split_joined_flags
from fusioninfer_pulumi.engines.launch_script import (
    engine_script,
    program_and_arguments,
    refuse_whole_outputs,
)
from fusioninfer_pulumi.engines.launch_types import BY_HAND, Launch, LaunchError, launched
from fusioninfer_pulumi.engines.ray_launch import positional_model

#: Variable with a pod's own address. ZeroMQ binds to addresses and not to names, so the leader
#: needs its own (KServe's template resolves LWS_LEADER_ADDRESS for that reason).
LEADER_ADDRESS_ENV = "POD_IP"

_LOCAL = ("--data-parallel-size-local", "-dpl")
_ADDRESS = ("--data-parallel-address", "-dpa")
_RANK = ("--data-parallel-start-rank", "-dpr")
# vLLM refuses these with `--headless`, or they serve HTTP on every node.
_OTHER_BALANCERS = (
    ("--data-parallel-rank", "-dpn"),
    ("--data-parallel-hybrid-lb", "-dph"),
    ("--data-parallel-external-lb", "-dpe"),
    ("--data-parallel-multi-port-external-lb", "-dpm"),
    ("--headless",),
    _RANK,
)


def data_parallel_launch(container: Mapping[str, Any], nodes: int, *, leader: bool) -> Launch:
    """The command of one node: the container's own, with its place among the ranks.

    Args:
        container: The container as in the pod template; its arguments state
            `--data-parallel-size`.
        nodes: Pods of one replica.
        leader: Whether it is the leader, which serves.

    Returns:
        Command and args. On the other nodes a shell works out the first rank, where a node has
        several; it hands the words on as they are.

    Raises:
        LaunchError: When it is not vLLM, or its arguments do not fit.
    """
    command, words = read_command(container), read_words(container)
    refuse_whole_outputs(words)
    if words.script_at is not None:
        return _scripted(words, nodes, leader=leader)
    if command.engine != "vllm":
        raise LaunchError(
            "launcher: data-parallel adds vLLM's arguments, but the container's command and image "
            f"do not name it: use launcher: multiprocessing for SGLang, {BY_HAND}"
        )
    local = _local_ranks(command.arguments, nodes, serve=command.serve or not command.program)
    added = _arguments(command.arguments, local, leader=leader)
    return _listed(command, words, added, None if leader else local)


def _arguments(arguments: Sequence[str], local: int, *, leader: bool) -> list[str]:
    """What is missing, without the first rank; variables as `$(NAME)`."""
    added = [] if has_flag(arguments, *_LOCAL) else [_LOCAL[0], str(local)]
    if not has_flag(arguments, *_ADDRESS):
        address = LEADER_ADDRESS_ENV if leader else "LWS_LEADER_ADDRESS"
        added += [_ADDRESS[0], f"$({address})"]
    return added if leader else [*added, "--headless"]


def _listed(
    command: EngineCommand, words: ContainerWords, added: Sequence[str], local: int | None
) -> Launch:
    program, arguments, joined = program_and_arguments(command, words)
    if all(isinstance(word, str) for word in arguments):
        arguments = list(positional_model(arguments))
    # Only `vllm serve` knows --headless, and older images start something else.
    program = program or ["vllm", "serve"]
    if local is None or local == 1:
        rank = [] if local is None else [_RANK[0], "$(LWS_WORKER_INDEX)"]
        return launched(program, [*arguments, *added, *rank], joined)
    script = f'exec {shlex.join(program)} "$@" {_RANK[0]} {_first_rank(local)}'
    return launched(["/bin/sh", "-c", script, "sh"], [*arguments, *added], joined)


def _scripted(words: ContainerWords, nodes: int, *, leader: bool) -> Launch:
    script = engine_script(words)
    text = script.text
    for call in reversed(script.calls):
        if call.engine != "vllm":
            raise LaunchError(
                f"the container's shell script starts {call.engine}, which does not use launcher: "
                f"data-parallel: use launcher: multiprocessing, {BY_HAND}"
            )
        local = _local_ranks(call.arguments, nodes, serve=call.serve)
        added = "".join(
            # The kubelet would expand $(NAME) too; the shell's own form needs no such knowledge.
            f' "${word[2:-1]}"' if word.startswith("$(") else f" {word}"
            for word in _arguments(call.arguments, local, leader=leader)
        )
        if not leader:
            added += f" {_RANK[0]} {_first_rank(local)}"
        text = f"{text[: call.end]}{added}{text[call.end :]}"
    return launched(*words.with_word(words.script_at or 0, text))


def _first_rank(local: int) -> str:
    return f'"$((LWS_WORKER_INDEX * {local}))"'


def _local_ranks(arguments: Sequence[str], nodes: int, *, serve: bool) -> int:
    given = split_joined_flags(arguments)
    if not serve:
        raise LaunchError(
            "launcher: data-parallel starts workers with --headless, which only `vllm serve` "
            f"obeys: start the engine with `vllm serve`, {BY_HAND}"
        )
    for names in _OTHER_BALANCERS:
        if has_flag(given, *names):
            raise LaunchError(
                f"{names[0]} cannot be used with launcher: data-parallel, which lets the leader "
                f"alone serve and gives every node its ranks: leave it out, {BY_HAND}"
            )
    if flag_value(given, "--data-parallel-backend", "-dpb") == "ray":
        raise LaunchError(
            "--data-parallel-backend ray cannot be used with launcher: data-parallel: leave it "
            f"out, use launcher: ray, {BY_HAND}"
        )
    data = integer(flag_value(given, "--data-parallel-size", "-dp"))
    if data is None:
        raise LaunchError(
            "launcher: data-parallel divides the ranks of --data-parallel-size among the nodes: "
            "state parallelism.data and dataLocal"
        )
    local = integer(flag_value(given, *_LOCAL))
    if local is None and data % nodes == 0:
        return data // nodes
    if local is None or local * nodes != data:
        share = "" if local is None else f" of {local} ranks each ({_LOCAL[0]})"
        raise LaunchError(
            f"--data-parallel-size {data} cannot be divided among {nodes} nodes{share}"
        )
    return local
